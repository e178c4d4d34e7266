# %% [markdown]
# # A first model
#
# A Transformer learns to translate dates, from all the ways people write them into ISO 8601. The data is made in
# memory (`dates.py`), training takes two minutes on two CPU cores, and nothing is set but the task and the time.

# %%

from dates import BUDGET, pairs

import regard

train, test = pairs(8000), pairs(300, seed=2)
train[:4]

# %% [markdown]
# `regard.train` takes pairs, `(text, label)`, texts, a dict of columns, a table of pandas or Arrow, a Hugging Face
# dataset, names of files, or a recipe. A twentieth of the pairs is held out for validation. Whatever is not set
# follows from data and budget: here an encoder-decoder. With `resume=True` the cell can be run again: a run that
# has finished is only opened.

# %%
losses: list[float] = []
run = regard.train(
    train,
    test=test,
    task="translation",
    out="runs/dates",
    tokenizer="char",
    model__dropout=0.1,
    resume=True,
    on_step=lambda line: losses.append(line["loss"]),
    **BUDGET,
)
run

# %% [markdown]
# Use it: one text gives one text, a list gives a list.

# %%
run.translate(["the 4. of Jul 1976", "12/24/2031", "Friday, 13 November 2026"])

# %% [markdown]
# Scores on the test dates, which training never used. `exact_match` is the share of dates that are right in every
# character.

# %%
report = run.evaluate()
report.metrics

# %% [markdown]
# `run.metrics` has every line that training logged, as a DataFrame where pandas is installed; `run.recipe` every
# setting. The same run is on the disk, for the command line too: `regard translate runs/dates`.

# %%
run.recipe.model.kind, run.recipe.model.width, run.recipe.model.depth, regard.load("runs/dates").step
