"""What the position encoding computes, by position and by distance; and the same words in another order."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.decode.search import AnySearch
from regard.look.generation import generate, generates, trace_labels
from regard.look.model_input import InputBuilder, ModelInput, encoder_output
from regard.look.payload import HeadBias, Positions, Shuffle, pack_signed, rounded, rounded_rows
from regard.look.replay import RecordedAttention, is_cross
from regard.look.tokens import Sentence
from regard.nn.position import Learned, Position, Rotary
from regard.nn.position.absolute import Absolute
from regard.tasks.contract import token_model

COUNT = 64
"""Positions that are drawn, where the kind itself sets no limit."""
DIMS = 128
"""Most dimensions of position vectors that are drawn."""

ABOUT = {
    "none": "No position encoding: apart from the mask, the model sees a bag of words.",
    "sinusoidal": "Sines and cosines of growing wavelength are added to the inputs.",
    "learned": "A learned vector for each position is added to the inputs.",
    "relative": "Learned vectors by clipped distance act on keys and values; what they add to the scores is shown.",
    "rotary": "Queries and keys are rotated by angles proportional to the position, so q·k depends on the distance.",
    "t5": "A learned bias for each head and bucket of distances is added to the scores.",
    "alibi": "A fixed penalty proportional to the distance is subtracted from the scores, with a slope for each head.",
    "tree": "Depth in the dependency tree is added to the inputs, distance in it to the scores.",
}
NO_ENCODING = "This kind of model reads its tokens in order and needs no position encoding."


def trace_positions(model: nn.Module, attentions: Sequence[RecordedAttention]) -> Positions:
    """The position encoding of the model's first stack."""
    modules = (part for part in model.modules() if isinstance(part, Position) and type(part) is not Position)
    position = next(modules, None)
    config = getattr(getattr(model, "config", None), "position", None)
    kind = str(getattr(config, "kind", "order"))
    positions = Positions(kind=kind, about=ABOUT.get(kind, NO_ENCODING))
    if isinstance(position, Absolute):
        add_vectors(positions, position)
    elif isinstance(position, Rotary):
        add_rotation(positions, position)
    elif position is not None:
        positions.bias = head_biases(attentions)
    return positions


@torch.no_grad()
def add_vectors(positions: Positions, position: Absolute) -> None:
    count = min(COUNT, position.table.num_embeddings) if isinstance(position, Learned) else COUNT
    device = position.table.weight.device if isinstance(position, Learned) else None
    vectors = position.vectors(torch.arange(count, device=device)[None])[0].float().cpu()
    unit = vectors / vectors.norm(dim=-1, keepdim=True).clamp(min=1e-9)
    positions.count, positions.dims = count, min(DIMS, vectors.shape[1])
    positions.vectors = pack_signed(vectors[:, :DIMS])
    positions.similarity = pack_signed(unit @ unit.T)
    positions.by_offset = rounded(by_offset(vectors @ vectors.T))


def add_rotation(positions: Positions, position: Rotary) -> None:
    """The frequency of each pair of dimensions, and the mean of cos(offset · frequency)."""
    pairs = torch.arange(0, position.turned, 2, dtype=torch.float32)
    frequencies = position.theta ** (-pairs / position.turned)
    offsets = torch.arange(-COUNT + 1, COUNT, dtype=torch.float32)
    positions.count = COUNT
    positions.frequencies = rounded(frequencies, 6)
    positions.by_offset = rounded((offsets[:, None] * frequencies).cos().mean(-1))


def head_biases(attentions: Sequence[RecordedAttention]) -> list[HeadBias]:
    """What positions added to the scores in this pass, by offset, for the first layer of each stack."""
    stacks: dict[str, RecordedAttention] = {}
    for attention in attentions:
        if not is_cross(attention.name) and attention.weights.shape[1] == attention.weights.shape[2]:
            stacks.setdefault(attention.name.partition(".")[0], attention)
    return [HeadBias(module=first.name, heads=rounded_rows(bias_by_offset(first), 4)) for first in stacks.values()]


def bias_by_offset(attention: RecordedAttention) -> Tensor:
    """Mean over all pairs of one offset j − i of what was added to the scaled score; (heads, 2·time − 1)."""
    bias = (attention.steps.scaled - attention.steps.scores * attention.scale)[0].float()
    return torch.stack([by_offset(head) for head in bias])


def by_offset(matrix: Tensor) -> Tensor:
    """The mean of each diagonal, from the lowest (j − i = −(time − 1)) to the highest."""
    time = len(matrix)
    return torch.stack([matrix.diagonal(offset).mean() for offset in range(1 - time, time)])


@torch.no_grad()
def trace_shuffles(builder: InputBuilder, inputs: ModelInput, count: int, search: AnySearch) -> list[Shuffle]:
    """Shuffles of the input's words; the tokens of a word stay together."""
    sentence = inputs.read
    movable = [group for group in sentence.groups if not _is_special(sentence.tokens[group[0]])]
    if inputs.source is None:
        movable = [group for group in movable if group[-1] < inputs.prompt_length]
    before = last_hidden(builder, sentence.ids)
    shuffles = []
    for seed in range(count if len(movable) > 1 else 0):
        order = _reordered(len(sentence.ids), movable, shuffled(len(movable), seed))
        ids = [sentence.ids[position] for position in order]
        shuffles.append(
            Shuffle(
                text=builder.source.decode(ids),
                tokens=[sentence.tokens[position] for position in order],
                order=order,
                similarity=_similarity(before, last_hidden(builder, ids), order),
                output=_output(builder, ids[: inputs.prompt_length] if inputs.source is None else ids, search),
            )
        )
    return shuffles


def shuffled(count: int, seed: int) -> list[int]:
    """A permutation other than the identity."""
    order = list(range(count))
    generator = random.Random(seed)
    while order == sorted(order):
        generator.shuffle(order)
    return order


def _reordered(length: int, movable: list[list[int]], word_order: list[int]) -> list[int]:
    """For each position the one its token came from; special tokens stay at their end of the sentence."""
    first = movable[0][0]
    moved = [position for word in word_order for position in movable[word]]
    rest = [position for position in range(first, length) if position not in set(moved)]
    return [*range(first), *moved, *rest]


def last_hidden(builder: InputBuilder, ids: list[int]) -> Tensor | None:
    """The last hidden vectors of the encoder, or of the only stack; None where there are none."""
    model, sequences = builder.model, builder.sequences(ids)
    hidden = encoder_output(model, sequences) if builder.shape == "pair" else token_model(model).hidden(sequences)
    return None if hidden is None else hidden[0].float()


def _similarity(before: Tensor | None, after: Tensor | None, order: list[int]) -> list[float]:
    """The cosine of each token's vector with that in the original order."""
    if before is None or after is None:
        return []
    return [round(number, 6) for number in torch.cosine_similarity(after, before[order], dim=-1).tolist()]


def _output(builder: InputBuilder, ids: list[int], search: AnySearch) -> str:
    if builder.shape == "label":
        logits = builder.model(builder.sequences(ids))
        label, probability = trace_labels(builder, logits, Sentence.of(builder.source, ids))[0]
        return f"{label} ({probability:.1%})"
    if not generates(builder.model):
        return ""
    return builder.target.decode(generate(builder, ids, search))


def _is_special(token: str) -> bool:
    return token.startswith("<") and token.endswith(">")
