"""Small recipes in which settings are tried: every task with every kind of model that it can train."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from walk_leaves import Leaf, Tree

from regard.config.tree import kinds
from regard.run import Recipe

TRAIN: Tree = {
    "steps": 2, "tokens_per_batch": 120, "device": "cpu", "precision": "float32", "save_every": 2, "log_every": 1,
    "schedule": {"kind": "constant", "lr": 0.01},
}  # fmt: skip
SEARCH: Tree = {"kind": "greedy", "max_length": 6}


def _splits(**columns: Any) -> Tree:
    """Three splits by the names of their files, in which `{}` stands for the split."""
    filled = lambda value, split: value.format(split) if isinstance(value, str) else value  # noqa: E731
    few = {"train": {}, "valid": {"limit": 8}, "test": {"limit": 8}}
    return {
        split: {name: filled(value, split) for name, value in columns.items()} | few[split]
        for split in ("train", "valid", "test")
    }


SOURCES: dict[str, dict[str, Tree]] = {
    "translation": {
        "files": _splits(source="{}.source", target="{}.target"),
        "tsv": _splits(file="{}.tsv", source="source", target="target"),
        "jsonl": _splits(file="{}.jsonl", source="source", target="target"),
        "conllu": _splits(file="{}.conllu", source="words", target="upos"),
        "street": {split: {"street": split, "limit": 20} for split in ("train", "valid", "test")},
    },
    "summarisation": {"files": _splits(source="{}.source", target="{}.target")},
    "language_model": {
        "lines": _splits(file="{}.txt"),
        "documents": _splits(file="{}.jsonl", text="text"),
        "table": _splits(file="{}.both", format="csv", text=0),
    },
    "masked_language_model": {
        "lines": _splits(file="{}.txt"),
        "documents": _splits(file="{}.jsonl", text="text"),
    },
    "classification": {
        "tsv": _splits(file="{}.tsv", text="text", label="label"),
        "bare": _splits(file="{}.bare", format="tsv", text=2, label=3),
        "jsonl": _splits(file="{}.jsonl", text="text", label="label"),
    },
    "multi_label_classification": {
        "tsv": _splits(file="{}.tsv", text="text", labels="topics", separator="|"),
        "jsonl": _splits(file="{}.jsonl", text="text", labels="topics", separator="|"),
    },
    "tagging": {"conllu": _splits(file="{}.conllu")},
    "image_classification": {
        "folders": _splits(images="{}-images"),
        "idx": _splits(images="{}-idx-images", labels="{}-idx-labels"),
        "table": _splits(file="{}-captions.tsv", image="file", label="label"),
    },
    "image_description": {"table": _splits(file="{}-captions.tsv", image="file", target="target")},
}
"""Where each task finds its examples, by the form of the files."""

MODEL_KINDS = tuple(kinds(Recipe.model_fields["model"].annotation))
FIRST_MODEL = {
    "translation": "encoder-decoder", "summarisation": "encoder-decoder", "language_model": "decoder",
    "masked_language_model": "encoder", "classification": "encoder", "tagging": "encoder",
    "multi_label_classification": "encoder",
    "image_classification": "vision", "image_description": "vision-encoder-decoder",
}  # fmt: skip
SMALL: dict[str, Tree] = {
    "window": {"reach": 2}, "local": {"block": 4}, "bigbird": {"block": 2, "global_tokens": 2, "random": 1},
    "linformer": {"length": 64, "projected": 4}, "memory-compressed": {"stride": 2}, "alternating": {},
}  # fmt: skip
"""Settings of kinds of attention that act on a dozen tokens."""
FIRST_TASK = {
    "encoder": "tagging", "decoder": "language_model", "vision": "image_classification",
    "vision-encoder-decoder": "image_description", "recurrent": "language_model", "window-decoder": "language_model",
    "recurrent-encoder": "classification", "window-encoder": "classification",
}  # fmt: skip
FIRST_TASK |= dict.fromkeys(
    ("encoder-decoder", "lstm-seq2seq", "gnmt", "deep-att", "bytenet", "convs2s"), "translation"
)
"""The task in which all parts of a kind of model are tried; in the others, those that know of the task."""
WITH_TASK = ("head", "embedding", "dropout")
WITH_MODEL = ("train.activation_checkpointing", "train.residual_dtype", "train.schedule:noam.by_width", "data.batching")
"""Settings outside of the model that not all kinds of models know."""


@dataclass(frozen=True)
class Situation:
    """A task, the form of its files, and the kind of its model."""

    task: str
    form: str
    model: str
    attention: str = ""
    """Another kind of attention than full, with which all kinds of positions are tried."""

    @property
    def name(self) -> str:
        """For people."""
        return "/".join(filter(None, (self.task, self.form, self.model, self.attention)))

    def tree(self) -> Tree:
        """The recipe."""
        tree: Tree = {
            "task": {"kind": self.task},
            "data": dict(SOURCES[self.task][self.form]),
            "model": small_model(self.model),
            "train": dict(TRAIN),
        }
        if self.task != "image_classification":
            tree["tokenizer"] = {"kind": "word"}
        if self.task in ("translation", "summarisation", "image_description", "language_model"):
            tree["search"] = dict(SEARCH)
        if self.task == "summarisation":
            tree["task"]["input_tokens"] = 9
        if self.task in ("language_model", "masked_language_model"):
            tree["data"]["batching"] = {"kind": "stream", "context": 12}
        if self.task.startswith("image_"):
            tree["task"]["resize"] = "crop"
        if self.attention:
            tree["model"] |= {"attention": {"kind": self.attention, **SMALL[self.attention]}}
            tree["model"] |= {"position": "none", **({"decoder_attention": "full"} if self.is_two else {})}
        return tree

    @property
    def is_two(self) -> bool:
        """Whether the decoder has an attention of its own."""
        return self.model == "encoder-decoder"

    def walks(self, leaf: Leaf) -> bool:
        """Whether a leaf can be set here, and is tried here: parts of a model with the first form of the files only."""
        section, first = leaf.path[0], next(iter(SOURCES[self.task]))
        if self.attention:
            return leaf.name == f"model:{self.model}.position"
        if section.startswith("model"):
            here = self.form == first and section in ("model", f"model:{self.model}")
            return here and (len(leaf.path) < 4 or self.task == FIRST_TASK[self.model] or leaf.keys[1] in WITH_TASK)
        if section.startswith("task"):
            return self.form == first and section in ("task", f"task:{self.task}")
        if self.model != FIRST_MODEL[self.task]:
            return leaf.name in WITH_MODEL and self.form == first
        if leaf.keys[:2] == ("data", "batching") or section != "data":
            return self.form == first or self.task.endswith("language_model")
        return True


def small_model(kind: str) -> Tree:
    """The settings of a tiny model."""
    fields = kinds(Recipe.model_fields["model"].annotation)[kind].model_fields
    sizes = {"width": 8, "depth": 2, "heads": 2, "image": 8, "patch": 4}
    return {"kind": kind} | {name: size for name, size in sizes.items() if name in fields}


def situations() -> Iterator[Situation]:
    """All of them, with combinations of task and model that are refused."""
    for task, forms in SOURCES.items():
        for model in MODEL_KINDS:
            yield from (Situation(task, form, model) for form in forms)
    for model in ("encoder", "decoder", "encoder-decoder", "vision"):
        form = next(iter(SOURCES[FIRST_TASK[model]]))
        yield from (Situation(FIRST_TASK[model], form, model, attention) for attention in SMALL)
