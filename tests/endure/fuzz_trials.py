"""Run as a script: one target fuzzed for some time, by Hypothesis or by atheris. Prints JSON.

python fuzz_trials.py FOLDER TARGET SECONDS [hypothesis|atheris]
"""

import json
import sys
import time
import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

WORDS = [
    b"[", b"{", b'"', b"'", b"\\", b"\0", b"\n", b"=", b".", b",", b"\xff\xfe", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80",
    b"NaN", b"-1", b"0", b"1e999", b"9" * 400, b"9" * 5000, b"null", b"true", b"[" * 3000, b"{\"a\":" * 3000,
    b"/../../etc/passwd", b"\\u0000", b"\\ud800", b"inf", b"2000-01-01", b"%ff", b"a." * 3000, b"<unk>", b"kind",
]  # fmt: skip
"""What has broken parsers before."""

Edit = tuple[str, int, int, bytes]
edits = st.tuples(
    st.sampled_from(["put", "insert", "cut", "repeat", "tail"]),
    st.integers(0, 2**20),
    st.integers(0, 64),
    st.one_of(st.binary(max_size=8), st.integers(0, len(WORDS) - 1).map(WORDS.__getitem__)),
)


def changed(data: bytes, changes: list[Edit]) -> bytes:
    """An input with some changes."""
    for kind, place, length, new in changes:
        at = place % (len(data) + 1)
        if kind == "put":
            data = data[:at] + new + data[at + len(new) :]
        elif kind == "insert":
            data = data[:at] + new + data[at:]
        elif kind == "cut":
            data = data[:at] + data[at + length :]
        elif kind == "repeat":
            data = data[:at] + data[at : at + length] * 3 + data[at + length :]
        else:
            data = data[:at]
    return data


def inputs(seeds: list[bytes]) -> st.SearchStrategy[bytes]:
    """Right inputs with a few changes, and now and then plain noise."""
    chosen = st.integers(0, len(seeds) - 1)  # not the seeds themselves, which Hypothesis would spell out
    near = st.tuples(chosen, st.lists(edits, max_size=5)).map(lambda pair: changed(seeds[pair[0]], pair[1]))
    return st.one_of(near, near, near, st.binary(max_size=400))


def by_hypothesis(targets, name: str, seconds: float) -> dict[str, object]:
    """Rounds of examples until the time is over; a finding is kept once for each line that it came from."""
    until, counts, findings = time.monotonic() + seconds, {"taken": 0, "refused": 0}, {}
    number = 0
    while time.monotonic() < until:
        number += 1

        @seed(number)
        @settings(
            max_examples=100,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(inputs(targets.seeds(name)))
        def one_round(data: bytes) -> None:
            if time.monotonic() < until:
                try:
                    counts[targets.try_one(name, data)] += 1
                except BaseException as error:
                    findings.setdefault(place_of(error), f"{type(error).__name__}: {error} with {data[:200]!r}")

        one_round()
    return {**counts, "inputs": sum(counts.values()), "findings": findings}


def place_of(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "regard" in frame.filename]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"


def by_atheris(targets, name: str, seconds: float, corpus: Path) -> None:
    """Coverage-guided; ends the process, with a traceback where something was found."""
    import atheris

    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(targets.seeds(name)):
        (corpus / f"seed-{number}").write_bytes(data)
    options = [
        f"-max_total_time={int(seconds)}",
        "-print_final_stats=1",
        "-rss_limit_mb=8192",
        "-timeout=60",
        "-max_len=65536",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda data: targets.try_one(name, data))
    atheris.Fuzz()


def main() -> None:
    folder, name, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    engine = sys.argv[4] if len(sys.argv) > 4 else "hypothesis"
    if engine == "atheris":
        import atheris

        with atheris.instrument_imports(include=["regard"]):
            from fuzz_targets import Targets
    else:
        from fuzz_targets import Targets
    with Targets(folder) as targets:
        if engine == "atheris":
            by_atheris(targets, name, seconds, folder / f"corpus-{name}")
        else:
            sys.stdout.write(json.dumps(by_hypothesis(targets, name, seconds)))


if __name__ == "__main__":
    main()
