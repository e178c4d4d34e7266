"""The page about faults: what stands in it is typed here, its numbers never."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MEASURED_MILLION = Path(__file__).parents[1] / "docs" / "measurements" / "million.json"

FAULTS = {
    "kills": ("kill −9 at random moments, a third of them while saving",
              "no run lost; losses, weights, best checkpoint and data order equal an undisturbed run's to the bit"),
    "bits": ("one bit flipped or the tail cut, in every file of a checkpoint",
             "noticed, the file named, the checkpoint before it used, never a silent restart"),
    "disk": ("disk full, read-only folder, permission lost, while training",
             "the checkpoint before is whole, exit code 1, the bytes that are missing are said"),
    "signals": ("SIGTERM, Ctrl-C, Ctrl-C twice", "saved and gone within 30 s; the second at once, nothing damaged"),
    "bad-numbers": ("NaN or infinity in loss or gradient",
                    "stopped before the step, batch and examples named; `--skip-bad` goes on and counts"),
    "memory": ("out of memory", "the micro-batch is halved, same losses; what no part can help names the settings"),
    "ranks": ("a process killed or frozen under torchrun",
              "noticed within 60 s, started again and resumed; four processes go on as two"),
    "lock": ("two runs, one folder", "the second is refused; the lock of a dead process is taken over"),
    "hostile": ("hostile files: pickles, bombs, absurd sizes, depth, names",
                "refused with a sentence before anything is allocated or executed; the canary never sang"),
    "fuzz": ("fuzzing of recipes, readers, run folders, imported folders, HTTP bodies",
             "no crash, no traceback, no hang; trials are inputs"),
    "commands": ("command lines of every verb but `serve`: random data, recipes, options, damaged runs",
                 "exit 0, 1 or 2; one sentence where it is not 0, nothing changed where it is 2; at 0 what was made "
                 "(run, page, table, text, folder) is read back"),
}  # fmt: skip
"""Each row: the fault, and what must be."""

FOUND = (
    "A kill between a checkpoint and its name left `best` pointing at an older one: the state now says which "
    "step is best, and resuming gives the name.",
    "A kill between the last checkpoint and the mean of checkpoints lost the mean: a finished run that is "
    "resumed now makes it, once.",
    "A run that patience had ended made further steps when it was resumed.",
    "`recipe.toml` was written in place: a kill could leave half of one. It is now replaced at once, after the "
    "vocabulary.",
    "A validation that began before SIGTERM was finished first, however long it took. It is now given up, and "
    "made first of all when the run goes on.",
    "SIGTERM while data was prepared was noted and nothing else; it now ends the process as it ends any other.",
    "A NaN on the validation data became the best score, which nothing was ever better than.",
    "A store, a model card or a vocabulary on a full or read-only disk ended in a traceback.",
    "Changing `train.moving_average`, or resuming an imported run, ended in a KeyError.",
    "A process frozen under torchrun let the others wait for half an hour; each now counts aloud, and eight "
    "silent beats are enough.",
    "torchrun gives processes that it starts again the store of the dead ones, whose addresses they then called in "
    "vain: no restart ever succeeded (gloo). Each start now has keys of its own.",
    "A billion layers or a width of a billion were only refused by the memory allocator, a vocabulary of a "
    "trillion tokens by an abort of the process.",
    "Numbers of thousands of digits in TOML, file names with NUL, `~nobody/…`, and keys of thousands of parts "
    "(quadratic in the parser) came through to where they hurt.",
    "A packed Parquet file could fill the temporary disk.",
    "An imported folder whose JSON was of another shape than expected ended in a traceback; its settings could "
    "promise more layers than it had tensors, and were believed.",
    "A checkpoint's name could lead out of the run folder (as `../..`), and a state could name weights that are "
    "not there.",
)  # fmt: skip
"""Failures that these trials found, all mended; each has its test under tests/endure."""

HEAD = """# What a run survives

Written by `python benchmarks/reliability.py` from `docs/measurements/reliability.json`. Each row is a trial script
or the tests of a file under `tests/endure`; `make test` runs short versions, `make test-slow` longer ones, and this
page has the longest. A failure is a trial that ended otherwise than the third column says.

| fault | trials | what must be | failures | |
|---|---|---|---|---|
"""
MILLION = """
## A file that several processes translate, killed twice

`python benchmarks/million.py` ({date}, {cores} cores{gpu}, torch {torch}, {device}): {lines:,} lines, {blank:,} of them
blank, {odd:,} with odd characters, {long:,} longer than the model takes at once; {processes} processes under torchrun
share {parts:,} parts of {lines_per_part:,} lines. The model is tiny, as the parts are what is tried; seed {seed}.

| | killed | after | parts then | whole parts after it | seconds |
|---|---|---|---|---|---|
{starts}

One process left alone took {alone[seconds]:,.0f} s ({alone[lines_per_second]:,} lines/s); the others, with both kills
and all starts, {shared[seconds]:,.0f} s ({shared[lines_per_second]:,} lines/s). Of {parts:,} parts, **{differing:,}**
differ and **{twice:,}** were finished twice; both folders joined are {megabytes:,.1f} MB with the SHA-256 `{digest}…`.
"""
REST = """
## Found on the way, and mended

{found}

## What to know

- **Killed, out of power, moved:** `regard train RECIPE --out RUN --resume` goes on from the newest whole checkpoint,
  and begins where there is none yet, which it says. So it is the command for job queues and for `torchrun
  --max-restarts=3`.
- **Stopped:** SIGTERM and Ctrl-C are answered after the current step; a validation that was given up is made up for.
- **A failure in a validation, or in a step,** costs nothing: a checkpoint is written before each validation, and the
  steps since the last one are saved before an error ends the run. `--resume` validates first, where that is pending.
- **Not a number:** the step is not made, and the run stops, naming the batch and its first examples. With
  `--skip-bad` (`train.skip_bad`) such batches are passed over; `skipped` in `metrics.jsonl` counts them, and ten in
  a row still stop.
- **Out of memory:** alone, a process halves its micro-batch until the batch fits, as a larger `train.accumulate`
  would, and keeps to that after resuming. In a team all processes must compute equally often, so it is a sentence
  there.
- **A frozen process** is noticed after {silence:g} s by the others, who leave; torchrun starts all anew. A process
  that waits for its own disk or its own GPU for ever, but whose other threads run, is not noticed by this.
- **Hostile files:** only safetensors, JSON and TOML are read, with limits; nothing is ever unpickled, and no code
  beside a model is run. A hash in a manifest protects against accidents, not against someone who also writes the
  manifest.
- **Supply chain:** `requirements.lock` has a hash for every file that is installed (torch, whose build depends on
  the machine, comes by itself); `make audit` asks for known weaknesses and writes a bill of materials.
"""


def write_page(kept: Mapping[str, Any], file: Path) -> None:
    """Writes the page from what was measured."""
    rows = "".join(row(name, kept[name]) for name in FAULTS if name in kept)
    found = "\n".join(f"- {sentence}" for sentence in FOUND)
    file.write_text(HEAD + rows + million() + REST.format(found=found, silence=silence()), encoding="utf-8")


def million() -> str:
    """What `million.py` measured, if it has."""
    if not MEASURED_MILLION.exists():
        return ""
    tree = json.loads(MEASURED_MILLION.read_text(encoding="utf-8"))
    starts = "\n".join(start_row(number, start) for number, start in enumerate(tree["shared"]["starts"], start=1))
    machine, output = tree["machine"], tree["output"]
    return MILLION.format(
        **{**tree, **machine, **tree["input"]["kinds"], "gpu": f", {machine['gpu']}" if machine["gpu"] else ""},
        starts=starts,
        megabytes=output["bytes"] / 1e6,
        digest=output["sha256"][:16],
    )


def start_row(number: int, start: Mapping[str, Any]) -> str:
    """One start of the processes."""
    moment = f"{start['after']:,.1f} s | {start['parts_then']:,}" if start["killed"] else "– | –"
    return (
        f"| start {number} | {start['killed'] or 'nobody'} | {moment} | {start['parts']:,} | {start['seconds']:,.0f} |"
    )


def row(name: str, found: Mapping[str, Any]) -> str:
    """A line of the table."""
    fault, wanted = FAULTS[name]
    notes = [str(found.get("detail", "")), f"{found['skipped']} skipped" if found.get("skipped") else ""]
    beside = "; ".join(note for note in [*notes, f"{found['seconds']:,.0f} s, {found['date']}"] if note)
    return f"| {fault} | **{found['trials']:,}** | {wanted} | **{len(found['failures'])}** | {beside} |\n"


def silence() -> float:
    """Seconds after which a frozen process is noticed."""
    from regard.train.parallel.watchdog import INTERVAL, MISSED

    return INTERVAL * MISSED
