"""The payload: everything that `trace` computes and the page shows. `make page` generates page/src/types.ts from it.

Tensors are base64: "weights" are uint8, round(255 · weight); "floats" are little-endian float32, infinities included.
A field with a default is left out of the JSON unless it was set.
"""

import base64
from typing import Literal, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from torch import Tensor

from regard.config import Config

VERSION = 1

Side = Literal["source", "target"]
Shape = Literal["pair", "text", "label"]
"""`pair`: from a source to a target; `text`: continues a prompt; `label`: classifies."""
GroupName = Literal["encoder", "decoder", "cross"]
Measure = Literal["entropy", "distance", "previous", "alignment"]
Fate = Literal["kept", "finished", "pruned"]
MetricLine = dict[str, int | float | str | None]


class PayloadModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_serializer(mode="wrap")
    def _without_unset(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {name: value for name, value in serialize(self).items() if name in self.model_fields_set}


class TraceConfig(Config):
    """What a trace computes beside the attention itself."""

    beam: int | None = Field(None, ge=1, le=16)
    """Beam size, for generation and for the drawn tree; when left out, the run's own search generates."""
    length: int = Field(64, ge=1, le=512)
    """Most tokens to generate."""
    top: int = Field(12, ge=1, le=100)
    """Likeliest tokens to keep at each step."""
    off: tuple[tuple[str, int], ...] = ()
    """Heads to ablate, each by its module's name and its number."""
    shuffles: int = Field(3, ge=0, le=8)
    """How many times to shuffle the words."""
    coreference: bool = True
    """Try the lectures' two sentences on a translation model."""
    paths: bool = True
    """Measure how far information travels."""


class SentenceTokens(PayloadModel):
    tokens: list[str]
    words: list[int]
    """The word that each token belongs to."""
    texts: list[str]
    """The text of each word."""


class Steps(PayloadModel):
    """Exact scores of some queries; (heads, queries, keys)."""

    queries: list[int]
    scores: str
    """Floats: q·k."""
    scaled: str
    """Floats: scaled, with the position bias."""
    allowed: str
    """Weights: 1 where the mask allows the pair."""


class Vectors(PayloadModel):
    """The first dimensions of queries, keys and values, as floats; (heads, positions, shown)."""

    width: int
    """Head width."""
    shown: int
    query: str
    key: str
    value: str


class Layer(PayloadModel):
    """The attention of one layer."""

    module: str
    heads: int
    queries: int
    keys: int
    scale: float
    weights: str
    """Weights (heads, queries, keys)."""
    measures: dict[Measure, list[float]]
    """One number for each head."""
    steps: Steps
    norms: list[list[float]] | None = None
    """Norm of the vector that each key's value adds to the residual stream, for each head."""
    vectors: Vectors | None = None


class Group(PayloadModel):
    """Encoder self-attention, decoder self-attention or cross-attention: its layers from the first to the last."""

    name: GroupName
    title: str
    queries: Side
    keys: Side
    layers: list[Layer]
    rollout: list[str]
    """Weights: attention rollout after each layer; empty where it is not defined."""


class Step(PayloadModel):
    """The distribution over the next token at one position of the target."""

    token: str | None
    """The token that follows; null after the last."""
    logprob: float | None
    prompted: bool
    """Whether the token is part of the prompt."""
    top: list[tuple[str, float]]
    """The likeliest tokens with their log-probabilities."""
    tail: list[tuple[int, float]]
    """All other tokens in groups: how many, and the log of their mean probability."""


class Branch(NamedTuple):
    """A continuation that the beam search considered."""

    parent: int
    """Index of the branch that it continues; −1 at the root."""
    step: int
    token: str
    logprob: float
    total: float
    """Log-probability from the root."""
    fate: Fate


class Beam(PayloadModel):
    size: int
    text: str
    score: float
    branches: list[Branch]


class Generation(PayloadModel):
    steps: list[Step] | None = None
    beam: Beam | None = None
    classes: list[tuple[str, float]] | None = None
    """The probability of each label, likeliest first."""


class SignedBytes(PayloadModel):
    """A tensor of either sign: value ≈ scale · (byte − 127) / 127."""

    scale: float
    bytes: str


class HeadBias(PayloadModel):
    module: str
    heads: list[list[float]]
    """What is added to the scores of each head, by key − query."""


class Positions(PayloadModel):
    """What the position encoding computes."""

    kind: str
    about: str
    count: int | None = None
    """Positions shown."""
    dims: int | None = None
    """Dimensions shown."""
    vectors: SignedBytes | None = None
    """Position vectors (count, dims)."""
    similarity: SignedBytes | None = None
    """Cosine similarity of position vectors (count, count)."""
    by_offset: list[float] | None = None
    """Mean dot product of two position vectors, by their offset."""
    frequencies: list[float] | None = None
    """Rotary: radians by position, for each pair of dimensions."""
    bias: list[HeadBias] | None = None


class Shuffle(PayloadModel):
    """The same words in another order."""

    text: str
    tokens: list[str]
    order: list[int]
    """Where each token was before."""
    similarity: list[float]
    """Cosine of each token's last hidden vector with that before."""
    output: str


class Paths(PayloadModel):
    """How far information travels."""

    side: Side
    kind: str
    attention: str
    reach: int | None
    layers: int
    graph: list[list[int]] | None = None
    """Fewest layers from each key to each query (query, key); −1 where none lead there."""
    queries: list[int]
    influence: str
    """Floats (queries, positions): gradient norms."""
    by_distance: list[float]
    """Mean share of the influence at each distance."""


class Head(PayloadModel):
    group: GroupName
    layer: int
    head: int
    module: str


class CoreferenceSentence(PayloadModel):
    source: str
    expected: str
    translation: str
    right: bool
    pronoun: str | None
    words: dict[Side, list[str]]
    it: int | None
    """The word "it" of the source."""
    attention: list[list[float]]
    """For each head the weight on each word: from "it" in the encoder, from the position of the pronoun elsewhere."""
    probabilities: list[float]
    """Of each pronoun as the next word."""
    without: list[list[float]]
    """The same with each head ablated in turn."""


class Coreference(PayloadModel):
    pronouns: list[str]
    heads: list[Head]
    sentences: list[CoreferenceSentence]
    right: bool


class CheckpointWeights(PayloadModel):
    """The attention of an earlier checkpoint on the same input."""

    step: int
    weights: dict[GroupName, list[str]]


class About(PayloadModel):
    """The model."""

    run: str
    step: int | None
    task: str
    kind: str
    width: int | None
    depth: int | None
    heads: int | None
    attention: str
    position: str
    parameters: int
    attends: bool


class ImagePatches(PayloadModel):
    """An image as the model reads it."""

    size: int
    patch: int
    class_token: bool
    pixels: str
    """Base64 of RGB bytes, row by row."""


class ImageFile(PayloadModel):
    """An image file as it is sent to the server: its bytes in base64."""

    name: str
    data: str


class Payload(PayloadModel):
    version: int
    live: bool | None = None
    """Whether the page comes from a server."""
    blank: str | None = None
    """Why there is no input yet; the page then has its form and the training only."""
    about: About
    text: str
    target: str | None
    """The forced target."""
    output: str
    shape: Shape
    prompt_length: int
    """Tokens of the target that are not generated."""
    sentences: dict[Side, SentenceTokens | None]
    image: ImagePatches | None = None
    groups: list[Group]
    options: TraceConfig
    generation: Generation
    positions: Positions | None
    shuffles: list[Shuffle]
    paths: Paths | None
    coreference: Coreference | None
    snapshots: list[CheckpointWeights]
    training: list[MetricLine] | None = None
    """The lines of metrics.jsonl."""
    against: "Payload | None" = None
    """Another run on the same input."""
    models: list[str] | None = None
    """Live: all runs of the server."""
    image_models: list[str] | None = None
    """Live: those that read images."""
    image_bytes: int | None = None
    """Live: the largest image file that the server takes."""
    file: ImageFile | None = None
    """Live: the image of this page."""


def pack_weights(x: Tensor) -> str:
    return _base64((x.detach().float().clamp(0, 1) * 255).round().to(torch.uint8))


def pack_floats(x: Tensor) -> str:
    return _base64(x.detach().float())


def pack_signed(x: Tensor) -> SignedBytes:
    scale = float(x.abs().max().clamp(min=1e-12))
    return SignedBytes(scale=scale, bytes=_base64((x.detach().float() / scale * 127 + 127).round().to(torch.uint8)))


def rounded(values: Tensor, digits: int = 5) -> list[float]:
    return [round(number, digits) for number in values.detach().float().cpu().tolist()]


def rounded_rows(values: Tensor, digits: int = 5) -> list[list[float]]:
    return [rounded(row, digits) for row in values]


def _base64(x: Tensor) -> str:
    array = x.cpu().contiguous().numpy()
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()
