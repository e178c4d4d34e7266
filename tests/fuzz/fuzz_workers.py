"""Sessions side by side in processes of their own, so that one which hangs or dies is a finding and no more."""

import argparse
import faulthandler
import json
import os
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from multiprocessing import connection, get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

SECONDS = 60.0
"""What one command line may take."""
MEMORY = 8 << 30
"""Bytes that a worker may hold."""
REPORT = 60.0
"""Seconds between two lines that say how far it is."""
SESSIONS = 150
"""A worker is replaced after so many sessions, so that nothing piles up."""


@dataclass
class Summary:
    """What many cases came to."""

    exits: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    sentences: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    reported: float = field(default_factory=time.monotonic)

    @property
    def cases(self) -> int:
        """Command lines that were run."""
        return sum(self.exits.values())

    def add(self, record: dict[str, Any]) -> None:
        """Counts one case."""
        self.exits[record["verb"], record["code"]] += 1
        self.seconds[record["verb"]] += record["seconds"]
        if record["code"] and record["sentence"]:
            self.sentences[
                f"{record['code']} {record['verb']}: {re.sub(r'[0-9]+', 'N', record['sentence'])[:150]}"
            ] += 1
        self.findings += [f"seed {record['seed']}, command {record['number']} ({record['words']}): {problem}"
                          for problem in record["problems"]]  # fmt: skip

    def report(self) -> None:
        """Says on standard error how far it is, once a minute."""
        if time.monotonic() > self.reported + REPORT:
            self.reported = time.monotonic()
            sys.stderr.write(f"{self.cases:,} command lines, {len(self.findings):,} findings\n")

    def lines(self, sentences: int = 0) -> Iterator[str]:
        """The summary for people."""
        taken = time.monotonic() - self.started
        yield f"{self.cases:,} command lines in {taken:,.0f} s; findings: {len(self.findings)}"
        yield f"{'verb':12} {'exit 0':>8} {'exit 1':>8} {'exit 2':>8} {'other':>6} {'success':>8} {'s/case':>7}"
        for verb in sorted({verb for verb, _ in self.exits}, key=lambda verb: -self._count(verb)):
            codes = [self.exits[verb, code] for code in (0, 1, 2)]
            total = self._count(verb)
            row = " ".join(f"{code:8,}" for code in codes)
            pace = self.seconds[verb] / total
            yield f"{verb[:12]:12} {row} {total - sum(codes):6,} {codes[0] / total:8.0%} {pace:7.3f}"
        for sentence, number in self.sentences.most_common(sentences):
            yield f"{number:6,} × exit {sentence}"
        groups: dict[str, list[str]] = {}
        for finding in self.findings:
            groups.setdefault(re.sub(r"[0-9]+", "N", finding.partition("): ")[2])[:110], []).append(finding)
        for group in sorted(groups.values(), key=len, reverse=True):
            yield f"{len(group):,} × such as: {group[0]}"
            yield from (f"      and {finding}" for finding in group[1:4])

    def tree(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        verbs = sorted({verb for verb, _ in self.exits})
        exits = {
            verb: {str(code): n for (name, code), n in sorted(self.exits.items()) if name == verb} for verb in verbs
        }
        seconds = round(time.monotonic() - self.started, 1)
        return {"cases": self.cases, "seconds": seconds, "exits": exits, "findings": self.findings}

    def _count(self, verb: str) -> int:
        return sum(number for (other, _), number in self.exits.items() if other == verb)


def prepare_process() -> None:
    """One thread, no GPU, no network, bounded memory; the same in workers and where a single seed is run."""
    os.environ.update(
        CUDA_VISIBLE_DEVICES="",
        OMP_NUM_THREADS="1",
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
        MPLBACKEND="Agg",
    )
    os.environ.pop("REGARD_ENGINE", None)
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # as tests/conftest.py does
    source = str(Path(find_spec("regard").origin).parents[1])  # type: ignore[union-attr, arg-type]
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])  # sessions change the folder
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    import torch

    torch.set_num_threads(1)


def work(channel: connection.Connection) -> None:
    """A worker: seeds come in, a record for each command line goes out."""
    sys.path.insert(0, str(Path(__file__).parent))
    prepare_process()
    while (seed := channel.recv()) is not None:
        folder = Path(tempfile.mkdtemp(prefix="regard-fuzz-")).resolve()
        channel.send(("folder", str(folder)))
        try:
            for record in _records(seed, folder, channel):
                channel.send(("case", record))
        except Exception:
            problem = f"the fuzzer itself: {traceback.format_exc()[-1500:]}"
            channel.send(("case", _failed(seed, -1, ["?"], problem)))
        finally:
            faulthandler.cancel_dump_traceback_later()
            shutil.rmtree(folder, ignore_errors=True)
            Path(f"{folder}.stack").unlink(missing_ok=True)
        channel.send(("done", seed))


def _records(seed: int, folder: Path, channel: connection.Connection) -> Iterator[dict[str, Any]]:
    from fuzz_sessions import Session

    def begin(seed: int, number: int, words: Sequence[str]) -> None:
        channel.send(("begin", (seed, number, list(words))))
        faulthandler.dump_traceback_later(0.8 * SECONDS, file=stack)

    stack = Path(f"{folder}.stack").open("w")  # noqa: SIM115
    session = Session(seed, folder, begin)
    for case in session.cases():
        said = [line for line in case.outcome.stderr.splitlines() if line.strip()]
        yield {
            "seed": case.seed, "number": case.number, "verb": case.outcome.verb,
            "words": " ".join(case.outcome.words)[:200],
            "code": case.outcome.code if not case.outcome.traceback else -1, "seconds": case.outcome.seconds,
            "problems": case.problems, "sentence": said[-1] if said else "",
        }  # fmt: skip


def _failed(seed: int, number: int, words: list[str], problem: str) -> dict[str, Any]:
    verb = next((word for word in words if not word.startswith("-")), "?")
    return {"seed": seed, "number": number, "verb": verb, "words": " ".join(words)[:200], "code": -1, "seconds": 0.0,
            "problems": [problem], "sentence": ""}  # fmt: skip


class Worker:
    """A process that runs sessions, and what it is doing."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.channel, other = context.Pipe()
        self.process: SpawnProcess = context.Process(target=work, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.current: tuple[int, int, list[str]] | None = None
        self.since = time.monotonic()
        self.folder = ""
        self.sessions = 0

    def start(self, seed: int) -> None:
        """Hands a seed over."""
        self.sessions += 1
        self.current, self.since = (seed, -1, ["?"]), time.monotonic() + 60  # the first import takes longer
        self.channel.send(seed)

    def stop(self) -> None:
        """Ends the process, and removes what it leaves."""
        self.process.kill()
        self.process.join()
        self.channel.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            Path(f"{self.folder}.stack").unlink(missing_ok=True)

    def stack(self) -> str:
        """Where the process was shortly before its time was over, innermost first."""
        file = Path(f"{self.folder}.stack")
        text = file.read_text(errors="replace") if self.folder and file.exists() else ""
        frames = re.findall(r'File "[^"]*?([^"/]+/[^"/]+)", line (\d+)', text)
        return " < ".join(f"{file}:{line}" for file, line in frames[:12])


def run_cases(
    cases: int, processes: int, base: int, *, seconds: float | None = None, limit: float = SECONDS
) -> Summary:
    """Sessions with the seeds base, base + 1, … until there are so many cases, or the time is over."""
    summary, seeds = Summary(), count(base)
    until = summary.started + seconds if seconds is not None else float("inf")
    workers = [Worker() for _ in range(processes)]
    try:
        for worker in workers:
            worker.start(next(seeds))
        while workers:
            ready = connection.wait([worker.channel for worker in workers], timeout=1.0)
            summary.report()
            for worker in list(workers):
                state = _heard(worker, summary) if worker.channel in ready else _late(worker, summary, limit)
                over = time.monotonic() > until
                if state == "busy" and not over:
                    continue
                more = summary.cases < cases and not over
                if state == "gone" or worker.sessions >= SESSIONS or not more:
                    worker.stop()
                    workers.remove(worker)
                    if more:
                        workers.append(worker := Worker())
                if more:
                    worker.start(next(seeds))
    finally:
        for worker in workers:
            worker.stop()
    return summary


def _heard(worker: Worker, summary: Summary) -> str:
    """Takes one message: `busy`, `idle` after a session, `gone` where the process died."""
    try:
        kind, content = worker.channel.recv()
    except EOFError:
        worker.process.join()
        assert worker.current is not None
        summary.add(_failed(*worker.current, f"the process died, exit code {worker.process.exitcode}"))
        return "gone"
    worker.since = time.monotonic()
    if kind == "begin":
        worker.current = content
    elif kind == "folder":
        worker.folder = content
    elif kind == "case":
        summary.add(content)
    return "idle" if kind == "done" else "busy"


def _late(worker: Worker, summary: Summary, limit: float) -> str:
    if time.monotonic() - worker.since < limit:
        return "busy"
    assert worker.current is not None
    summary.add(_failed(*worker.current, f"took longer than {limit:.0f} s: {worker.stack()}"))
    return "gone"


def show(seed: int, keep: bool) -> int:
    """One session in this process, with everything that there is to see."""
    prepare_process()
    from fuzz_sessions import Session

    folder = Path(tempfile.mkdtemp(prefix="regard-fuzz-")).resolve()
    problems = 0
    known: set[str] = set()
    write = sys.stdout.write

    def begin(_seed: int, number: int, words: Any) -> None:
        import shlex

        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if name not in known and path.is_file() and "/checkpoints/" not in name and "/cache/" not in name:
                known.add(name)
                write(f"--- {name}, {path.stat().st_size:,} bytes\n{_shown(path)}")
        write(f"\n[{number}] regard {shlex.join(words)}\n")
        sys.stdout.flush()

    try:
        for case in Session(seed, folder, begin).cases():
            outcome = case.outcome
            if case.stdin:
                write(f"stdin: {case.stdin[:300]!r}\n")
            write(f"{outcome.stdout.decode(errors='replace')[:1500]}{outcome.stderr[-2500:]}{outcome.traceback}")
            write(f"exit {outcome.code} after {outcome.seconds:.2f} s\n")
            for problem in case.problems:
                problems += 1
                write(f"FINDING: {problem}\n")
    finally:
        if keep:
            write(f"files are in {folder}\n")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if problems else 0


def _shown(path: Path) -> str:
    if (
        path.suffix in (".png", ".safetensors", ".parquet", ".gz", ".zst", ".zip", ".html")
        or path.name == "tokenizer.json"
    ):
        return ""
    data = path.read_bytes()[:1500]
    try:
        return data.decode() + "\n"
    except UnicodeDecodeError:
        return f"{data!r}\n"


def main() -> int:
    """The command line of the fuzzer."""
    from __main__ import __doc__ as usage

    parser = argparse.ArgumentParser(description=usage, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("session", type=int, nargs="?", help="run the session of this seed, and show it")
    parser.add_argument("--keep", action="store_true", help="keep the files of a session that is shown")
    parser.add_argument("--cases", type=int, default=200, help="command lines to run")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first session")
    parser.add_argument("--seconds", type=float, default=None, help="stop after so long")
    parser.add_argument("--limit", type=float, default=SECONDS, help="seconds for one command line")
    parser.add_argument("--sentences", type=int, default=0, help="show so many of the commonest refusals")
    parser.add_argument("--json", type=Path, default=None, help="write the summary into this file, too")
    options = parser.parse_args()
    if options.session is not None:
        return show(options.session, options.keep)
    from fuzz_sessions import missing_extras

    if missing := missing_extras():
        sys.stdout.write(f"not installed here, so not tried: {', '.join(missing)}\n")
    summary = run_cases(options.cases, options.processes, options.seed, seconds=options.seconds, limit=options.limit)
    sys.stdout.write("\n".join(summary.lines(options.sentences)) + "\n")
    if options.json is not None:
        options.json.write_text(json.dumps(summary.tree(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if summary.findings else 0
