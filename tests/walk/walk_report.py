"""What the walk found, leaf by leaf: a leaf acts where it acts in one situation at least."""

from collections import Counter
from collections.abc import Iterable

from walk_hints import EXCEPTIONS, exempt
from walk_leaves import SEARCH, Leaf, leaves

from walk import Step

HEAD = """# Settings: each one has an effect, or is refused

Written by `python tests/walk --out docs/settings.md`. The command takes every setting of the recipe's tree, under every
kind that has it, changes it in small recipes of every task and model that can use it, and compares the results:
weights, losses, lines of the log, messages, files, gradients, generated text, test scores. A setting that changes
nothing must be refused with one sentence. `make test-slow` tries all settings, `make test` a sample of them. Settings
of `search` affect generation only and are tested with the verbs that generate. *Silent* are settings that are accepted
without effect, *broken* those that fail in another way.
"""


def verdicts(steps: Iterable[Step]) -> dict[Leaf, str]:
    """One word for each leaf: acts, exception, refused, or what is a finding: silent, broken."""
    found: dict[Leaf, set[str]] = {}
    for step in steps:
        found.setdefault(step.leaf, set()).add(step.result)
    order = ("broken", "silent", "acts", "exception", "refused")
    return {leaf: next(word for word in order if word in words) for leaf, words in found.items()}


def page(steps: list[Step]) -> str:
    """The page for people."""
    by_leaf = verdicts(steps)
    sections = list(dict.fromkeys(leaf.section for leaf in leaves() if leaf.section != SEARCH))
    words = ("acts", "refused", "exception", "silent", "broken")
    lines = [HEAD, "| section | settings | " + " | ".join(words) + " |", "|---" * 7 + "|"]
    for section in [*sections, "all"]:
        counts = Counter(word for leaf, word in by_leaf.items() if section in ("all", leaf.section))
        lines.append(f"| {section} | {counts.total():,} | " + " | ".join(f"{counts[word]:,}" for word in words) + " |")
    tried = Counter(step.result for step in steps)
    lines += ["", f"Tried in {len(steps):,} combinations of setting, task and model: {tried['acts']:,} act, "
              f"{tried['refused']:,} are refused, {tried['exception']:,} are exceptions."]  # fmt: skip
    lines += [
        "",
        "A setting counts as refused if every recipe that has it is refused, such as Linformer in a decoder.",
        "",
    ]
    lines += ["## Exceptions", ""]
    for exception in EXCEPTIONS:
        names = sorted({".".join(leaf.keys) for leaf in leaves() if exempt(leaf) is exception})
        lines.append(f"- {', '.join(f'`{name}`' for name in names)}: {exception.why}")
    return "\n".join(lines) + "\n"
