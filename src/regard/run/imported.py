"""A run folder made from a model that was trained elsewhere: used, looked at, served and fine-tuned like any other."""

from pathlib import Path
from typing import Any

import torch

from regard.config import dump_toml
from regard.data.tokenizer import Tokenizer
from regard.errors import RunError, counted
from regard.export.reading import Imported
from regard.run.opened import CHECKPOINTS, RECIPE_FILE
from regard.run.recipe import Recipe
from regard.tasks import Lexicon
from regard.train import checkpoint


def write_imported(model: Imported, out: Path, origin: str) -> None:
    """Writes recipe, vocabulary, weights and a card into a folder that is no run yet."""
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out}: is not empty; name another folder with --out")
    recipe = _recipe(model)
    texts = recipe.task.texts
    tokenizers = dict(zip(texts, model.tokenizers * len(texts), strict=False))
    lexicon = Lexicon(tokenizers, model.labels)
    built = recipe.task.task(lexicon).build(recipe.model)
    weights = {name: weight.detach() for name, weight in built.named_parameters()} | model.weights
    out.mkdir(parents=True, exist_ok=True)
    lexicon.save(out)
    (out / RECIPE_FILE).write_text(dump_toml(recipe.tree()), encoding="utf-8")
    checkpoint.save(out / CHECKPOINTS, 0, model=weights, optimizer={}, state={})
    (out / "README.md").write_text(_card(out, model, recipe, origin), encoding="utf-8")


def _recipe(model: Imported) -> Recipe:
    tree: dict[str, Any] = {
        "task": {"kind": model.task, **model.settings},
        "data": {"max_length": model.length},
        "model": model.config.tree(),
    }
    if model.task == "masked_language_model":  # each text for itself, as its tokenizer surrounds it
        tree["data"]["batching"] = {"kind": "bucketed"}
    if model.tokenizers:
        tree["tokenizer"] = {"kind": _tokenizer_kind(model.tokenizers[0])}
    else:
        tree["task"]["resize"] = "stretch"  # as those who made it do with images of any size
    torch.manual_seed(1)  # a fresh output layer is the same each time
    return Recipe.from_tree(tree)


def _tokenizer_kind(tokenizer: Tokenizer) -> str:
    """What the settings of a vocabulary like this would be called."""
    kind = type(tokenizer.core.model).__name__
    if kind != "BPE":
        return {"Unigram": "unigram", "WordLevel": "word", "WordPiece": "word"}[kind]
    own = tokenizer.numbering is None
    return "char" if own and type(tokenizer.core.pre_tokenizer).__name__ != "ByteLevel" else "bpe"


def _card(out: Path, model: Imported, recipe: Recipe, origin: str) -> str:
    lines = [
        f"# {out.name}",
        "",
        f"A {model.layout.name} imported from {origin}: "
        f"{counted(recipe.model.depth, 'layer')} of width {recipe.model.width}.",
        *(f"Note: {note}." for note in model.notes),
        "",
        "```",
        f"regard train RECIPE model.from={out}",
        "```",
        "",
    ]
    return "\n".join(lines)
