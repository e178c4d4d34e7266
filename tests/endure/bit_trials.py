"""Run as a script: checkpoints in which one bit is flipped or the tail is cut, in every file of them. Prints JSON.

    python bit_trials.py FOLDER TRIALS [RESUMED]

Every damage must be noticed by name, and the checkpoint before it be chosen; of so many of the trials (RESUMED) the run
goes on for real, and must end as the undisturbed one did.
"""

import json
import random
import shutil
import sys
from pathlib import Path

import torch
from endured import differences, tiny_recipe, train

from regard.errors import RunError
from regard.run.trained import Run
from regard.train.checkpoint import latest

RECIPE = tiny_recipe(6, save_every=2, moving_average={"decay": 0.9})
NEWEST, BEFORE = "step-6", "step-4"


def damage(file: Path, chance: random.Random, cut: bool) -> str:
    """Changes one bit of a file, or cuts its end off; says what was done."""
    data = bytearray(file.read_bytes())
    place = chance.randrange(len(data))
    if cut:
        file.write_bytes(data[:place])
        return f"{file.name} cut to {place} of {len(data)} bytes"
    bit = chance.randrange(8)
    data[place] ^= 1 << bit
    file.write_bytes(data)
    return f"bit {bit} of byte {place} of {file.name}"


def one_trial(whole: Path, place: Path, name: str, chance: random.Random, cut: bool, resumed: bool) -> list[str]:
    """What went wrong after one damage."""
    shutil.copytree(whole, place, symlinks=True)
    file = place / "checkpoints" / NEWEST / name
    what, problems = damage(file, chance, cut), []
    found, sentences = latest(place / "checkpoints")
    if found is None or found.name != BEFORE:
        problems.append(f"{what}: {found} was chosen")
    if len(sentences) != 1 or not sentences[0].startswith(f"{file}: ") or BEFORE not in sentences[0]:
        problems.append(f"{what}: said {sentences}")
    try:
        Run.open(place, "cpu", NEWEST)
        problems.append(f"{what}: it was used")
    except RunError as error:
        if str(file) not in str(error):
            problems.append(f"{what}: refused with '{error}'")
    if resumed:
        said = train(RECIPE, place, resume=True).said
        problems += [f"{what}: not said"] * (sentences[0] not in said)
        problems += [f"{what}: {problem}" for problem in differences(place, whole)]
    shutil.rmtree(place)
    return problems


def main() -> None:
    torch.set_num_threads(1)
    base, trials = Path(sys.argv[1]), int(sys.argv[2])
    resumed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    train(RECIPE, base / "whole")
    names = sorted(file.name for file in (base / "whole" / "checkpoints" / NEWEST).iterdir())
    chance, problems = random.Random(trials), []
    for trial in range(trials):
        goes_on = trial < resumed
        problems += one_trial(base / "whole", base / "copy", names[trial % len(names)], chance, trial % 2 == 1, goes_on)
    sys.stdout.write(json.dumps({"trials": trials, "files": names, "resumed": resumed, "problems": problems}))


if __name__ == "__main__":
    main()
