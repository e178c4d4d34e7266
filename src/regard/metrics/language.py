"""How well a language model predicts text: perplexity and bits per byte, from its negative log-likelihood in nats.

Bits per byte compares tokenizers only if every byte of the text is paid for. A tokenizer that gives `<unk>`, folds case
or drops spaces loses something, and a model of its tokens would be paid for text that it cannot predict. What is lost
is charged by a fixed code from which the text could be restored exactly; a model could only do better:

    an unknown word                 8 bits a byte, and 8 bits for its end
    a word or a gap that differs    the same, and log2 C(n, k) bits to say which k of all n words (or gaps) differ
    a text whose words do not match 8 bits a byte, and 8 bits for its end
    which texts differ              log2 C(n, k) bits, and one for each, whether its words match

A word is a run of letters and digits or a single other character; a gap is what stands between two words.
"""

import math
import re
from dataclasses import dataclass
from math import lgamma, log

from regard.errors import DataError
from regard.metrics.registry import Metric, register

BITS = 8.0
ATOM = re.compile(r"\w+|[^\w\s]")
UNKNOWN = "<unk>"

register(Metric("loss", "loss", False, comparable="same_targets", test="sign_flips_of_batches", digits=3))
register(Metric("perplexity", "perplexity", False, comparable="same_targets", test="sign_flips_of_batches"))
register(Metric("pseudo_perplexity", "pseudo-perplexity", False, comparable="same_targets"))
register(Metric("bits_per_byte", "bits per byte", False, test="sign_flips_of_batches", digits=3))


def perplexity(total_nll: float, tokens: int) -> float:
    """exp(nats per token): the number of equally likely tokens that would be as hard to guess."""
    _check("tokens", tokens)
    try:
        return math.exp(total_nll / tokens)
    except OverflowError:
        return math.inf


def bits_per_byte(total_nll: float, size: int, extra_bits: float = 0.0) -> float:
    """Bits per byte of text: comparable between tokenisers, as perplexity is not.

    `extra_bits` is what restores the text from its tokens, as `Restoration` counts it; without it the score is
    comparable only between tokenisers that lose nothing.
    """
    _check("bytes", size)
    return (total_nll / math.log(2) + extra_bits) / size


def _check(name: str, count: int) -> None:
    if count < 1:
        raise DataError(name, f"expected at least one to average over, got {count}")


def bits_to_spell(text: str) -> float:
    """8 bits a byte and 8 for the end; the word `<unk>` itself, frequent in tokenised corpora, is spelt as empty."""
    return BITS * (1 + (0 if text == UNKNOWN else len(text.encode("utf-8", "surrogatepass"))))


@dataclass
class _Differences:
    """How many pieces differ, and the bits that spell those."""

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
        """Bits of the spellings, and of which pieces they replace."""
        return self.spelt + _bits_to_choose(self.pieces, self.differing) if self.differing else 0.0


class Restoration:
    """Bits that restore texts from their decoded tokens, summed over a corpus."""

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
        self.unknown += 1
        self.unknown_bits += bits_to_spell(word)

    def add(self, original: str, restored: str) -> None:
        """Adds a text and its decoded tokens, in which unknown words are spelt out."""
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
        """Bits of all differences beside unknown words."""
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
