"""A request's work for a model: what is asked, and where its answer goes."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar

from regard.decode import BeamConfig, SampleConfig
from regard.web.engine import Engine
from regard.web.text_stream import Passage


@dataclass(frozen=True)
class Translating:
    """Translate texts; requests that ask for equally many translations share a batch."""

    outputs: int = 1
    repeatable: ClassVar[bool] = True

    def answer(self, engine: Engine, texts: Sequence[str]) -> Sequence[Any]:
        """The translations of each text."""
        return engine.translate(texts, self.outputs)


@dataclass(frozen=True)
class Classifying:
    """Classify texts."""

    repeatable: ClassVar[bool] = True

    def answer(self, engine: Engine, texts: Sequence[str]) -> Sequence[Any]:
        """The probabilities for each text."""
        return engine.classify(texts)


@dataclass(frozen=True)
class Writing:
    """Write passages; requests with the same search share a batch, whatever their seeds and lengths."""

    search: SampleConfig | BeamConfig
    likeliest: int | None = None
    repeatable: ClassVar[bool] = False  # listeners have heard some of it already

    def answer(self, engine: Engine, passages: Sequence[Passage]) -> Sequence[Passage]:
        """The same passages, written."""
        engine.write(passages, self.search, self.likeliest)
        return passages


@dataclass(frozen=True, eq=False)
class Looking:
    """Lay open what a model does with a text or an image; no two requests share it."""

    target: str | None
    options: dict[str, Any]
    repeatable: ClassVar[bool] = False

    def answer(self, engine: Engine, texts: Sequence[str]) -> Sequence[Any]:
        """What the page shows."""
        return [engine.attention(text, self.target, self.options) for text in texts]


Ask = Translating | Classifying | Writing | Looking


@dataclass(eq=False)
class Job:
    """What one request asks of one run."""

    ask: Ask
    """Jobs whose asks are equal may be answered together."""
    items: Sequence[Any]
    """Texts, or passages."""
    longest: int
    """Tokens of the longest item, read and written."""
    future: "Future[list[Any]]" = field(default_factory=Future)
    """One result an item."""

    def leave(self) -> None:
        """Nobody waits for the answer any more: what has not begun is dropped, what is being written stops."""
        self.future.cancel()
        for item in self.items:
            if isinstance(item, Passage):
                item.leave()
