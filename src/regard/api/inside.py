"""What a model computes on one text, as numpy arrays: attention weights, logits, hidden vectors."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, no_grad

from regard.decode.search import AnySearch
from regard.errors import RegardError
from regard.look import TraceConfig
from regard.look.activations import PartName, StackName, record_residuals
from regard.look.groups import by_group
from regard.look.model_input import InputBuilder, ModelInput, input_builder
from regard.look.replay import replay
from regard.look.trace import model_input, search_for
from regard.tasks.generation import AnyInput
from regard.tasks.trained import Trained
from regard.text.tokenizer import Tokenizer

Floats = NDArray[np.float32]
HEIGHT = 760
"""Pixels of the page in a notebook."""


@dataclass(frozen=True, repr=False)
class AttentionWeights:
    """The attention weights of one part of a model: the encoder, the decoder, or the cross-attention.

    >>> import regard
    >>> cross = regard.load("runs/pairs").attention("The dog sleeps.", target="Der Hund schläft.").cross
    >>> cross.weights.shape[0], cross.weights.dtype          # layer, head, query, key
    (2, dtype('float32'))
    >>> cross.queries[0], cross.keys[-1]
    ('<bos>', '<eos>')
    >>> bool((abs(cross.weights.sum(-1) - 1) < 1e-5).all())     # each row is a distribution over the keys
    True
    """

    layers: list[Floats]
    """(head, query, key) for each layer."""
    queries: list[str]
    """The tokens that attend."""
    keys: list[str]
    """The tokens that are attended to; where a kind of attention compresses its keys, their numbers."""

    @property
    def weights(self) -> Floats:
        """(layer, head, query, key), exactly as the reference attention computes them."""
        if len({layer.shape for layer in self.layers}) > 1:
            shapes = ", ".join(str(layer.shape) for layer in self.layers)
            raise RegardError(f"attention: the layers have different shapes ({shapes}); take them one by one: .layers")
        return np.stack(self.layers)

    def __array__(self, dtype: np.dtype[np.float32] | None = None, copy: bool | None = None) -> Floats:
        return self.weights if dtype is None else self.weights.astype(dtype)

    def __repr__(self) -> str:
        shape = self.weights.shape if len({layer.shape for layer in self.layers}) == 1 else f"{len(self.layers)} layers"
        return f"AttentionWeights({shape}, queries={_few(self.queries)}, keys={_few(self.keys)})"


@dataclass(frozen=True)
class Attention:
    """The attention weights of all parts of a model for one text.

    >>> import regard
    >>> attention = regard.load("runs/pairs").attention("The dog sleeps.")
    >>> list(attention.parts)
    ['encoder', 'decoder', 'cross']
    >>> attention.encoder.queries == attention.encoder.keys == attention.cross.keys
    True
    """

    parts: dict[PartName, AttentionWeights]
    output: str
    """What the model generated, or the target that was given; empty for a classifier."""

    @property
    def encoder(self) -> AttentionWeights:
        return self._part("encoder")

    @property
    def decoder(self) -> AttentionWeights:
        return self._part("decoder")

    @property
    def cross(self) -> AttentionWeights:
        return self._part("cross")

    def _part(self, name: PartName) -> AttentionWeights:
        if name not in self.parts:
            raise RegardError(f"attention: this model has no attention called {name}; it has {', '.join(self.parts)}")
        return self.parts[name]


@dataclass(frozen=True, repr=False)
class Logits:
    """The logits of one text.

    >>> import regard
    >>> logits = regard.load("runs/reviews").logits("What a dull film!")
    >>> logits.names, logits.values.shape
    (['negative', 'positive'], (2,))
    >>> round(float(logits.probabilities.sum()), 4)
    1.0
    """

    values: Floats
    """(position, name); of a model that gives one label to a text, (name,)."""
    tokens: list[str]
    """The token at each position; generated text is predicted one position ahead."""
    names: list[str]
    """What each logit is for: the labels, or the tokens of the vocabulary."""

    @property
    def probabilities(self) -> Floats:
        """softmax over the names."""
        exponentials = np.exp(self.values - self.values.max(-1, keepdims=True))
        return exponentials / exponentials.sum(-1, keepdims=True)

    def __repr__(self) -> str:
        return f"Logits({self.values.shape}, tokens={_few(self.tokens)}, names={_few(self.names)})"


@dataclass(frozen=True, repr=False)
class Hidden:
    """The hidden vectors of one text, as they pass from layer to layer (the residual stream).

    >>> import regard
    >>> hidden = regard.load("runs/reviews").hidden("What a dull film!")
    >>> hidden.encoder.shape                                  # 1 + layers, tokens, width
    (2, 6, 64)
    >>> hidden.tokens["encoder"]
    ['what', 'a', 'dull', 'film', '!', '<eos>']
    """

    parts: dict[StackName, Floats]
    """(1 + layers, position, width): index 0 is the input of the first layer, l the output of the l-th."""
    tokens: dict[StackName, list[str]]

    @property
    def encoder(self) -> Floats:
        return self._part("encoder")

    @property
    def decoder(self) -> Floats:
        return self._part("decoder")

    def _part(self, name: StackName) -> Floats:
        if name not in self.parts:
            raise RegardError(f"hidden: this model has no {name}; it has {', '.join(self.parts)}")
        return self.parts[name]

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}={array.shape}" for name, array in self.parts.items())
        return f"Hidden({shapes})"


@dataclass(frozen=True, repr=False)
class Look:
    """The page about one text: shown by a notebook where it is the value of a cell, or saved as a file.

    >>> import regard
    >>> page = regard.load("runs/reviews").look("What a dull film!")
    >>> page
    Look('What a dull film!')
    >>> page.save("page.html")
    PosixPath('page.html')
    """

    text: str
    html: str
    """The whole page; it needs no network."""

    def save(self, path: str | Path) -> Path:
        """Writes the page; any browser shows it."""
        Path(path).write_text(self.html, encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:{HEIGHT}px;border:0"></iframe>'

    def __repr__(self) -> str:
        return f"Look({self.text!r})"


def attention_of(trained: Trained, text: AnyInput, target: str | None) -> Attention:
    builder, inputs = _inputs(trained, text, target)
    _, recorded = replay(trained.model, inputs.arguments)
    if not recorded:
        raise RegardError(f"attention: a model of kind {trained.recipe.model.kind} has none")
    parts: dict[PartName, AttentionWeights] = {}
    for name, layers in by_group(recorded, inputs).items():
        weights = [_array(layer.weights) for layer in layers]
        queries, keys = _tokens(inputs, name != "encoder"), _tokens(inputs, name == "decoder")
        parts[name] = AttentionWeights(weights, _names(queries, weights[0].shape[1]), _names(keys, weights[0].shape[2]))
    return Attention(parts, _output(builder, inputs))


def logits_of(trained: Trained, text: AnyInput, target: str | None) -> Logits:
    builder, inputs = _inputs(trained, text, target)
    with no_grad():
        values = _array(trained.model(*inputs.arguments)[0])
    names = list(trained.labels) or _vocabulary(builder.target)
    return Logits(values, [] if values.ndim == 1 else _tokens(inputs, inputs.target is not None), names)


def hidden_of(trained: Trained, text: AnyInput, target: str | None) -> Hidden:
    _, inputs = _inputs(trained, text, target)
    with no_grad(), record_residuals(trained.model) as residuals:
        trained.model(*inputs.arguments)
    parts: dict[StackName, Floats] = {}
    tokens: dict[StackName, list[str]] = {}
    for name, rows in residuals.items():
        parts[name] = np.stack([_array(x[0]) for x in rows])
        tokens[name] = _tokens(inputs, name == "decoder")
    return Hidden(parts, tokens)


def _inputs(trained: Trained, text: AnyInput, target: str | None) -> tuple[InputBuilder, ModelInput]:
    """The input of a model, with the target that is given or that the run's own search generates."""
    builder = input_builder(trained, text)
    search: AnySearch = search_for(trained, TraceConfig())
    return builder, model_input(builder, text, target, search)


def _output(builder: InputBuilder, inputs: ModelInput) -> str:
    return "" if inputs.target is None else builder.target.decode(inputs.target.ids[inputs.prompt_length :])


def _tokens(inputs: ModelInput, of_target: bool) -> list[str]:
    sentence = inputs.target if of_target else inputs.source
    return list((sentence or inputs.read).tokens)


def _vocabulary(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.tokens(range(tokenizer.vocab_size))


def _names(tokens: list[str], count: int) -> list[str]:
    return tokens if len(tokens) == count else [str(number) for number in range(count)]


def _array(x: Tensor) -> Floats:
    return x.detach().float().cpu().numpy()


def _few(items: list[str]) -> str:
    return repr(items) if len(items) <= 8 else f"[{', '.join(map(repr, items[:6]))}, … {len(items):,}]"
