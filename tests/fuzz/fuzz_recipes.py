"""Random recipes: a small one that suits its task, and changes drawn by walking over the recipe's own tree of settings.

Every setting of every kind can be drawn, since the tree is read from the classes. Sizes are tiny, so that a training of
one to three steps takes a fraction of a second.
"""

import types
from collections.abc import Mapping
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as at
import tomli_w
from fuzz_data import Corpus
from pydantic.fields import FieldInfo

from regard.config import Config
from regard.config.tree import kinds, sub_config
from regard.run import Recipe

Tree = dict[str, Any]

CONTENT = {
    "translation": "pairs", "summarisation": "pairs", "language_model": "text", "masked_language_model": "text",
    "classification": "labelled", "tagging": "tagged", "image_classification": "images",
    "image_description": "captions",
}  # fmt: skip
MODELS = {
    "translation": ["encoder-decoder"] * 5 + ["lstm-seq2seq", "gnmt", "deep-att", "bytenet", "convs2s"],
    "summarisation": ["encoder-decoder", "decoder"],
    "language_model": ["decoder"] * 3 + ["recurrent", "window-decoder"],
    "masked_language_model": ["encoder"],
    "classification": ["encoder"] * 3 + ["decoder", "recurrent", "recurrent-encoder", "window-encoder"],
    "tagging": ["encoder"] * 3 + ["recurrent-encoder", "window-encoder"],
    "image_classification": ["vision"],
    "image_description": ["vision-encoder-decoder"],
}
PRESETS = {
    "translation": ["transformer-base", "t5-small"],
    "summarisation": ["transformer-base", "t5-small", "gpt2-124m"],
    "language_model": ["gpt2-124m", "llama-small"],
    "masked_language_model": ["bert-base"],
    "classification": ["bert-base"],
    "tagging": ["bert-base"],
    "image_classification": ["vit-tiny"],
    "image_description": [None],
}
COSTLY = {
    ("train", "compile"): "compiling takes longer than a thousand cases",
    ("train", "parallel"): "one process has nothing to share; tests/endure and tests/train start several",
    ("train", "track"): "trackers are other programs",
    ("data", "folder"): "names of files would start elsewhere in every case",
}
"""Settings that are never drawn, and why."""
SECTIONS = {"model": 6, "train": 5, "tokenizer": 2, "task": 2, "search": 2, "data": 2, "seed": 0.3}

WRONG = [
    "many",
    "",
    -1,
    0,
    -0.5,
    1e30,
    float("nan"),
    float("inf"),
    True,
    [],
    {},
    [1, "a"],
    10**30,
    3.7,
    "ä\u2028",
    "none",
    "9" * 300,
]
"""Values that are of no use in most settings."""
USUAL: dict[type, list[Any]] = {
    bool: [False, True],
    int: [1, 2, 3, 4, 5, 8, 12, 16, 33],
    float: [0.1, 0.25, 0.5, 1.0, 1.5, 1e-3, 1e-6, 20.0],
    str: ["loss", "bleu", "accuracy", "text", "best", "0%-50%", "missing.txt", "x", "perplexity", "*"],
}
"""Values by their type."""


def make_recipe(random: Random, task: str, corpus: Corpus, changes: int) -> Tree:
    """A recipe for a corpus, with so many random settings."""
    tree = small_recipe(random, task, corpus)
    for _ in range(changes):
        path, value = random_setting(random, tree)
        put(tree, path, value)
    if random.random() < 0.04:
        misspell(random, tree)
    return tree


def small_recipe(random: Random, task: str, corpus: Corpus) -> Tree:
    """A recipe that trains in a fraction of a second."""
    kind = random.choice(MODELS[task])
    known = random.choice(PRESETS[task]) if random.random() < 0.25 else None
    search = {"kind": random.choice(["greedy", "beam", "beam", "sample"]), "max_length": random.randint(1, 10)}
    tree: Tree = {
        "task": {"kind": task} if random.random() < 0.8 else task,
        "seed": random.randint(0, 5),
        **({"defaults": "fixed"} if random.random() < 0.7 else {}),
        "data": {name: dict(split.source) for name, split in corpus.splits.items()},
        "model": small_preset(random, task, known) if known else small_model(random, kind),
        "train": {
            "steps": random.randint(1, 3),
            "tokens_per_batch": random.choice([100, 200, 400, 1000]),
            "device": "cpu",
            "precision": "float32",
            "save_every": random.randint(1, 3),
            "log_every": random.randint(1, 2),
        },
    }
    if task not in ("image_classification",):
        tree["tokenizer"] = {"kind": random.choice(["word", "word", "char", "byte", "bpe", "unigram"])}
        if tree["tokenizer"]["kind"] in ("bpe", "unigram"):
            tree["tokenizer"]["size"] = random.choice([263, 300])
    if task == "summarisation":
        tree["task"] = {"kind": task, "input_tokens": random.randint(4, 40)}
    if task in ("translation", "summarisation", "image_description", "language_model"):
        tree["search"] = search
    if task == "language_model" and random.random() < 0.7:
        tree["data"]["batching"] = {"kind": "stream", "context": random.randint(4, 16)}
    return tree


def small_model(random: Random, kind: str) -> Tree:
    """The settings of a tiny model of one kind."""
    fields = kinds(Recipe.model_fields["model"].annotation)[kind].model_fields
    heads = random.choice([1, 2, 4])
    sizes = {"width": heads * random.choice([4, 8]), "depth": 2 if kind in ("gnmt", "deep-att") else 1, "heads": heads}
    sizes |= {"image": 8, "patch": random.choice([2, 4])}
    return {"kind": kind} | {name: size for name, size in sizes.items() if name in fields}


def small_preset(random: Random, task: str, name: str) -> Tree:
    """A model that everybody knows, and that other programs can therefore read, in miniature."""
    tree: Tree = {"preset": name, "width": 4 * random.choice([4, 8]), "heads": 4, "depth": 1}
    if name == "vit-tiny":
        tree |= {
            "image": 8,
            "patch": 4,
            "position": {"kind": "learned", "length": 5},
            "head": {"kind": "pooled", "pooling": "first"},
        }
    if task == "classification":
        tree["head"] = {"kind": "pooled", "pooling": "first", "hidden": tree["width"]}
    if task == "tagging":
        tree["head"] = {"kind": "token"}
    return tree


def random_setting(random: Random, tree: Tree) -> tuple[tuple[str, ...], Any]:
    """The path of a setting somewhere in the recipe's tree, and a value for it."""
    section = random.choices(list(SECTIONS), list(SECTIONS.values()))[0]
    owner: type[Config] = Recipe
    here: Any = tree
    path: tuple[str, ...] = ()
    key = section
    while True:
        annotated = owner.model_fields[key]
        path += (key,)
        here = here.get(key) if isinstance(here, dict) else None
        family, table = kinds(annotated.annotation), sub_config(annotated.annotation)
        if family:
            kind = _kind(annotated, here)
            change = random.random() < (0.35 if len(path) > 1 else 0.12) or kind not in family
            if change:
                kind = random.choice(list(family))
                return path, _of_kind(random, path, kind, family[kind])
            owner = family[kind]
        elif table:
            owner = table
        else:
            return path, random_value(random, key, annotated)
        keys = [name for name in owner.model_fields if name != "kind" and (*path, name) not in COSTLY]
        keys = [
            name
            for name in keys
            if path[0] != "data" or name not in ("train", "valid", "test") or random.random() < 0.2
        ]
        if not keys:
            return (*path, "kind"), random.choice(list(family)) if family else "none"
        key = random.choice(keys)


def _of_kind(random: Random, path: tuple[str, ...], kind: str, config: type[Config]) -> Any:
    """A kind by its name, or as a table with some of its settings."""
    tree = small_model(random, kind) if path == ("model",) else {"kind": kind}
    names = [name for name in config.model_fields if name != "kind"]
    chosen = random.sample(names, min(len(names), random.choice([0, 1, 1, 2])))
    tree |= {name: random_value(random, name, config.model_fields[name]) for name in chosen}
    return tree if len(tree) > 1 else kind


def _kind(annotated: FieldInfo, here: Any) -> str:
    if isinstance(here, str):
        return here
    if isinstance(here, dict) and "kind" in here:
        return str(here["kind"])
    default = None if annotated.is_required() else annotated.get_default(call_default_factory=True, validated_data={})
    return str(getattr(default, "kind", ""))


def random_value(random: Random, name: str, annotated: FieldInfo) -> Any:
    """A value for a setting: mostly one that its type and bounds allow."""
    if random.random() < 0.08:
        return random.choice(WRONG)
    return _drawn(random, name, annotated.annotation, annotated.metadata)


def _drawn(random: Random, name: str, annotation: Any, metadata: list[Any]) -> Any:
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        more = [rule for part in more for rule in (part.metadata if isinstance(part, FieldInfo) else [part])]
        return _drawn(random, name, inner, [*metadata, *more])
    if origin in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        return _drawn(random, name, random.choice(parts), metadata)
    if origin is Literal:
        return random.choice(get_args(annotation))
    if origin in (tuple, list):
        inner = get_args(annotation)
        if origin is tuple and Ellipsis not in inner:
            return [_drawn(random, name, part, []) for part in inner]
        return [_drawn(random, name, inner[0], []) for _ in range(random.randint(0, 3))]
    if annotation in USUAL:
        return _number(random, metadata, USUAL[annotation])
    family, table = kinds(annotation), sub_config(annotation)
    if family:
        return {"kind": random.choice(list(family))}
    if table:
        names = [key for key in table.model_fields if random.random() < 0.4]
        return {key: random_value(random, key, table.model_fields[key]) for key in names}
    return random.choice(WRONG)


def _number(random: Random, metadata: list[Any], usual: list[Any]) -> Any:
    """A value within the bounds of a setting; the smallest one that is allowed is as likely as any other."""
    if not isinstance(usual[-1], int | float) or isinstance(usual[0], bool):
        return random.choice(usual)
    low, high = [], []
    for rule in metadata:
        if isinstance(rule, at.Ge):
            low.append(rule.ge)
            usual = [*usual, rule.ge]
        elif isinstance(rule, at.Gt):
            low.append(rule.gt)
        elif isinstance(rule, at.Le | at.Lt):
            high.append(rule.le if isinstance(rule, at.Le) else rule.lt)
    step = 1 if isinstance(usual[0], int) else 0.05
    usual = [*usual, *(bound + step for bound in low)]
    inside = [
        value for value in usual if all(value >= bound for bound in low) and all(value <= bound for bound in high)
    ]
    return random.choice(inside or usual)


def put(tree: Tree, path: tuple[str, ...], value: Any) -> None:
    """Sets a value in a tree; a kind given as a word becomes a table where something must stand below it."""
    for key in path[:-1]:
        below = tree.get(key)
        tree[key] = below = {"kind": below} if isinstance(below, str) else below if isinstance(below, dict) else {}
        tree = below
    tree[path[-1]] = value


def misspell(random: Random, tree: Tree) -> None:
    """One key somewhere gets another name."""
    while True:
        key = random.choice(list(tree))
        if isinstance(tree[key], dict) and tree[key] and random.random() < 0.7:
            tree = tree[key]
            continue
        wrong = random.choice([key[:-1], key + "s", key.upper(), "größe", "kind", key[::-1]]) or "x"
        tree[wrong] = tree.pop(key)
        return


def as_toml(tree: Mapping[str, Any]) -> str:
    """A recipe file."""
    return tomli_w.dumps(_plain(tree))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 63:
        return float(value)  # TOML has no larger whole numbers
    return value


def as_override(path: tuple[str, ...], value: Any) -> str:
    """`key=value` for the command line."""
    if isinstance(value, str):
        return f"{'.'.join(path)}={value}"
    text = (
        tomli_w.dumps({"value": _inline(_plain(value))}).partition("=")[2].strip()
        if not isinstance(value, dict)
        else _table(value)
    )
    return f"{'.'.join(path)}={text}"


def _inline(value: Any) -> Any:
    return value


def _table(value: Mapping[str, Any]) -> str:
    parts = [as_override((key,), item).replace("=", " = ", 1) if not isinstance(item, str) else f"{key} = {item!r}"
             for key, item in value.items()]  # fmt: skip
    return "{" + ", ".join(parts) + "}"
