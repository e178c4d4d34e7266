"""A Hugging Face folder read in: settings, vocabulary and weights become those of a model of ours.

Safetensors only. Weights that are pickled are refused: a pickle may run any program while it is read.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.config import Config
from regard.data.tokenizer import Tokenizer
from regard.errors import ConfigError, DataError
from regard.export.conversion import read_table
from regard.export.huggingface import LAYOUTS
from regard.export.layouts import Layout, wave_table
from regard.export.mappings import Place
from regard.export.vocabulary import our_rows, read_vocabularies, renumbered, writes_tokens
from regard.models import ModelConfig

PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.bin", "model.pt", "pytorch_model.pt")
BARE = {"BertModel": "BertForMaskedLM", "GPT2Model": "GPT2LMHeadModel", "LlamaModel": "LlamaForCausalLM"}
TASKS = {"encoder-decoder": "translation", "decoder": "language_model", "encoder": "classification"}


class _Holder(Config):
    model: ModelConfig


@dataclass(frozen=True, eq=False)
class Imported:
    """A model that came in."""

    layout: Layout
    config: Any
    """The model's settings."""
    weights: dict[str, Tensor]
    task: str
    tokenizers: tuple[Tokenizer, ...]
    """One, or the source's and the target's; none for models that read images."""
    labels: tuple[str, ...] = ()
    length: int = 256
    """Most tokens of a text."""
    notes: tuple[str, ...] = ()
    """What a person should know."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the task that the folder knows."""


def read_folder(folder: Path) -> Imported:
    """The model of a Hugging Face folder; DataError or ConfigError where it cannot be ours.

    Anyone may have written its files, so whatever in them does not fit is refused with a sentence.
    """
    try:
        return _read(folder)
    except (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise DataError(folder, f"not a model that can be imported ({type(error).__name__}: {error})") from None


def _read(folder: Path) -> Imported:
    settings = _settings(folder)
    layout = _layout(folder, settings)
    config = _Holder.from_tree({"model": _tree(folder, layout, settings)}).model
    tensors = _tensors(folder, layout)
    _refuse_phantoms(folder, config, tensors)
    config = _positions(layout, config, tensors)
    labels = tuple(str(label) for _, label in sorted(_labels(settings), key=lambda item: int(item[0])))
    weights = _weights(folder, layout, config, tensors)
    if config.kind == "vision":
        return Imported(layout, config, weights, "image_classification", (), labels)
    return _summarising(folder, _with_vocabulary(folder, layout, config, weights, settings, labels))


def _refuse_phantoms(folder: Path, config: Any, tensors: dict[str, Tensor]) -> None:  # noqa: ANN401
    """Settings may promise a billion layers; each needs a tensor at least, so nothing is made for those without."""
    deepest = max(value for name, value in config if name.endswith("depth") and isinstance(value, int))
    widest = max((max(tensor.shape) for tensor in tensors.values() if tensor.ndim), default=0)
    if deepest > len(tensors) or config.width > widest:
        raise DataError(
            folder,
            f"its settings speak of {deepest:,} layers of width {config.width:,}; its weights have {len(tensors):,} "
            f"tensors, none wider than {widest:,}",
        )


def _with_vocabulary(
    folder: Path,
    layout: Layout,
    config: Any,  # noqa: ANN401
    weights: dict[str, Tensor],
    settings: dict[str, Any],
    labels: tuple[str, ...],
) -> Imported:
    # the source's table comes first where the target has one of its own
    tables = sorted(name for name in weights if name.endswith("embedding.table.weight"))
    tokenizers = read_vocabularies(folder, settings, config.shape, [len(weights[name]) for name in tables])
    task, notes = TASKS[config.shape], ()
    if layout.architecture == "BertForMaskedLM" and "head.transform.weight" in weights:
        task = "masked_language_model"
    elif layout.architecture == "BertForMaskedLM":
        config, weights = _classifying(config, weights)
        labels = labels or ("0", "1")
        notes += ("its output layer is new and knows nothing yet: fine-tune with model.from",)
    if any(tokenizer.numbering is not None for tokenizer in tokenizers):
        config, weights = renumber(folder, config, weights, tokenizers)
        notes += ("its vocabulary was renumbered: our special tokens come first",)
    length = config.longest or min(int(settings.get("max_position_embeddings") or 512), 1024)
    labels = labels if task == "classification" else ()
    return Imported(layout, config, weights, task, tuple(tokenizers), labels, length, notes)


def _summarising(folder: Path, found: Imported) -> Imported:
    """A summariser's folder is like any other of its layout; beside it our export wrote how much the model reads."""
    file = folder / "regard.json"
    given = read_table(file) if file.is_file() else {}
    if given.get("task") != "summarisation" or found.task not in ("translation", "language_model"):
        return found
    sizes = {name: given.get(name) for name in ("input_tokens", "longest")}
    for name, size in sizes.items():
        if type(size) is not int or size < 2:
            raise DataError(file, f"{name}: expected a whole number from 2 on, got {size!r}")
    settings = {"input_tokens": sizes["input_tokens"]}
    return replace(found, task="summarisation", length=given["longest"], settings=settings)


def renumber(
    folder: Path,
    config: Any,  # noqa: ANN401
    weights: dict[str, Tensor],
    tokenizers: Sequence[Tokenizer],
) -> tuple[Any, dict[str, Tensor]]:
    """The same model with its vocabulary in our order; tokens it does not have are never written."""
    reads, writes = tokenizers[0].numbering, tokenizers[-1].numbering
    if reads is None or writes is None or reads.special != writes.special:
        raise DataError(folder, "its two vocabularies have different special tokens")
    tree = config.tree()
    tree["embedding"] = {**(tree.get("embedding") or {}), "same": writes.same}
    if writes_tokens(config):
        tree["head"] = {**(tree.get("head") or {"kind": "vocabulary"}), "never": writes.never}
    return _Holder.from_tree({"model": tree}).model, renumbered(config, weights, our_rows, reads, writes)


def _classifying(config: Any, weights: dict[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:  # noqa: ANN401
    """A masked language model's encoder under a fresh classifier."""
    head = {"kind": "pooled", "pooling": "first", "hidden": config.width}
    config = _Holder.from_tree({"model": {**config.tree(), "head": head}}).model
    return config, {name: weight for name, weight in weights.items() if not name.startswith("head.")}


def _settings(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        raise DataError(folder, "not a Hugging Face folder: it has no config.json")
    return read_table(file)


def _layout(folder: Path, settings: dict[str, Any]) -> Layout:
    named = settings.get("architectures") or []
    wanted = {BARE.get(name, name) for name in named if isinstance(name, str)}
    for layout in LAYOUTS:
        if layout.architecture in wanted:
            return layout
    known = ", ".join(layout.architecture for layout in LAYOUTS)
    raise DataError(folder / "config.json", f"architectures: expected one of {known}; got {named or 'none'}")


def _tree(folder: Path, layout: Layout, settings: dict[str, Any]) -> dict[str, Any]:
    try:
        return layout.read(settings)
    except KeyError as error:
        raise DataError(
            folder / "config.json", f"a {layout.name} needs the setting {error}, which is missing"
        ) from None
    except ConfigError as error:
        raise DataError(folder / "config.json", f"cannot be imported: {error}") from None


def _labels(settings: dict[str, Any]) -> list[tuple[str, Any]]:
    return list((settings.get("id2label") or {}).items())


def _tensors(folder: Path, layout: Layout) -> dict[str, Tensor]:
    """All tensors of the folder, under the names of the mapping, in float32."""
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    files = [single]
    if index.is_file():
        names = set(read_table(index)["weight_map"].values())
        files = [folder / Path(name).name for name in sorted(names)]
    elif not single.is_file():
        raise _without_weights(folder)
    found: dict[str, Tensor] = {}
    for file in files:
        try:
            found |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise DataError(file, f"not a whole safetensors file: {error}") from None
    return {_renamed(name, layout): tensor.float() for name, tensor in found.items()}


def _without_weights(folder: Path) -> DataError:
    for name in PICKLED:
        if (folder / name).is_file():
            return DataError(
                folder / name,
                "pickled weights are not read, since they may run any program; convert them where you trust them: "
                f"AutoModel.from_pretrained('{folder}').save_pretrained('{folder}', safe_serialization=True)",
            )
    return DataError(folder, "has no model.safetensors")


def _renamed(name: str, layout: Layout) -> str:
    for pattern, replacement in layout.renames:
        name = re.sub(pattern, replacement, name)
    return name


def _positions(layout: Layout, config: Any, tensors: dict[str, Tensor]) -> Any:  # noqa: ANN401
    """Where a table of positions was saved: the waves it holds, or a learned table."""
    name = next((name for name in layout.tables if name in tensors), None)
    if name is None:
        return config
    table = tensors[name]
    for interleaved in (False, True):
        wavy = config.but(position=config.position.but(interleaved=interleaved))
        if torch.allclose(wave_table(wavy, len(table)), table, atol=1e-4):
            return wavy
    position = {"kind": "learned", "length": len(table)}
    return _Holder.from_tree({"model": {**config.tree(), "position": position}}).model


def _weights(folder: Path, layout: Layout, config: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:  # noqa: ANN401
    places = dict(layout.mapping(config))
    if config.position.kind == "learned":
        places |= {own: Place(theirs) for theirs, own in layout.tables.items()}
    shapes = _shapes(config, tensors, layout)
    found = {}
    for name, place in places.items():
        tensor = _found(place.name, layout, tensors)
        if tensor is None and (name == "head.bias" or (layout.name == "BERT" and name.startswith("head."))):
            continue
        if tensor is None:
            raise DataError(folder, f"its weights have no '{place.name}', which a {layout.name} of its settings needs")
        found[name] = place.view(tensor).clone().contiguous()
    return _shaped(folder, found, shapes)


def _found(name: str, layout: Layout, tensors: dict[str, Tensor]) -> Tensor | None:
    """A tensor under its name, another name of it, or the name that a model without its head gives it."""
    prefix = name.partition(".")[0] + "."
    for one in (name, *layout.tied.get(name, ()), name.removeprefix(prefix)):
        if one in tensors:
            return tensors[one]
    return None


def _shapes(config: Any, tensors: dict[str, Tensor], layout: Layout) -> dict[str, torch.Size]:  # noqa: ANN401
    """What each of our parameters looks like."""
    sizes = [len(tensor) for name, tensor in tensors.items() if name.endswith(VOCABULARY_NAMES)]
    with torch.device("meta"):
        if config.shape == "encoder-decoder":
            source = _found("model.encoder.embed_tokens.weight", layout, tensors)
            target = _found("model.decoder.embed_tokens.weight", layout, tensors)
            model = config.build(
                len(source) if source is not None else sizes[0], len(target) if target is not None else sizes[0]
            )
        elif config.kind == "vision":
            model = config.build(len(tensors["classifier.bias"]))
        else:
            classes = (
                len(tensors["classifier.bias"]) if layout.architecture == "BertForSequenceClassification" else None
            )
            model = config.build(sizes[0], classes)
    return {name: weight.shape for name, weight in model.named_parameters()}


VOCABULARY_NAMES = ("wte.weight", "embed_in.weight", "embed_tokens.weight", "word_embeddings.weight", "shared.weight")


def _shaped(folder: Path, found: dict[str, Tensor], shapes: dict[str, torch.Size]) -> dict[str, Tensor]:
    for name, tensor in found.items():
        if tensor.numel() != shapes[name].numel():
            raise DataError(folder, f"'{name}': expected {tuple(shapes[name])}, got {tuple(tensor.shape)}")
    weights = {name: tensor.reshape(shapes[name]) for name, tensor in found.items()}
    if "head.bias" in shapes and "head.bias" not in weights:
        weights["head.bias"] = torch.zeros(shapes["head.bias"])
    return weights
