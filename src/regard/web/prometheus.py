"""Counts for Prometheus, in its text format."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

Labels = tuple[tuple[str, str], ...]
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
HELP = {
    "regard_requests_total": "Requests answered.",
    "regard_request_seconds": "Seconds from a request's headers to the end of its answer.",
    "regard_batches_total": "Batches that models answered.",
    "regard_batched_inputs_total": "Texts and passages in these batches.",
    "regard_tokens_written_total": "Tokens written by completions.",
}


class Meters:
    """Counters, one histogram and watched values; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._times: dict[Labels, list[float]] = defaultdict(lambda: [0.0] * (len(SECONDS) + 2))
        self._watched: dict[str, tuple[str, list[tuple[Labels, Callable[[], float]]]]] = {}

    def count(self, name: str, labels: Mapping[str, str], amount: float = 1) -> None:
        """Adds to a counter."""
        with self._lock:
            self._counts[name][tuple(labels.items())] += amount

    def time(self, labels: Mapping[str, str], seconds: float) -> None:
        """Adds to the histogram of seconds."""
        with self._lock:
            row = self._times[tuple(labels.items())]
            for place, bound in enumerate(SECONDS):
                row[place] += seconds <= bound
            row[-2] += 1
            row[-1] += seconds

    def watch(self, name: str, help: str, labels: Mapping[str, str], value: Callable[[], float]) -> None:
        """Reads a value whenever somebody looks."""
        self._watched.setdefault(name, (help, []))[1].append((tuple(labels.items()), value))

    def text(self) -> str:
        """All of them as Prometheus reads them."""
        lines: list[str] = []
        with self._lock:
            for name, rows in sorted(self._counts.items()):
                lines += _head(name, HELP[name], "counter")
                lines += [_line(name, labels, value) for labels, value in sorted(rows.items())]
            lines += self._histogram("regard_request_seconds")
        for name, (help, rows) in sorted(self._watched.items()):
            lines += _head(name, help, "gauge")
            lines += [_line(name, labels, value()) for labels, value in rows]
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> list[str]:
        lines = _head(name, HELP[name], "histogram") if self._times else []
        for labels, (*within, total, seconds) in sorted(self._times.items()):
            for bound, value in zip((*SECONDS, "+Inf"), (*within, total), strict=True):
                lines.append(_line(f"{name}_bucket", (*labels, ("le", str(bound))), value))
            lines += [_line(f"{name}_count", labels, total), _line(f"{name}_sum", labels, seconds)]
        return lines


def _head(name: str, help: str, kind: str) -> list[str]:
    return [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]


def _line(name: str, labels: Labels, value: float) -> str:
    escaped = ((key, text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for key, text in labels)
    inside = ",".join(f'{key}="{text}"' for key, text in escaped)
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"
