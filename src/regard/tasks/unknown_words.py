"""PosUnk (Luong 2015): an unknown word in a translation is replaced by the source word the model was looking at.

Word vocabularies end somewhere, and names lie beyond. The attention says which source word stands behind each unknown
one; a dictionary may know its translation, and what it does not know is copied, as one copies names and numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from regard.data.findings import Findings
from regard.data.readers.lines import lines
from regard.decode.alignment import alignment
from regard.errors import ConfigError, DataError
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, PAD, UNK


def read_dictionary(file: Path) -> dict[str, str]:
    """Words and their translations, a pair a line with a tab between; the first of several translations counts."""
    words: dict[str, str] = {}
    for number, line, _ in lines(file, Findings()):
        parts = line.split("\t")
        if line.strip() and (len(parts) != 2 or not all(part.strip() for part in parts)):
            raise DataError(file, f"expected a word, a tab and its translation, got {line!r}", number)
        if line.strip():
            words.setdefault(parts[0].strip(), parts[1].strip())
    return words


def need_words(tokenizer_kind: str) -> None:
    """Refuses vocabularies in which nothing is unknown as a word."""
    if tokenizer_kind != "word":
        raise ConfigError(
            "task.unknown",
            f"replacing unknown words needs a word vocabulary, got '{tokenizer_kind}', which spells out what it does "
            "not know; set tokenizer.kind=word, or leave task.unknown out",
        )


@dataclass(frozen=True)
class UnknownWords:
    """Replaces unknown words through attention."""

    models: Sequence[nn.Module]
    """Those that wrote: one, or the members of an ensemble."""
    dictionary: Mapping[str, str] = field(default_factory=dict)

    def replaced(
        self, sources: Sequence[Sequence[int]], words: Sequence[Sequence[str]], written: Sequence[Sequence[int]]
    ) -> list[dict[int, str]]:
        """For each sentence, the words to put in place of its unknown ones, by their places.

        `sources` are token ids as the model read them, `words` the source words as they were spelt.
        """
        rows = [row for row, ids in enumerate(written) if UNK in ids]
        found: list[dict[int, str]] = [{} for _ in written]
        if not rows:
            return found
        looked_at = self._looked_at([sources[row] for row in rows], [written[row] for row in rows], words, rows)
        for row, places in zip(rows, looked_at, strict=True):
            unknown = [place for place, token in enumerate(written[row]) if token == UNK]
            found[row] = {place: self._word(words[row][places[place]]) for place in unknown}
        return found

    def _looked_at(
        self,
        sources: Sequence[Sequence[int]],
        written: Sequence[Sequence[int]],
        words: Sequence[Sequence[str]],
        rows: Sequence[int],
    ) -> list[list[int]]:
        """For each target token the source word with the most attention; the end token is no word."""
        device = next(self.models[0].parameters()).device
        source = Sequences.padded(sources, pad=PAD, device=device)
        target = Sequences.padded([[BOS, *ids[:-1]] for ids in written], pad=PAD, device=device)
        weights = alignment(self.models, source, target)
        counts = torch.tensor([len(words[row]) for row in rows], device=device)
        no_word = torch.arange(weights.shape[-1], device=device) >= counts[:, None]
        return weights.masked_fill(no_word[:, None], -1.0).argmax(-1).tolist()

    def _word(self, word: str) -> str:
        return self.dictionary.get(word, self.dictionary.get(word.lower(), word))
