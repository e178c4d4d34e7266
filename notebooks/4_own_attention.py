# %% [markdown]
# # An attention kind of your own
#
# A kind of attention is a config class with a `kind`, and what it builds. Here it is a mask: each token attends to
# its neighbours and to every fourth token, the strided pattern of Child 2019. The class is in a file of its own,
# `strided.py`, the plugin, so that a trained run can be opened again elsewhere.

# %%
from pathlib import Path

import numpy as np
from dates import BUDGET, pairs

import regard

train, test = pairs(8000), pairs(300, seed=2)
print(Path("strided.py").read_text(encoding="utf-8"))

# %% [markdown]
# The plugin is named where the run is trained; its kind and its settings are then like any other's, checked and
# explained. The mask acts in encoder and decoder; cross-attention stays full.

# %%
run = regard.train(
    train,
    test=test,
    task="translation",
    out="runs/strided",
    plugins=["strided.py"],
    model__attention={"kind": "strided", "reach": 2, "stride": 4},
    tokenizer="char",
    model__dropout=0.1,
    resume=True,
    **BUDGET,
)
run.evaluate().metrics

# %% [markdown]
# A mistake in a setting is one sentence:

# %%
try:
    regard.train(
        train,
        task="translation",
        out="runs/wrong",
        plugins=["strided.py"],
        model__attention={"kind": "strided", "strid": 3},
    )
except regard.RegardError as error:
    print(error)

# %% [markdown]
# The weights show the pattern: everything outside of it is exactly zero.

# %%
weights = run.attention("24 December 2031", target="2031-12-24").encoder.weights
distance = np.abs(np.subtract.outer(range(weights.shape[2]), range(weights.shape[3])))
outside = (distance > 2) & (distance % 4 != 0)
float(weights[:, :, outside].max()), float(weights[:, :, ~outside].sum(-1).mean())

# %% [markdown]
# A plugin is code, so opening a run never executes one that you have not named: `regard.load("runs/strided",
# plugins=["strided.py"])`. The run has a copy of the file and its SHA-256. Tasks, positions, norms, models and
# optimisers are extended in the same way: docs/extending.md.

# %%
regard.load("runs/strided", plugins=["strided.py"])
