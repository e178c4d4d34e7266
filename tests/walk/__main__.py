"""The walk over the recipe's tree, and a page about it.

python tests/walk                                            all of it, which takes a quarter of an hour of one core
python tests/walk --leaf 'tokenizer' --situation tagging     some of it
python tests/walk --out docs/settings.md                     with the page
"""

import argparse
import re
import sys
import tempfile
import warnings
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    warnings.simplefilter("ignore")
    from walk_report import page

    from walk import walk_all

    parser = argparse.ArgumentParser(description="Changes every setting of the recipe's tree and looks for an effect.")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--leaf", default="")
    parser.add_argument("--situation", default="")
    parser.add_argument("--verbose", action="store_true", help="each step, not the findings alone")
    asked = parser.parse_args()
    steps = []
    with tempfile.TemporaryDirectory() as folder:
        for step in walk_all(
            Path(folder),
            lambda leaf, situation: bool(
                re.search(asked.leaf, leaf.name) and re.search(asked.situation, situation.name)
            ),
        ):
            steps.append(step)
            if step.is_finding or asked.verbose:
                print(step.sentence, flush=True)  # noqa: T201
    if asked.out:
        asked.out.write_text(page(steps), encoding="utf-8")
    print(page(steps))  # noqa: T201
