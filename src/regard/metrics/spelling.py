"""What a text costs beyond its tokens: unknown words, and whatever else a tokenizer does not give back.

Bits per byte compares tokenizers only if every byte of the text is paid for. A tokenizer that writes `<unk>`, folds
case or drops spaces leaves something out, and a model of its tokens would be paid for text that it cannot tell. What is
left out is charged by a fixed code, from which the text could be restored exactly; a model could only do better:

    an unknown word                 8 bits a byte, and 8 bits for its end
    a word or a gap that differs    the same, and log2 C(n, k) bits to say which k of all n words (or gaps) differ
    a text whose words do not match 8 bits a byte, and 8 bits for its end
    which texts differ              log2 C(n, k) bits, and one for each, whether its words match

A word is a run of letters and digits or a single other character; a gap is what stands between two words.
"""

import re
from dataclasses import dataclass
from math import lgamma, log

BITS = 8.0
ATOM = re.compile(r"\w+|[^\w\s]")
UNKNOWN = "<unk>"


def bits_to_spell(text: str) -> float:
    """8 bits a byte and 8 for the end; the word `<unk>` itself, of which texts are full that are cut already, has none
    to spell: an empty spelling stands for it."""
    return BITS * (1 + (0 if text == UNKNOWN else len(text.encode("utf-8", "surrogatepass"))))


@dataclass
class _Differences:
    """How many of some pieces differ, and what those cost to spell."""

    pieces: int = 0
    differing: int = 0
    spelt: float = 0.0

    def add(self, original: str, restored: str) -> None:
        self.pieces += 1
        if original != restored:
            self.differing += 1
            self.spelt += bits_to_spell(original)

    @property
    def bits(self) -> float:
        """The spelling, and which of all pieces it is for."""
        return self.spelt + _bits_to_choose(self.pieces, self.differing) if self.differing else 0.0


class Restoration:
    """Bits that restore texts from what a tokenizer gives back of them, added up over a corpus."""

    def __init__(self) -> None:
        self._words, self._gaps = _Differences(), _Differences()
        self.size = 0
        """Bytes of the texts."""
        self._texts = self._altered = 0
        self._whole = 0.0
        self.unknown = 0
        """Unknown words."""
        self.unknown_bits = 0.0

    def add_unknown(self, word: str) -> None:
        """An unknown word, whatever stands for it among the tokens."""
        self.unknown += 1
        self.unknown_bits += bits_to_spell(word)

    def add(self, original: str, restored: str) -> None:
        """A text, and what its tokens give back, unknown words spelt out."""
        self.size += len(original.encode("utf-8", "surrogatepass"))
        self._texts += 1
        if original == restored:
            return
        self._altered += 1
        (words, gaps), (other_words, other_gaps) = _cut(original), _cut(restored)
        if len(words) != len(other_words):
            self._whole += bits_to_spell(original)
            return
        for one, other in zip(words, other_words, strict=True):
            self._words.add(one, other)
        for one, other in zip(gaps, other_gaps, strict=True):
            self._gaps.add(one, other)

    @property
    def altered_bits(self) -> float:
        """What restoring costs beside unknown words."""
        if not self._altered:
            return 0.0
        which = _bits_to_choose(self._texts, self._altered) + self._altered
        return which + self._whole + self._words.bits + self._gaps.bits


def _cut(text: str) -> tuple[list[str], list[str]]:
    """The words of a text, and the gaps before, between and after them."""
    spans = [match.span() for match in ATOM.finditer(text)]
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    return [text[start:end] for start, end in spans], [
        text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def _bits_to_choose(total: int, chosen: int) -> float:
    """log2((total + 1) · C(total, chosen)): how many are chosen, and which."""
    ways = lgamma(total + 1) - lgamma(chosen + 1) - lgamma(total - chosen + 1)
    return (log(total + 1) + ways) / log(2)
