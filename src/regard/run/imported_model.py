"""A run folder made from an imported Hugging Face model, to be used, served and fine-tuned like any other."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config import dump_toml
from regard.errors import RunError, counted
from regard.export.huggingface.import_model import Imported
from regard.export.huggingface.logit_check import compare_with_library
from regard.files.run_folder import CARD_FILE, CHECKPOINTS_FOLDER, RECIPE_FILE
from regard.run.recipe import Recipe
from regard.tasks import Vocabularies
from regard.text.tokenizer import Tokenizer
from regard.train import checkpoint


def refuse_occupied(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: is not empty; name another folder with --out")


def imported_model(model: Imported) -> tuple[Recipe, Vocabularies, nn.Module]:
    """Recipe, vocabularies and the model, with new parameters only where the folder has none."""
    recipe = _recipe(model)
    texts = recipe.task.texts
    tokenizers = dict(zip(texts, model.tokenizers * len(texts), strict=False))
    vocabularies = Vocabularies(tokenizers, model.labels)
    built = recipe.task.task(vocabularies).build(recipe.model)
    built.load_state_dict(model.weights, strict=False)
    return recipe, vocabularies, built.eval()


def write_imported(model: Imported, out: Path, origin: str, say: Callable[[str], None] = lambda sentence: None) -> None:
    """Writes recipe, vocabulary, weights and a card into an empty folder, all or nothing."""
    refuse_occupied(out)
    recipe, vocabularies, built = imported_model(model)
    say(compare_with_library(model, built, Path(origin)))
    aside = out.with_name(f".{out.name}.{os.getpid()}.import")
    try:
        aside.mkdir(parents=True)
        vocabularies.save(aside)
        (aside / RECIPE_FILE).write_text(dump_toml(recipe.tree()), encoding="utf-8")
        weights = {name: weight.detach() for name, weight in built.named_parameters()}
        checkpoint.save(aside / CHECKPOINTS_FOLDER, 0, model=weights, optimizer={}, state={})
        (aside / CARD_FILE).write_text(_card(out, model, recipe, origin), encoding="utf-8")
        aside.rename(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _recipe(model: Imported) -> Recipe:
    tree: dict[str, Any] = {
        "task": {"kind": model.task, **model.settings},
        "data": {"max_length": model.length},
        "model": model.config.tree(),
    }
    if model.task == "masked_language_model":  # one text a row, with the special tokens of its tokenizer
        tree["data"]["batching"] = {"kind": "bucketed"}
    if model.tokenizers:
        tree["tokenizer"] = {"kind": _tokenizer_kind(model.tokenizers[0])}
    if model.search is not None:
        tree["search"] = model.search
    torch.manual_seed(1)  # a fresh output layer is the same each time
    return Recipe.from_tree(tree)


def _tokenizer_kind(tokenizer: Tokenizer) -> str:
    """The `tokenizer.kind` of a tokenizer like this."""
    kind = type(tokenizer.core.model).__name__
    if kind != "BPE":
        return {"Unigram": "unigram", "WordLevel": "word", "WordPiece": "word"}[kind]
    trained_here = tokenizer.id_mapping is None
    return "char" if trained_here and type(tokenizer.core.pre_tokenizer).__name__ != "ByteLevel" else "bpe"


def _card(out: Path, model: Imported, recipe: Recipe, origin: str) -> str:
    lines = [
        f"# {out.name}",
        "",
        f"A {model.architecture.name} imported from {origin}: "
        f"{counted(recipe.model.depth, 'layer')} of width {recipe.model.width}.",
        *(f"Note: {note}." for note in model.notes),
        "",
        "```",
        f"regard train RECIPE model.from={out}",
        "```",
        "",
    ]
    return "\n".join(lines)
