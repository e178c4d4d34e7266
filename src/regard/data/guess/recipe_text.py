"""A recipe as a person would write it: task and data, and comments that say what else can be set."""

from regard.config import dump_toml
from regard.data.guess.task import Guess
from regard.data.sources import SourceConfig

HELD_OUT = "# valid: none was found; a part of the training data is held out for validation"
NOT_TESTED = "# test = … : what `regard evaluate` scores; without it, the validation data"
SETTINGS = {
    "tokenizer": {
        "translation summarisation classification language_model masked_language_model image_description": [
            "size = 8000             # entries of the vocabulary",
        ],
    },
    "model": {
        "": [
            "width = 256             # also called d_model or hidden size",
            "depth = 4               # layers",
            "heads = 4               # attention heads",
            "dropout = 0.1",
        ],
    },
    "train": {
        "": [
            "minutes = 10            # or epochs, steps, tokens or flops: the first one reached ends training",
            "tokens_per_batch = 4096 # batch size",
            'schedule = { kind = "cosine", lr = 1e-3, warmup = 200 }',
        ],
    },
}
"""What is changed most, by table, and for which tasks; empty: for all."""


def recipe_text(guess: Guess, made_from: str) -> str:
    """The TOML of a recipe for what was found."""
    made_from = "".join(sign if sign.isprintable() else "?" for sign in made_from)
    lines = [
        f"# {guess.task.replace('_', ' ').capitalize()}, written by: regard init {made_from}",
        f'task = "{guess.task}"',
        "",
        "[data]",
    ]
    lines += ["# names of files start at the folder of this recipe"]
    for split in ("train", "valid", "test"):
        if split in guess.sources:
            lines.append(f"{split} = {inline(guess.sources[split])}  # {guess.counts[split]}")
        else:
            lines.append(HELD_OUT if split == "valid" else NOT_TESTED)
    lines += ["", "# Everything else follows from task and data. What is changed most; take the # away to set it.",
              "# All settings: regard config; about one: regard config --explain dropout"]  # fmt: skip
    for table, groups in SETTINGS.items():
        settings = [
            line for tasks, group in groups.items() if not tasks or guess.task in tasks.split() for line in group
        ]
        lines += ["", f"# [{table}]", *(f"# {line}" for line in settings)] if settings else []
    return "\n".join(lines) + "\n"


def inline(source: SourceConfig) -> str:
    """A source as an inline table of TOML."""
    tree = {name: value for name, value in source.tree().items() if name in source.model_fields_set}
    return "{ " + ", ".join(dump_toml({name: value}).strip() for name, value in tree.items()) + " }"
