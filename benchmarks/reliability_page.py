"""The page about faults: its sentences are typed here, its figures come from the measurements."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MEASURED_MILLION = Path(__file__).parents[1] / "docs" / "measurements" / "million.json"

FAULTS = {
    "kills": ("kill −9 at random moments, a third of them while saving",
              "no run lost; losses, weights, best checkpoint and data order equal an undisturbed run's to the bit"),
    "bits": ("one bit flipped or the tail cut, in every file of a checkpoint",
             "detected, the file named, the previous checkpoint used, never a silent restart"),
    "disk": ("disk full, read-only folder, permission lost, while training",
             "the previous checkpoint is intact, exit code 1, the message has the missing bytes"),
    "signals": ("SIGTERM, Ctrl-C, Ctrl-C twice",
                "checkpoint saved and process ended within 30 s; at once after the second, nothing damaged"),
    "bad-numbers": ("NaN or infinity in loss or gradient",
                    "stopped before the step, batch and examples named; `--skip-bad` continues and counts"),
    "memory": ("out of memory",
               "the micro-batch is halved, same losses; where no split fits, the error names the settings"),
    "ranks": ("a process killed or frozen under torchrun",
              "detected within 60 s, restarted and resumed; a run of four processes resumes on two"),
    "lock": ("two runs, one folder", "the second is refused; the lock of a dead process is taken over"),
    "hostile": ("hostile files: pickles, bombs, absurd sizes, depth, names",
                "refused with one sentence before anything is allocated or executed; no planted code ran"),
    "fuzz": ("fuzzing of recipes, readers, run folders, imported folders, HTTP bodies",
             "no crash, no traceback, no hang; trials are inputs"),
    "commands": ("command lines of every verb but `serve`: random data, recipes, options, damaged runs",
                 "exit 0, 1 or 2; one sentence where it is not 0, nothing changed where it is 2; at 0 the output "
                 "(run, page, table, text, folder) is read back"),
}  # fmt: skip
"""Each row: the fault, and the required result."""

FOUND = (
    "A kill between saving a checkpoint and setting the link left `best` pointing at an older one: the state now "
    "records which step is best, and resuming sets the link.",
    "A kill between the last checkpoint and the mean of checkpoints lost the mean: resuming a finished run now "
    "computes it, once.",
    "A run ended by early stopping made further steps when it was resumed.",
    "`recipe.toml` was written in place: a kill could leave half of it. It is now replaced atomically, after the "
    "vocabulary.",
    "A validation that began before SIGTERM was finished first, however long it took. It is now aborted, and "
    "repeated first when the run resumes.",
    "SIGTERM was ignored while data was prepared; it now ends the process.",
    "A NaN on the validation data became the best score, and no later score could replace it.",
    "A store, a model card or a vocabulary on a full or read-only disk ended in a traceback.",
    "Changing `train.moving_average`, or resuming an imported run, ended in a KeyError.",
    "With one process frozen under torchrun, the others waited for half an hour; each process now increments a "
    "counter, and eight missed increments end the run.",
    "torchrun gives restarted processes the store of the dead ones, with addresses that are no longer valid: no "
    "restart ever succeeded (gloo). Each start now has its own keys.",
    "A billion layers or a width of a billion failed only in the memory allocator; a vocabulary of a trillion "
    "tokens aborted the process.",
    "Numbers of thousands of digits in TOML, file names with NUL, `~nobody/…`, and keys of thousands of parts "
    "(quadratic in the parser) were not refused when read.",
    "A compressed Parquet file could fill the temporary disk.",
    "An imported folder whose JSON had an unexpected structure ended in a traceback; settings with more layers than "
    "the folder has tensors were accepted.",
    "A checkpoint's name could point outside the run folder (as `../..`), and a state could name weights that do "
    "not exist.",
)  # fmt: skip
"""Failures that these trials found, all fixed; each has its test under tests/endure."""

HEAD = """# What a run survives

Written by `python benchmarks/reliability.py` from `docs/measurements/reliability.json`. Each row is a trial script
or the tests of a file under `tests/endure`; `make test` runs short versions, `make test-slow` longer ones, and this
page has the longest. A failure is a trial whose result differs from the third column.

| fault | trials | required result | failures | |
|---|---|---|---|---|
"""
MILLION = """
## Several processes translate one file and are killed twice

`python benchmarks/million.py` ({date}, {cores} cores{gpu}, torch {torch}, {device}): {lines:,} lines, {blank:,} of them
blank, {odd:,} with unusual characters, {long:,} longer than the model's limit; {processes} processes under torchrun
share {parts:,} parts of {lines_per_part:,} lines. The model is tiny, because the parts are under test; seed {seed}.

| | killed | after | parts by then | complete parts afterwards | seconds |
|---|---|---|---|---|---|
{starts}

One undisturbed process took {alone[seconds]:,.0f} s ({alone[lines_per_second]:,} lines/s); the others, with both kills
and all starts, {shared[seconds]:,.0f} s ({shared[lines_per_second]:,} lines/s). Of {parts:,} parts, **{differing:,}**
differ and **{twice:,}** were finished twice; each output as one file: {megabytes:,.1f} MB, SHA-256 `{digest}…`.
"""
REST = """
## Failures found, and fixed

{found}

## What to know

- **Killed, power failure, moved:** `regard train RECIPE --out RUN --resume` resumes from the newest intact checkpoint;
  where there is none yet it starts from the beginning and says so. It is therefore the command for job queues and for
  `torchrun --max-restarts=3`. Run folder, recipe and data may be moved: data is compared by its contents. With the
  run's own recipe, `regard train RUN/recipe.toml data.folder=/new/place --resume` gives the new location.
- **Something changed:** a checkpoint has a fingerprint of the examples, the tokenizer, the labels and the recipe.
  Where one of them differs, `--resume` names it and stops; `--data-changed` accepts other data, tokenizer contents,
  seed or settings of data and task. Model, tokenizer settings and the kind of task cannot change. Settings of `train`
  may change, and `recipe.toml` then has those in force; another optimiser and a budget that is already used up are
  refused. With another batch size, a run resumes at the same fraction of the epoch.
- **Stopped:** SIGTERM and Ctrl-C take effect after the current step, with exit code 130 and the command to resume; an
  aborted validation is repeated. A second Ctrl-C ends the process at once.
- **A failure in a validation, or in a step,** loses no step: a checkpoint is written before each validation, and the
  steps since the last one are saved before an error ends the run. `--resume` starts with a pending validation.
- **NaN or infinity:** the step is not applied, and the run stops, naming the batch and its first examples. With
  `--skip-bad` (`train.skip_bad`) such batches are skipped; `skipped` in `metrics.jsonl` counts them, and ten in a row
  still stop the run.
- **Out of memory:** a single process halves its micro-batch until the batch fits, as a larger `train.accumulate`
  would, and keeps this after resuming. With several processes, all must make the same number of passes, so the run
  ends with an error message instead.
- **A frozen process** is detected by the others after {silence:g} s; they exit, and torchrun restarts all. A process
  that waits forever for its own disk or its own GPU, but whose other threads run, is not detected by this.
- **Hostile files:** only safetensors, JSON and TOML are read, with limits; nothing is ever unpickled, and no code
  beside a model is executed. A hash in a manifest protects against accidents, not against someone who can also change
  the manifest.
- **Supply chain:** `requirements.lock` has a hash for every file that is installed (except torch, whose build depends
  on the machine); `make audit` checks for known vulnerabilities and writes a bill of materials.
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
    return f"| start {number} | {start['killed'] or 'none'} | {moment} | {start['parts']:,} | {start['seconds']:,.0f} |"


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
