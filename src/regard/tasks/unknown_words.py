"""PosUnk (Luong 2015): an unknown word in a translation is replaced by the source word that it attends to most.

A dictionary may have that word's translation; otherwise it is copied, as names and numbers are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.findings import Findings
from regard.data.lines import lines
from regard.errors import ConfigError, DataError
from regard.nn.attention.reference import record_attention
from regard.nn.layout import Sequences
from regard.tasks.contract import config_of, token_model
from regard.text.special_tokens import BOS, PAD, UNK

CROSS_ATTENTION = "cross"
"""The name under which every kind of model keeps its attention to the source."""


@torch.no_grad()
def alignment(
    models: Sequence[nn.Module], source: Sequences, target: Sequences
) -> Float[Tensor, "batch target source"]:
    """Cross-attention weights, averaged over models, layers and heads.

    Row i belongs to the query at target token i, from which the token after it is predicted.
    """
    weights = [layer for model in models for layer in _cross_attention(model, source, target)]
    if not weights:
        kinds = ", ".join(sorted({config_of(model).kind for model in models}))
        raise ConfigError("model.kind", f"{kinds} has no attention to the source; use a kind that has it")
    return torch.stack(weights).mean(0)


def _cross_attention(
    model: nn.Module, source: Sequences, target: Sequences
) -> list[Float[Tensor, "batch target source"]]:
    with record_attention(model) as recorded:
        token_model(model).hidden(source, target)
    return [
        steps[-1].weights.float().mean(1)
        for name, steps in recorded.items()
        if name.split(".")[-1] == CROSS_ATTENTION and steps
    ]


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
    """Replaces unknown words of a translation through attention."""

    models: Sequence[nn.Module]
    """Those that translated: one, or the members of an ensemble."""
    dictionary: Mapping[str, str] = field(default_factory=dict[str, str])

    def replacements(
        self, sources: Sequence[Sequence[int]], words: Sequence[Sequence[str]], targets: Sequence[Sequence[int]]
    ) -> list[dict[int, str]]:
        """For each sentence, the words that replace its unknown ones, by their positions.

        `sources` are token ids as the model read them, `words` the same as they were spelt.
        """
        replacements: list[dict[int, str]] = [{} for _ in targets]
        rows = [row for row, ids in enumerate(targets) if UNK in ids]
        if not rows:
            return replacements
        aligned = self._aligned_words(
            [sources[row] for row in rows], [words[row] for row in rows], [targets[row] for row in rows]
        )
        for row, positions in zip(rows, aligned, strict=True):
            unknown = [position for position, token in enumerate(targets[row]) if token == UNK]
            replacements[row] = {position: self._translate(words[row][positions[position]]) for position in unknown}
        return replacements

    def _aligned_words(
        self, sources: Sequence[Sequence[int]], words: Sequence[Sequence[str]], targets: Sequence[Sequence[int]]
    ) -> list[list[int]]:
        """For each target token, the index of the source word with the most attention; the end token is no word."""
        device = next(self.models[0].parameters()).device
        source = Sequences.padded(sources, pad=PAD, device=device)
        target = Sequences.padded([[BOS, *ids[:-1]] for ids in targets], pad=PAD, device=device)
        weights = alignment(self.models, source, target)
        counts = torch.tensor([len(row) for row in words], device=device)
        no_word = torch.arange(weights.shape[-1], device=device) >= counts[:, None]
        return weights.masked_fill(no_word[:, None], -1.0).argmax(-1).cpu().numpy().tolist()

    def _translate(self, word: str) -> str:
        return self.dictionary.get(word, self.dictionary.get(word.lower(), word))
