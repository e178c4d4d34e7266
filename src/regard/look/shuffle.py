"""The same words in another order: what the model then makes of them, and how much its vectors move."""

import random
from typing import Any

import torch
from torch import Tensor

from regard.decode.search import AnySearch
from regard.look.generation import answer_tree, write, writes
from regard.look.model_input import Reader, Reading, encoded
from regard.look.tokens import Sentence


@torch.no_grad()
def shuffles_tree(reader: Reader, reading: Reading, count: int, search: AnySearch) -> list[dict[str, Any]]:
    """Some shuffles of the words that the model reads, whole words moved and their tokens kept."""
    sentence = reading.source or reading.target
    assert sentence is not None
    movable = [group for group in sentence.groups if not _is_special(sentence.tokens[group[0]])]
    if reading.source is None:
        movable = [group for group in movable if group[-1] < reading.given]
    before = last_vectors(reader.model, reader, sentence.ids)
    trees = []
    for seed in range(count if len(movable) > 1 else 0):
        order = shuffled(len(movable), seed)
        places = _moved(len(sentence.ids), movable, order)
        ids = [sentence.ids[place] for place in places]
        after = last_vectors(reader.model, reader, ids)
        trees.append({
            "text": reader.source.decode(ids),
            "tokens": [sentence.tokens[place] for place in places],
            "from": places,
            "similarity": _similarity(before, after, places),
            "output": _output(reader, ids[: reading.given] if reading.source is None else ids, search),
        })  # fmt: skip
    return trees


def shuffled(count: int, seed: int) -> list[int]:
    """An order of so many words that is not the one they had."""
    order = list(range(count))
    draw = random.Random(seed)
    while order == sorted(order):
        draw.shuffle(order)
    return order


def _moved(length: int, movable: list[list[int]], order: list[int]) -> list[int]:
    """For each place the place its token came from; what cannot move stays at its end of the sentence."""
    first = movable[0][0]
    moved = [place for number in order for place in movable[number]]
    rest = [place for place in range(first, length) if place not in set(moved)]
    return [*range(first), *moved, *rest]


def last_vectors(model: Any, reader: Reader, ids: list[int]) -> Tensor | None:  # noqa: ANN401
    """What the encoder, or the only stack, makes of each token; None where there is no such thing."""
    sequences = reader.sequences(ids)
    said = encoded(model, sequences) if reader.shape == "pair" else model.hidden(sequences)
    return None if said is None else said[0].float()


def _similarity(before: Tensor | None, after: Tensor | None, places: list[int]) -> list[float]:
    """The cosine of each token's vector with what it was before it moved."""
    if before is None or after is None:
        return []
    return [round(number, 6) for number in torch.cosine_similarity(after, before[places], dim=-1).tolist()]


def _output(reader: Reader, ids: list[int], search: AnySearch) -> str:
    if reader.shape == "label":
        scores = reader.model(reader.sequences(ids))
        label, p = answer_tree(reader, scores, Sentence.of(reader.source, ids))[0]
        return f"{label} ({p:.1%})"
    if not writes(reader.model):
        return ""
    return reader.target.decode(write(reader, ids, search))


def _is_special(token: str) -> bool:
    return token.startswith("<") and token.endswith(">")
