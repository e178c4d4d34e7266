"""Notices a process that hangs: the others exit, so that torchrun can restart all of them.

torchrun notices by itself when a process ends. For one that hangs, the others would wait half an hour in the next
collective; so each process keeps increasing a counter in a store that all can read.
"""

import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Self

import torch.distributed as dist

from regard.train.parallel.processes import agent_store

INTERVAL = 5.0  # seconds between two counts
MISSED = 8
"""Intervals of this process without progress of another: a pause of all processes together is not counted."""
FINISHED = "done"


class Watchdog:
    """Counts for the length of a `with` block, and exits the process when another one stops counting."""

    def __init__(
        self,
        rank: int,
        size: int,
        *,
        store: dist.Store | None = None,  # type: ignore[reportPrivateImportUsage]
        interval: float = INTERVAL,
        leave: Callable[[str], None] | None = None,
    ) -> None:
        self.rank, self.size, self.interval = rank, size, interval
        self.leave = leave or exit_now
        self._store = store
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        if self.size > 1:
            self._store = self._store or agent_store("heartbeat", timedelta(seconds=30))
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(2 * self.interval)

    def _run(self) -> None:
        assert self._store is not None
        others = dict.fromkeys((rank for rank in range(self.size) if rank != self.rank), (b"", 0))
        count = 0
        try:
            while not self._ended.wait(self.interval):
                count += 1
                self._store.set(str(self.rank), str(count))
                others = {rank: self._poll(rank, *before) for rank, before in others.items()}
                for rank, (_, missed) in others.items():
                    if missed >= MISSED:
                        return self.leave(self._message(rank))
            self._store.set(str(self.rank), FINISHED)
        except (RuntimeError, dist.DistError):  # the store is gone, and torchrun with it
            return

    def _poll(self, rank: int, before: bytes, missed: int) -> tuple[bytes, int]:
        """Another process's counter, and for how many intervals it has not changed."""
        assert self._store is not None
        now = self._store.get(str(rank)) if self._store.check([str(rank)]) else b""
        return now, missed + 1 if now == before and now not in (b"", FINISHED.encode()) else 0

    def _message(self, rank: int) -> str:
        return (
            f"process {rank} of {self.size} has made no progress for {MISSED * self.interval:g} s; process {self.rank} "
            "exits, so that torchrun can restart all of them (--max-restarts)"
        )


def exit_now(message: str) -> None:
    """Ends the process from any thread: the main thread may hang in a collective, and checkpoints survive a kill."""
    print(f"regard: {message}", file=sys.stderr, flush=True)  # noqa: T201
    os._exit(1)
