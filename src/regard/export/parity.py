"""Does the exported model do what the trained one does? Measured on held-out text, and written into the folder.

An engine is whatever runs an exported folder. It gives the scores of given tokens and the text it writes by itself;
`Trained` gives the same by the trained model.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from regard import __version__, metrics
from regard.decode import GreedyConfig, in_batches, search
from regard.errors import Failure
from regard.export.exported_model import Row, Subject, torch_device
from regard.models import Patches
from regard.models.stepper import PrefixDecoder
from regard.nn.head import NEVER
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, EOS, PAD, SEP

CLOSE = 1e-4
"""Largest difference of a score in float32."""
SAME = 0.999
"""Share of texts that must be written alike."""
BLEU_LOSS = 0.3
"""BLEU that int8 may lose (or gain)."""
LOSS_RATIO = 0.01
"""Share by which int8 may change a language model's loss."""
TOKENS_AT_ONCE = 2048
WRITTEN = 48
"""Tokens that are generated in a check."""

Scores = NDArray[np.float32]
Compared = Literal["logits", "log-probabilities"]


class Engine(Protocol):
    """What runs an exported model."""

    compared: Compared
    """What `scores` gives: all logits of each place, or the log-probability of the token that follows."""

    def scores(self, rows: list[Row]) -> list[Scores]:
        """The scores of each row's target (of the labels, where a model writes nothing)."""
        ...

    def greedy(self, rows: list[Row], longest: int) -> list[list[int]]:
        """What the model writes for each row, without special tokens."""
        ...


class Trained:
    """The trained model itself, as an engine."""

    def __init__(self, subject: Subject, compared: Compared = "logits") -> None:
        self.subject = subject
        self.compared: Compared = compared
        self.device = torch_device(subject.model)

    @torch.no_grad()
    def scores(self, rows: list[Row]) -> list[Scores]:
        """The logits of a padded batch, cut to each row's length."""
        inputs = self._source(rows)
        if not self.subject.writes:
            logits = self.subject.model(*inputs).float().cpu().numpy()
            return [one if one.ndim == 1 else one[: len(row.source)] for one, row in zip(logits, rows, strict=True)]
        target = self._grid([row.target for row in rows])
        logits = self.subject.model(*inputs, target).float().cpu().numpy()
        found = [logits[place, : len(row.target)] for place, row in enumerate(rows)]
        if self.compared == "logits":
            return found
        return [following(one, row, self.subject) for one, row in zip(found, rows, strict=True)]

    def greedy(self, rows: list[Row], longest: int) -> list[list[int]]:
        """Greedy search."""
        config = GreedyConfig(max_length=longest)
        if self.subject.translates:
            (grid,) = self._source(rows)
            found = search(self.subject.model, grid, None, config, eos=EOS, bos=BOS, pad=PAD)  # type: ignore[arg-type]
        elif self.subject.prompted:
            grid = self._grid([[*prompt(row)[:-1], EOS] for row in rows])
            reading: Any = PrefixDecoder(self.subject.model, begin=BOS, separator=SEP)
            found = search(reading, grid, None, config, eos=EOS, bos=BOS, pad=PAD)
        else:
            ends, prompts = EOS if self.subject.documents else None, [prompt(row) for row in rows]
            device = self.device
            found = search(self.subject.model, None, prompts, config, eos=ends, bos=None, pad=PAD, device=device)  # type: ignore[arg-type]
        return [hypotheses[0].tokens for hypotheses in found]

    def _source(self, rows: list[Row]) -> list[Any]:
        """What the model reads, if it reads anything but what it writes."""
        pixels = [row.pixels for row in rows if row.pixels is not None]
        if not pixels:
            return [self._grid([row.source for row in rows])] if rows[0].source else []
        images = torch.from_numpy(np.stack(pixels)).to(self.device)
        return [Patches.of(images, self.subject.config.patch) if self.subject.writes else images]

    def _grid(self, rows: list[list[int]]) -> Sequences:
        return Sequences.padded(rows, device=self.device)


def prompt(row: Row) -> list[int]:
    """What a model of one stack is given to write on from: the source and separator of a row that has them."""
    return row.target[: row.given]


def following(logits: Scores, row: Row, subject: Subject) -> Scores:
    """The log-probability of the token that follows each token of a row; after the last, of the end."""
    largest = logits.max(-1, keepdims=True)
    logprobs = logits - largest - np.log(np.exp(logits - largest).sum(-1, keepdims=True))
    tokens = row.target[1:] + ([EOS] if subject.translates else [])
    return logprobs[np.arange(len(tokens)), tokens].astype(np.float32)


@dataclass(frozen=True)
class Parity:
    """What a check found."""

    target: str
    """huggingface, ctranslate2 or onnx."""
    layout: str
    precision: Literal["float32", "int8"]
    examples: int
    compared: Compared
    largest_difference: float
    identical: float | None = None
    """Share of texts written alike, or of labels chosen alike."""
    bleu: tuple[float, float] | None = None
    """Of the trained and of the exported model."""
    loss: tuple[float, float] | None = None
    """Per token, of the trained and of the exported model; given for int8 language models."""

    def problems(self) -> list[str]:
        """What is not as it must be."""
        found = []
        if self.precision == "float32" and not self.largest_difference <= CLOSE:
            found.append(f"{self.compared} differ by {self.largest_difference:.2g}, at most {CLOSE:g} is allowed")
        if self.precision == "float32" and self.identical is not None and self.identical < SAME:
            found.append(f"{self.identical:.2%} of the answers are identical, at least {SAME:.1%} are needed")
        if self.bleu and self.precision == "int8" and abs(self.bleu[0] - self.bleu[1]) > BLEU_LOSS:
            found.append(f"BLEU goes from {self.bleu[0]:.2f} to {self.bleu[1]:.2f}, at most {BLEU_LOSS} is allowed")
        if self.loss and not abs(self.loss[1] - self.loss[0]) <= LOSS_RATIO * self.loss[0]:
            found.append(f"the loss goes from {self.loss[0]:.4f} to {self.loss[1]:.4f}, at most 1 % is allowed")
        return found

    def require(self) -> None:
        """Refuses an export that does not do what the trained model does."""
        if problems := self.problems():
            raise Failure(f"the {self.target} export failed its check and was not kept: {'; '.join(problems)}")

    def lines(self) -> list[str]:
        """For people."""
        lines = [f"{self.examples:,} held-out examples, {self.precision}"]
        lines += [f"largest difference of {self.compared}: {self.largest_difference:.2g}"]
        if self.identical is not None:
            lines.append(f"identical answers: {self.identical:.2%}")
        if self.bleu:
            lines.append(f"BLEU: {self.bleu[0]:.2f} here, {self.bleu[1]:.2f} exported")
        if self.loss:
            lines.append(f"loss per token: {self.loss[0]:.4f} here, {self.loss[1]:.4f} exported")
        return lines

    def write(self, folder: Path, use: str, name: str) -> None:
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
            use,
            "```",
            "",
        ]
        (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


def check(
    subject: Subject,
    engine: Engine,
    rows: list[Row],
    *,
    target: str,
    layout: str,
    int8: bool = False,
) -> Parity:
    """Runs both on the same examples."""
    trained = Trained(subject, engine.compared)
    ours, theirs = _scored(trained, rows), _scored(engine, rows)
    # numpy's maximum keeps what is no number, where Python's may lose it
    largest = float(np.max([apart(one, other) for one, other in zip(ours, theirs, strict=True)]))
    if not subject.writes:
        pairs = zip(ours, theirs, strict=True)
        alike = [bool((one.argmax(-1) == other.argmax(-1)).all()) for one, other in pairs]
        written: tuple[list[str], list[str]] = ([], [])
    else:
        written = (_written(subject, trained, rows), _written(subject, engine, rows))
        alike = [one == other for one, other in zip(*written, strict=True)]
    bleu = None
    if subject.translates or subject.prompted:
        references = [row.reference for row in rows]
        bleu = (metrics.bleu(written[0], references).value, metrics.bleu(written[1], references).value)
    loss = None
    if int8 and subject.kind == "language_model":
        loss = (_loss(ours, rows, subject, engine), _loss(theirs, rows, subject, engine))
    precision = "int8" if int8 else "float32"
    share = sum(alike) / len(alike)
    return Parity(target, layout, precision, len(rows), engine.compared, largest, share, bleu, loss)


def apart(one: Scores, other: Scores) -> float:
    """The largest difference; how unlikely a token is that neither writes does not matter."""
    never = (one < NEVER / 2) & (other < NEVER / 2)
    return float(np.where(never, 0.0, np.abs(one - other)).max(initial=0.0))


def _scored(engine: Engine, rows: list[Row]) -> list[Scores]:
    return in_batches(rows, engine.scores, tokens_per_batch=TOKENS_AT_ONCE)


def _written(subject: Subject, engine: Engine, rows: list[Row]) -> list[str]:
    longest = max(1, min(WRITTEN, subject.room - subject.prompt_tokens))
    if subject.kind == "summarisation":
        longest = subject.most_written
    elif subject.translates:
        room = min(subject.room, subject.config.longest_target or subject.room)
        longest = min(256, room, 2 * max(len(row.source) for row in rows) + WRITTEN // 2)

    def work(batch: list[Row]) -> list[str]:
        return [subject.target.decode(ids) for ids in engine.greedy(batch, longest)]

    return in_batches(rows, work, tokens_per_batch=TOKENS_AT_ONCE)


def _loss(scores: list[Scores], rows: list[Row], subject: Subject, engine: Engine) -> float:
    found = scores
    if engine.compared == "logits":
        found = [following(one, row, subject) for one, row in zip(scores, rows, strict=True)]
    return -float(np.concatenate(found).mean())
