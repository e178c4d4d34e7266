"""Does the exported model do what the trained one does? Measured on held-out data, and written into the folder."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard import __version__, metrics
from regard.decode import GreedyConfig, in_batches, search
from regard.errors import Failure
from regard.export.exported_model import ExportedModel, Row
from regard.models import Patches
from regard.models.contract import GenerativeModel
from regard.models.stepper import PrefixDecoder
from regard.models.vision import PatchConfig
from regard.nn.head import NEVER
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, EOS, PAD, SEP

TOLERANCE = 1e-4
"""Largest difference of a score in float32."""
IDENTICAL = 0.999
"""Share of outputs that must be identical."""
BLEU_CHANGE = 0.3
"""BLEU that int8 may lose (or gain)."""
LOSS_CHANGE = 0.01
"""Share by which int8 may change a language model's loss."""
TOKENS_PER_BATCH = 2048
GENERATED = 48
"""Tokens that a language model generates in a check."""

Scores = NDArray[np.float32]
Compared = Literal["logits", "log-probabilities"]


class Engine(Protocol):
    """What runs an exported folder."""

    compared: Compared
    """What `scores` gives: all logits of each position, or the log-probability of the token that follows."""

    def scores(self, rows: list[Row]) -> list[Scores]:
        """The scores of each row's target; of its labels where nothing is generated."""
        ...

    def greedy(self, rows: list[Row], max_length: int) -> list[list[int]]:
        """What greedy search generates for each row, without special tokens."""
        ...


class ExportedFolder(NamedTuple):
    """What a target has written."""

    engine: Engine
    layout: str
    """The architecture, specification or graphs that hold the model."""
    usage: str
    """An example of its use, for the README."""


class ExportTarget(NamedTuple):
    """A format of other programs that models are exported to."""

    name: str
    write: Callable[[ExportedModel, Path, bool], ExportedFolder]
    """Writes a model into a folder, with int8 weights or not."""
    int8: bool = False
    """Whether it can hold int8 weights."""


class TorchEngine:
    """The trained model itself, as an engine."""

    def __init__(self, exported: ExportedModel, compared: Compared = "logits") -> None:
        self.exported = exported
        self.compared: Compared = compared
        self.device = next(exported.model.parameters()).device

    @torch.no_grad()
    def scores(self, rows: list[Row]) -> list[Scores]:
        """The logits of a padded batch, cut to each row's length."""
        if not self.exported.generates:
            inputs = self._images(rows) if rows[0].pixels is not None else self._source(rows)
            return label_scores(self.exported.model(inputs).float().cpu().numpy(), rows)
        sources = [self._source(rows)] if rows[0].source else []
        target = self._padded([row.target for row in rows])
        logits = self.exported.model(*sources, target).float().cpu().numpy()
        scores = target_scores(logits, rows)
        if self.compared == "logits":
            return scores
        return [next_logprobs(one, row, self.exported) for one, row in zip(scores, rows, strict=True)]

    def greedy(self, rows: list[Row], max_length: int) -> list[list[int]]:
        config, model = GreedyConfig(max_length=max_length), self.exported.model
        assert isinstance(model, GenerativeModel)
        if self.exported.has_source:
            source = self._source(rows)
            hypotheses = search(model, source, None, config, eos=EOS, bos=BOS, pad=PAD)
        elif self.exported.prompted:
            source = self._padded([[*row.prompt[:-1], EOS] for row in rows])
            reader = PrefixDecoder(model, begin=BOS, separator=SEP)
            hypotheses = search(reader, source, None, config, eos=EOS, bos=BOS, pad=PAD)
        else:
            eos, prompts = EOS if self.exported.documents else None, [row.prompt for row in rows]
            hypotheses = search(model, None, prompts, config, eos=eos, bos=None, pad=PAD, device=self.device)
        return [best.tokens for best, *_ in hypotheses]

    def _source(self, rows: list[Row]) -> Sequences:
        """What an encoder reads: texts or images."""
        if rows[0].pixels is None:
            return self._padded([row.source for row in rows])
        config = self.exported.config
        assert isinstance(config, PatchConfig)
        return Patches.of(self._images(rows), config.patch)

    def _images(self, rows: list[Row]) -> Tensor:
        return torch.from_numpy(np.stack([row.pixels for row in rows if row.pixels is not None])).to(self.device)

    def _padded(self, rows: list[list[int]]) -> Sequences:
        return Sequences.padded(rows, device=self.device)


def label_scores(logits: Scores, rows: list[Row]) -> list[Scores]:
    """Scores of each row's labels, or of each of its tokens."""
    return [one if one.ndim == 1 else one[: len(row.source)] for one, row in zip(logits, rows, strict=True)]


def target_scores(logits: Scores, rows: list[Row]) -> list[Scores]:
    """Logits of each row's target, without padding."""
    return [logits[index, : len(row.target)] for index, row in enumerate(rows)]


def next_logprobs(logits: Scores, row: Row, exported: ExportedModel) -> Scores:
    """The log-probability of the token that follows each token of a row; after the last, of the end."""
    largest = logits.max(-1, keepdims=True)
    logprobs = logits - largest - np.log(np.exp(logits - largest).sum(-1, keepdims=True))
    tokens = row.target[1:] + ([EOS] if exported.has_source else [])
    return logprobs[np.arange(len(tokens)), tokens].astype(np.float32)


@dataclass(frozen=True)
class Parity:
    """What a check measured."""

    target: str
    """huggingface, ctranslate2 or onnx."""
    layout: str
    precision: Literal["float32", "int8"]
    examples: int
    compared: Compared
    largest_difference: float
    identical: float | None = None
    """Share of identical texts or labels."""
    bleu: tuple[float, float] | None = None
    """Of the trained and of the exported model."""
    loss: tuple[float, float] | None = None
    """Per token, of the trained and of the exported model; of int8 language models."""

    def problems(self) -> list[str]:
        problems = []
        if self.precision == "float32" and not self.largest_difference <= TOLERANCE:
            problems.append(
                f"{self.compared} differ by {self.largest_difference:.2g}, at most {TOLERANCE:g} is allowed"
            )
        if self.precision == "float32" and self.identical is not None and self.identical < IDENTICAL:
            problems.append(f"{self.identical:.2%} of the answers are identical, at least {IDENTICAL:.1%} are needed")
        if self.bleu and self.precision == "int8" and abs(self.bleu[0] - self.bleu[1]) > BLEU_CHANGE:
            problems.append(
                f"BLEU goes from {self.bleu[0]:.2f} to {self.bleu[1]:.2f}, at most {BLEU_CHANGE} is allowed"
            )
        if self.loss and not abs(self.loss[1] - self.loss[0]) <= LOSS_CHANGE * self.loss[0]:
            problems.append(f"the loss goes from {self.loss[0]:.4f} to {self.loss[1]:.4f}, at most 1 % is allowed")
        return problems

    def require(self) -> None:
        """Refuses an export that does not do what the trained model does."""
        if problems := self.problems():
            raise Failure(f"the {self.target} export failed its check and was not kept: {'; '.join(problems)}")

    def lines(self) -> list[str]:
        lines = [f"{self.examples:,} held-out examples, {self.precision}"]
        lines += [f"largest difference of {self.compared}: {self.largest_difference:.2g}"]
        if self.identical is not None:
            lines.append(f"identical answers: {self.identical:.2%}")
        if self.bleu:
            lines.append(f"BLEU: {self.bleu[0]:.2f} here, {self.bleu[1]:.2f} exported")
        if self.loss:
            lines.append(f"loss per token: {self.loss[0]:.4f} here, {self.loss[1]:.4f} exported")
        return lines

    def write(self, folder: Path, usage: str, name: str) -> None:
        """parity.json for programs and README.md for people."""
        tree = {**asdict(self), "passed": not self.problems(), "regard": __version__}
        (folder / "parity.json").write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")
        lines = [
            f"# {name}",
            "",
            f"A model trained with regard {__version__}, exported to {self.target} (layout: {self.layout}).",
            "",
            "Checked against the trained model:",
            "",
            *(f"- {line}" for line in self.lines()),
            "",
            "```python",
            usage,
            "```",
            "",
        ]
        (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


def check(
    exported: ExportedModel,
    engine: Engine,
    rows: list[Row],
    *,
    target: str,
    layout: str,
    int8: bool = False,
) -> Parity:
    """Runs the trained and the exported model on the same examples."""
    trained = TorchEngine(exported, engine.compared)
    ours, theirs = _scores(trained, rows), _scores(engine, rows)
    # numpy's maximum keeps NaN, where Python's may lose it
    difference = float(np.max([largest_difference(one, other) for one, other in zip(ours, theirs, strict=True)]))
    texts: tuple[list[str], list[str]] = ([], [])
    if exported.generates:
        texts = (_texts(exported, trained, rows), _texts(exported, engine, rows))
        identical = [one == other for one, other in zip(*texts, strict=True)]
    else:
        pairs = zip(ours, theirs, strict=True)
        identical = [bool((one.argmax(-1) == other.argmax(-1)).all()) for one, other in pairs]
    bleu = None
    if exported.has_source or exported.prompted:
        references = [row.reference for row in rows]
        bleu = (metrics.bleu(texts[0], references).value, metrics.bleu(texts[1], references).value)
    loss = None
    if int8 and exported.task == "language_model":
        loss = (_loss(ours, rows, exported, engine), _loss(theirs, rows, exported, engine))
    precision = "int8" if int8 else "float32"
    share = sum(identical) / len(identical)
    return Parity(target, layout, precision, len(rows), engine.compared, difference, share, bleu, loss)


def largest_difference(one: Scores, other: Scores) -> float:
    """The largest difference of scores, except of tokens that neither model generates."""
    never = (one < NEVER / 2) & (other < NEVER / 2)
    return float(np.where(never, 0.0, np.abs(one - other)).max(initial=0.0))


def _scores(engine: Engine, rows: list[Row]) -> list[Scores]:
    return in_batches(rows, engine.scores, tokens_per_batch=TOKENS_PER_BATCH)


def _texts(exported: ExportedModel, engine: Engine, rows: list[Row]) -> list[str]:
    max_length = max(1, min(GENERATED, exported.max_positions - exported.prompt_tokens))
    if exported.task == "summarisation":
        max_length = exported.max_new_tokens
    elif exported.has_source:
        positions = min(exported.max_positions, exported.config.longest_target or exported.max_positions)
        max_length = min(256, positions, 2 * max(len(row.source) for row in rows) + GENERATED // 2)

    def generate(batch: list[Row]) -> list[str]:
        return [exported.target.decode(ids) for ids in engine.greedy(batch, max_length)]

    return in_batches(rows, generate, tokens_per_batch=TOKENS_PER_BATCH)


def _loss(scores: list[Scores], rows: list[Row], exported: ExportedModel, engine: Engine) -> float:
    if engine.compared == "logits":
        scores = [next_logprobs(one, row, exported) for one, row in zip(scores, rows, strict=True)]
    return -float(np.concatenate(scores).mean())
