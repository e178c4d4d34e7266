"""Masked language models on the page: `<mask>` in a text is a token, and what the model guesses there is its answer."""

from typing import Any

from torch import Tensor
from typing_extensions import override

from regard.decode.top_k import stable_top_k
from regard.errors import RegardError
from regard.look.model_input import Reader, Shape, checked
from regard.look.tokens import Sentence
from regard.tasks.mask_filling import SHOWN, masked_ids
from regard.text.special_tokens import EOS, MASK, SPECIAL_TOKENS, UNK

GUESSES = 8
"""Likely tokens that are told for each mask."""
FIRST = len(SPECIAL_TOKENS)


class MaskedReader(Reader):
    """Makes readings of texts in which some tokens are hidden."""

    @property
    @override
    def shape(self) -> Shape:
        return "label"

    @override
    def ids(self, text: str) -> list[int]:
        if not text.strip():
            raise RegardError("text: expected something to look at, got a blank text")
        ids = masked_ids(self.source, text) if SHOWN in text else self.source.encode(text)
        return checked((ids or [UNK]) + [EOS] * self.documents)

    def answers(self, scores: Tensor, sentence: Sentence) -> list[list[Any]]:
        """The likeliest tokens of each mask with their probabilities; where nothing is hidden, of each token."""
        hidden = [place for place, token in enumerate(sentence.ids) if token == MASK]
        places = hidden or [place for place, token in enumerate(sentence.ids) if token >= FIRST]
        return [
            [f"{sentence.tokens[place]} {place + 1}: {token}", round(probability, 6)]
            for place in places
            for token, probability in self._guesses(scores[0, place], GUESSES if hidden else 1)
        ]

    def _guesses(self, scores: Tensor, count: int) -> list[tuple[str, float]]:
        probabilities = scores.float().softmax(-1)[FIRST:]
        values, places = stable_top_k(probabilities[None], min(count, len(probabilities)))
        tokens = self.source.tokens([place + FIRST for place in places[0].tolist()])
        return list(zip(tokens, values[0].tolist(), strict=True))
