"""The two sentences of the lectures: what 'it' means, which heads look there, and what happens without a head.

    The animal did not cross the street because it was too tired.   → …, weil es zu müde war.
    The animal did not cross the street because it was too wide.    → …, weil sie zu breit war.

The German pronoun tells what the model took 'it' to mean. Its probabilities are read after the same German words in
both sentences, so that they differ by what the model understood and by nothing else.
"""

from typing import Any

import torch
from torch import Tensor

from regard.data.street import LECTURE_SENTENCES
from regard.decode.search import AnySearch
from regard.look.encoding import rounded
from regard.look.generation import write
from regard.look.groups import by_group
from regard.look.model_input import Reader
from regard.look.replay import Part, replay, without_one_each
from regard.look.tokens import Sentence
from regard.nn.layout import Sequences

PRONOUNS = ("er", "sie", "es")
BEFORE = " weil"
HEADS_AT_ONCE = 32


def coreference_tree(reader: Reader, search: AnySearch) -> dict[str, Any]:
    """Both sentences side by side, with the pronoun's probabilities as the model is and without each of its heads."""
    sides = [_Side(reader, english, german, search) for english, german in LECTURE_SENTENCES]
    trees = [side.tree() for side in sides]
    return {
        "pronouns": list(PRONOUNS),
        "heads": [{"group": group, "layer": layer, "head": head, "module": module}
                  for group, layer, head, module in sides[0].heads],
        "sentences": trees,
        "right": all(tree["right"] for tree in trees),
    }  # fmt: skip


class _Side:
    """One of the two sentences, read up to the pronoun."""

    def __init__(self, reader: Reader, english: str, german: str, search: AnySearch) -> None:
        self.reader, self.english, self.german = reader, english, german
        self.ids = reader.ids(english)
        self.translation = reader.target.decode(write(reader, self.ids, search))
        start = german.partition(BEFORE)[0] + BEFORE
        self.prefix = reader.target.encode(start)
        self.choices = [_next_id(reader, start, self.prefix, pronoun) for pronoun in PRONOUNS]
        self.reading = reader.pair(self.ids, self.prefix)
        self.scores, self.parts = replay(reader.model, self.reading.arguments)
        self.groups = by_group(self.parts, self.reading)

    @property
    def heads(self) -> list[tuple[str, int, int, str]]:
        """All heads: group, layer, number, module."""
        return [
            (group, layer, head, part.name)
            for group, layers in self.groups.items()
            for layer, part in enumerate(layers)
            for head in range(part.weights.shape[0])
        ]

    def tree(self) -> dict[str, Any]:
        """Words, looks, translation and probabilities."""
        source, target = self.reading.source, self.reading.target
        assert source is not None
        assert target is not None
        return {
            "source": self.english,
            "expected": self.german,
            "translation": self.translation,
            "right": _pronoun(self.translation) == _pronoun(self.german),
            "pronoun": _pronoun(self.german),
            "words": {"source": source.texts, "target": target.texts},
            "it": source.texts.index("it") if "it" in source.texts else None,
            "looks": [self._look(group, part, head) for group, part, head in self._each()],
            "probabilities": rounded(self._chances(self.scores)[0]),
            "without": self._without([(name, head) for _, _, head, name in self.heads]),
        }

    def _each(self) -> list[tuple[str, Part, int]]:
        return [(group, self.groups[group][layer], head) for group, layer, head, _ in self.heads]

    def _look(self, group: str, part: Part, head: int) -> list[float]:
        """Where 'it' looks in the encoder; where the pronoun about to be written looks in the decoder; word by word."""
        source, target = self.reading.source, self.reading.target
        assert source is not None
        assert target is not None
        keys = target if group == "decoder" else source
        weights = part.weights[head]
        if weights.shape[-1] != len(keys.ids):
            return []
        places = source.groups[source.texts.index("it")] if group == "encoder" and "it" in source.texts else [-1]
        return rounded(by_word(weights[places].mean(0), keys), 4)

    @torch.no_grad()
    def _without(self, heads: list[tuple[str, int]]) -> list[list[float]]:
        """The probabilities without each head in turn, many heads at once: each row of a batch lacks one."""
        model, found = self.reader.model, []
        for start in range(0, len(heads), HEADS_AT_ONCE):
            off = heads[start : start + HEADS_AT_ONCE]
            copies = [Sequences.full(one.tokens.expand(len(off), -1)) for one in self.reading.arguments]
            with without_one_each(model, off):
                found.extend(rounded(self._chances(model(*copies))))
        return found

    def _chances(self, scores: Tensor) -> Tensor:
        """The probabilities of er, sie and es as the next word, a row each."""
        return scores[:, -1].float().softmax(-1)[:, self.choices]


def _next_id(reader: Reader, start: str, prefix: list[int], word: str) -> int:
    """The first token of a word that follows a text."""
    ids = reader.target.encode(f"{start} {word}")
    shared = next((place for place, (a, b) in enumerate(zip(ids, prefix, strict=False)) if a != b), len(prefix))
    return ids[min(shared, len(ids) - 1)]


def by_word(weights: Tensor, sentence: Sentence) -> Tensor:
    """The weight on each word: the sum over its tokens."""
    words = torch.tensor(sentence.words, device=weights.device)
    return torch.zeros(sentence.words[-1] + 1, device=weights.device).scatter_add_(0, words, weights.float())


def _pronoun(german: str) -> str | None:
    """The first pronoun after 'weil'."""
    after = german.partition(BEFORE)[2].lower().replace(",", " ").replace(".", " ").split()
    return next((word for word in after if word in PRONOUNS), None)
