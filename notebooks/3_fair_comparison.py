# %% [markdown]
# # A fair comparison
#
# Does the kind of position encoding matter for dates? One run of each proves little: seeds differ, and so do costs.
# `regard.compare` trains every variant with the same budget and several seeds, evaluates all on the same test data,
# and tests the differences for significance.

# %%
from pathlib import Path

from dates import MINIATURE, SEARCH, pairs

import regard

train, test = pairs(4000), pairs(300, seed=2)

# %% [markdown]
# The variants are settings on top of the same data. The first is what all others are compared with. The budget is
# equal for all, here training FLOPs of a few hundred steps; an equal number of steps would favour the variant whose
# steps cost more. What is not set is decided once, for all of them. With `tune=True`, each variant's learning rate
# would be chosen first, on validation data.

# %%
variants = {
    "sinusoidal": {"model.position": "sinusoidal"},
    "rotary": {"model.position": "rotary"},
    "none": {"model.position": "none"},
}
table = regard.compare(
    variants,
    train,
    test=test,
    task="translation",
    tokenizer="char",
    model__dropout=0.1,
    out="runs/positions",
    seeds=1 if MINIATURE else 3,
    budget="flops=1e10" if MINIATURE else "flops=5e11",
    **SEARCH,
)
table

# %% [markdown]
# How to read it: score and spread over the seeds; a star where the difference from the first row is significant in
# the pooled test and has the same sign in every seed. A variant without a star has not been shown to differ, which
# is not the same as being equal: more seeds or a larger budget may decide.

# %%
for row in table.rows:
    print(f"{row.name:12} {table.metric} {row.mean:6.2f}   {row.params:,} parameters   {row.flops:.2e} FLOPs")

# %% [markdown]
# Every run is kept, complete with its recipe, under `runs/positions/runs`; the tables are there as Markdown, LaTeX
# and JSON.

# %%
sorted(path.name for path in Path("runs/positions").iterdir())
