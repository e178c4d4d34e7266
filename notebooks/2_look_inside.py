# %% [markdown]
# # Look inside
#
# What does the model of the first notebook attend to while it generates a date, which heads does it need, and where
# is the month stored? Every weight and vector is a numpy array.

# %%
import matplotlib.pyplot as plt
import numpy as np
from dates import BUDGET, pairs

import regard

train, test = pairs(8000), pairs(300, seed=2)
run = regard.train(
    train, test=test, task="translation", out="runs/dates", tokenizer="char", model__dropout=0.1, resume=True, **BUDGET
)

# %% [markdown]
# ## Attention weights
#
# `run.attention(text)` has one array `[layer, head, query, key]` for each part: `encoder`, `decoder` and `cross`.
# These are the exact weights of the reference attention. Cross-attention in a translator is an alignment: here the
# queries are the characters of the ISO date, the keys those of the written one. With a `target`, the model reads
# that one in place of its own output.

# %%
text, iso = "24 December 2031", "2031-12-24"
cross = run.attention(text, target=iso).cross
layers, heads = cross.weights.shape[:2]
figure, axes = plt.subplots(layers, heads, figsize=(3 * heads, 2.4 * layers), squeeze=False)
for layer in range(layers):
    for head in range(heads):
        axis = axes[layer, head]
        axis.imshow(cross.weights[layer, head], cmap="Blues", aspect="auto")
        axis.set_title(f"layer {layer}, head {head}", fontsize=8)
        axis.set_xticks(range(len(cross.keys)), cross.keys, fontsize=6)
        axis.set_yticks(range(len(cross.queries)), cross.queries, fontsize=6)
figure.tight_layout()

# %% [markdown]
# ## Which heads matter?
#
# `run.patch` replaces an output while the `with` block lasts, by zeros if no value is given. Each cross-attention
# head is ablated in turn. The loss on test dates tells what it is worth: −log p of each right character, from
# `run.logits`. A head that attends to something need not matter; only the ablation shows it.


# %%
def loss(examples: list[tuple[str, str]]) -> float:
    """Mean −log p of the characters of the right dates."""
    losses = []
    for source, target in examples:
        logits = run.logits(source, target=target)
        right = [logits.names.index(character) for character in target]
        losses += [-np.log(logits.probabilities[position, token]) for position, token in enumerate(right)]
    return float(np.mean(losses))


some = test[:40]
whole = loss(some)
worth = np.zeros((layers, heads))
for layer in range(layers):
    for head in range(heads):
        with run.patch("cross", layer=layer, head=head):
            worth[layer, head] = loss(some) - whole
print(f"loss {whole:.4f}; more without a head:")
print(worth.round(4))

# %% [markdown]
# Where no single head is missed, others compute the same. The cross-attention of a whole layer is another matter:

# %%
for layer in range(layers):
    with run.patch("cross", layer=layer):
        exact = run.evaluate(some).metrics["exact_match"]
    print(f"without the cross-attention of layer {layer}: exact match {exact:.2f}")

# %% [markdown]
# ## Where is the month?
#
# Activation patching: the model translates one date, but at some positions and one layer its hidden vectors are
# those of another date. Where the output takes over the other month, the month is stored there. Both dates have the
# same length, so that positions agree.

# %%
clean, other = "24 December 2031", "24 November 2031"
vectors = run.hidden(other).encoder  # 1 + layers, positions, width: row l is the output of layer l
month = range(3, 11)
for layer in range(len(vectors) - 1):
    with run.patch("encoder", layer=layer, position=list(month), value=vectors[layer + 1]):
        print(f"encoder layer {layer}, the month's positions replaced: {run.translate(clean)}")

# %% [markdown]
# ## The page
#
# The page shows all of this at once: every head, the four steps of attention with their values, the beam,
# positions, and training from checkpoint to checkpoint.

# %%
run.look(text)
