"""An engine whose batches wait for the test, and which remembers what it was asked."""

import threading
from collections.abc import Sequence
from typing import Any

from regard.errors import RegardError
from regard.tasks.generation import Output
from regard.web.text_stream import TextStream, Token

SECONDS = 20


class GatedEngine:
    """Turns texts round; each batch begins when the test lets it."""

    def __init__(self, open_at_once: bool = False) -> None:
        self.batches: list[list[Any]] = []
        self.begun = threading.Semaphore(0)
        self.gate = threading.Semaphore(10_000 if open_at_once else 0)
        self.written: list[TextStream] = []
        self.closed = threading.Event()

    def translate(self, texts: Sequence[str], outputs: int) -> list[list[Output]]:
        self._enter(list(texts))
        if "bad" in texts:
            raise RegardError("this text is bad")
        if "broken" in texts:
            raise ZeroDivisionError("a mistake of ours")
        return [[Output(text[::-1], 0.0, [], [], True)] * outputs for text in texts]

    def classify(self, texts: Sequence[str]) -> list[dict[str, float] | None]:
        self._enter(list(texts))
        return [{"label": 1.0} for _ in texts]

    def generate(self, streams: Sequence[TextStream], search: Any, top_logprobs: int | None) -> None:
        self._enter(list(streams))
        while any(stream.open for stream in streams):
            assert self.gate.acquire(timeout=SECONDS)
            for stream in streams:
                if stream.open:
                    stream.append(Token(stream.tokenizer.encode("a")[0], -1.0))
        self.closed.set()

    def attention(self, text: str, target: str | None, options: dict[str, Any]) -> dict[str, Any]:
        self._enter([text])
        return {"about": {}}

    def _enter(self, items: list[Any]) -> None:
        self.batches.append(items)
        self.begun.release()
        assert self.gate.acquire(timeout=SECONDS)

    def wait_for_batch(self) -> None:
        assert self.begun.acquire(timeout=SECONDS)
