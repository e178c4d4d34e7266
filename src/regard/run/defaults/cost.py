"""Estimated training costs: FLOPs per example, seconds per epoch, epochs that a budget allows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

BYTES_PER_TOKEN = ((4000, 4.0), (1500, 3.4), (0, 2.7))
"""Of subwords, by the size of the vocabulary: what 8,000, 2,000 and 500 tokens give on Multi30k."""


@dataclass(frozen=True)
class Machine:
    """Where a model is trained, and how fast that is."""

    device: str
    """cpu or cuda."""
    peak: float
    """FLOP/s of large matrix products."""
    processes: int = 1

    @property
    def is_gpu(self) -> bool:
        return self.device == "cuda"

    def rate(self, width: int) -> float:
        """FLOP/s that training a model of this width reaches: small matrices use little of the peak.

        Fitted to runs of docs/results.md: 65 GFLOP/s at width 128 on two cores whose peak is 205, and 16 to 24 TFLOP/s
        at widths 256 to 384 on an H200, where kernel launches and memory traffic take longer than the matmuls.
        """
        if self.is_gpu:
            return self.processes * min(0.35 * self.peak, 3.2e13 * width / 512)
        return self.processes * self.peak * min(0.6, 0.3 * (width / 128) ** 0.5)

    @property
    def overhead(self) -> float:
        """Seconds of a step that do not grow with its batch."""
        return 0.01


@dataclass(frozen=True)
class Candidate:
    """A model that could be trained: its size, and what a training example is made of."""

    width: int
    depth: int
    vocab: int
    reads: float
    """Tokens that the model reads of an example."""
    writes: float = 0.0
    """Tokens that a decoder beside an encoder predicts."""
    predicts: bool = True
    """Whether every token is scored over the vocabulary."""
    context: float | None = None
    """Tokens that attend to one another; those of the example when left out."""
    feedforward: bool = True
    passes: int = 1
    """How often a step reads its batch."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", max(1.0, self.reads))  # the end token of an empty text, if nothing else

    @property
    def parameters(self) -> float:
        """Weights of the blocks, without embeddings."""
        block = (12 if self.feedforward else 4) * self.width**2
        return self.depth * (block + (16 * self.width**2 if self.writes else 0))

    @property
    def flops(self) -> float:
        """FLOPs of training on one example: forward, and twice that backward."""
        w, reads, writes = self.width, self.reads, self.writes
        block = (24 if self.feedforward else 8) * w * w
        forward = self.depth * (block * reads + 4 * w * reads * (self.context or reads))
        forward += self.depth * (32 * w * w * writes + 4 * w * writes * (writes + reads))
        scored = (writes or reads) if self.predicts else 0.0
        return 3 * self.passes * (forward + 2 * w * self.vocab * scored)

    @property
    def tokens(self) -> float:
        return self.reads + self.writes

    def twice(self) -> "Candidate":
        """The same model where a step passes its batch twice, as R-Drop does."""
        return replace(self, passes=2 * self.passes)


@dataclass(frozen=True)
class Effort:
    """A candidate trained on so many examples in batches of so many tokens, on a machine."""

    candidate: Candidate
    examples: int
    batch: int
    machine: Machine

    @property
    def steps_per_epoch(self) -> float:
        """Batches of an epoch; they are filled by the longer side, padding counted."""
        longer = max(self.candidate.reads, self.candidate.writes, 1.0)
        return max(1.0, self.examples * longer * 1.1 / self.batch)

    @property
    def seconds_per_epoch(self) -> float:
        work = self.examples * self.candidate.flops / self.machine.rate(self.candidate.width)
        return work + self.steps_per_epoch * self.machine.overhead

    def epochs(self, limits: Mapping[str, float]) -> float:
        """Passes over the data that a budget allows."""
        per_epoch = {
            "epochs": 1.0,
            "steps": self.steps_per_epoch,
            "minutes": self.seconds_per_epoch / 60,
            "flops": self.examples * self.candidate.flops,
            "tokens": self.examples * self.candidate.tokens,
        }
        return min(limit / max(per_epoch[name], 1e-12) for name, limit in limits.items())


def subwords(size: int) -> float:
    """Bytes of text for each token of a vocabulary of subwords."""
    return next(number for least, number in BYTES_PER_TOKEN if size >= least)
