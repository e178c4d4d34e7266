"""A process of a team that stands still: the others notice and leave, so that torchrun can start all of them anew.

torchrun sees by itself when a process ends. One that is frozen, or whose machine hangs, would let the others wait for
it in the next sum for half an hour; so each counts aloud in a store that all can read.
"""

import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Self

import torch.distributed as dist

from regard.train.parallel.rendezvous import store_for

BEAT = 5.0  # seconds between two counts
SILENT_BEATS = 8
"""So many beats of our own without one of another's are enough: what froze us together is nobody's silence."""
DONE = "done"


class Heartbeat:
    """Counts for the length of a `with` block, and leaves the process when another one of the team stops counting."""

    def __init__(
        self,
        rank: int,
        size: int,
        *,
        store: dist.Store | None = None,  # type: ignore[reportPrivateImportUsage]
        beat: float = BEAT,
        leave: Callable[[str], None] | None = None,
    ) -> None:
        self.rank, self.size, self.beat = rank, size, beat
        self.leave = leave or leave_at_once
        self._store = store
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        if self.size > 1:
            self._store = self._store or store_for("heartbeat", timedelta(seconds=30))
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(2 * self.beat)

    def _run(self) -> None:
        assert self._store is not None
        heard = dict.fromkeys((rank for rank in range(self.size) if rank != self.rank), (b"", 0))
        count = 0
        try:
            while not self._ended.wait(self.beat):
                count += 1
                self._store.set(str(self.rank), str(count))
                heard = {rank: self._listen(rank, *before) for rank, before in heard.items()}
                for rank, (_, silent) in heard.items():
                    if silent >= SILENT_BEATS:
                        return self.leave(self._sentence(rank))
            self._store.set(str(self.rank), DONE)
        except (RuntimeError, dist.DistError):  # who kept the store is gone, and torchrun with it
            return

    def _listen(self, rank: int, before: bytes, silent: int) -> tuple[bytes, int]:
        """What another process counted last, and for how many beats of ours it has been that."""
        assert self._store is not None
        now = self._store.get(str(rank)) if self._store.check([str(rank)]) else b""
        return now, silent + 1 if now == before and now not in (b"", DONE.encode()) else 0

    def _sentence(self, rank: int) -> str:
        return (
            f"process {rank} of {self.size} has stood still for {SILENT_BEATS * self.beat:g} s; process {self.rank} "
            "leaves, so that torchrun can start all of them again (--max-restarts)"
        )


def leave_at_once(sentence: str) -> None:
    """Ends the process from any thread: the others wait in sums that will never be, and checkpoints survive a kill."""
    print(f"regard: {sentence}", file=sys.stderr, flush=True)  # noqa: T201
    os._exit(1)
