"""A Hugging Face folder read in: settings, vocabulary and weights become those of a model of ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.config import Config
from regard.errors import ConfigError, DataError
from regard.export.huggingface.export import LAYOUTS
from regard.export.huggingface.generation_config import read_generation
from regard.export.huggingface.image_processor import read_image_processor
from regard.export.huggingface.json_files import read_table
from regard.export.huggingface.layouts import UNTIED, Layout, wave_table
from regard.export.huggingface.parameter_names import Place
from regard.export.huggingface.tensors import fits, read_tensors, refuse_unused, untied
from regard.export.huggingface.vocabulary import our_rows, read_vocabularies, renumbered, writes_tokens
from regard.models import ModelConfig
from regard.text.tokenizer import Tokenizer

BARE = {"BertModel": "BertForSequenceClassification", "GPT2Model": "GPT2LMHeadModel", "LlamaModel": "LlamaForCausalLM"}
"""Stacks that were saved without an output layer → the architecture they become."""
TASKS = {
    "BertForMaskedLM": "masked_language_model",
    "encoder-decoder": "translation",
    "decoder": "language_model",
    "encoder": "classification",
}
LABELS = 2
"""Labels of the library where config.json has none."""


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
    search: dict[str, Any] | None = None
    """How the folder generates, where the model does."""
    new_head: bool = False
    """Whether the folder has no output layer, so that the model gets a fresh one."""


def read_folder(folder: Path) -> Imported:
    """The model of a Hugging Face folder; DataError or ConfigError where it cannot be ours.

    Anyone may have written its files, so whatever in them does not fit is refused with a sentence.
    """
    try:
        return _read(folder)
    except (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise DataError(folder, f"not a model that can be imported ({type(error).__name__}: {error})") from None


def _read(folder: Path) -> Imported:
    tree = _config(folder)
    layout, bare = _layout(folder, tree)
    settings = layout.keys.settled(folder / "config.json", tree)
    labels = _labels(folder / "config.json", layout, settings)
    tensors = read_tensors(folder, layout, settings)
    settings[UNTIED] = untied(folder, layout, settings, tensors)
    config = _model(folder, layout, settings)
    _refuse_phantoms(folder, config, tensors)
    config = _positions(folder, layout, config, tensors, settings)
    weights = _weights(folder, layout, config, tensors, settings, len(labels), bare)
    if config.kind == "vision":
        task, notes = read_image_processor(folder, config.image, config.channels)
        return Imported(layout, config, weights, "image_classification", (), labels, notes=notes, settings=task)
    found = _with_vocabulary(folder, layout, config, weights, settings, labels)
    if bare and labels:
        note = "its output layer is new and knows nothing yet: fine-tune with model.from"
        found = replace(found, notes=(note, *found.notes), new_head=True)
    return _summarising(folder, found)


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
    sizes = [len(weights[name]) for name in tables]
    _check_vocabulary(folder, settings, sizes)
    notes: tuple[str, ...] = ()
    search = None
    if config.shape != "encoder":
        generation = read_generation(folder, settings, config.shape == "encoder-decoder")
        settings = _with_tokens(folder, config.shape, settings, generation.tokens)
        search, notes = generation.search, generation.notes
    tokenizers = read_vocabularies(folder, settings, config.shape, sizes)
    task = TASKS.get(layout.architecture, TASKS[config.shape])
    if any(tokenizer.numbering is not None for tokenizer in tokenizers):
        config, weights = renumber(folder, config, weights, tokenizers)
        notes = ("its vocabulary was renumbered: our special tokens come first", *notes)
    length = config.longest or min(int(settings.get("max_position_embeddings") or 512), 1024)
    return Imported(layout, config, weights, task, tuple(tokenizers), labels, length, notes, search=search)


def _check_vocabulary(folder: Path, settings: Mapping[str, Any], sizes: Sequence[int]) -> None:
    """Refuses tables of other sizes than config.json says."""
    names = ("vocab_size", "decoder_vocab_size")
    said = [settings["vocab_size"], settings.get("decoder_vocab_size") or settings["vocab_size"]]
    for name, expected, size in zip(names, said, (sizes[0], sizes[-1]), strict=True):
        if expected != size:
            raise DataError(
                folder / "config.json", f"{name}: {expected:,}, but the model's embedding has {size:,} rows"
            )


def _with_tokens(folder: Path, shape: str, settings: dict[str, Any], tokens: Mapping[str, int]) -> dict[str, Any]:
    """The settings with the special tokens of generation, which has the last word on them."""
    end, other = settings.get("eos_token_id"), tokens.get("eos_token_id")
    if shape == "encoder-decoder" and None not in (end, other) and end != other:
        raise DataError(
            folder / "generation_config.json", f"eos_token_id: expected that of config.json, {end}, got {other}"
        )
    settings = {**settings, **tokens}
    if shape == "encoder-decoder" and settings.get("decoder_start_token_id") is None:
        if settings.get("bos_token_id") is None:
            raise DataError(folder / "config.json", "decoder_start_token_id: missing, and the library has no default")
        settings["decoder_start_token_id"] = settings["bos_token_id"]
    return settings


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


def _config(folder: Path) -> dict[str, Any]:
    file = folder / "config.json"
    if not file.is_file():
        raise DataError(folder, "not a Hugging Face folder: it has no config.json")
    return read_table(file)


def _layout(folder: Path, tree: Mapping[str, Any]) -> tuple[Layout, bool]:
    """The layout that config.json names, and whether the model lacks its output layer."""
    named = tree.get("architectures") or []
    named = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    wanted = {BARE.get(name, name): name in BARE for name in named}
    matches = [layout for layout in LAYOUTS if layout.architecture in wanted]
    if len(matches) == 1:
        return matches[0], wanted[matches[0].architecture]
    known = ", ".join([layout.architecture for layout in LAYOUTS] + list(BARE))
    got = ", ".join(named) or str(tree.get("architectures") or "none")
    raise DataError(folder / "config.json", f"architectures: expected one of {known}; got {got}")


def _model(folder: Path, layout: Layout, settings: dict[str, Any]) -> Any:  # noqa: ANN401
    try:
        return _Holder.from_tree({"model": layout.read(settings)}).model
    except ConfigError as error:
        raise DataError(folder / "config.json", f"cannot be imported: {error}") from None


def _labels(file: Path, layout: Layout, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the labels in the order of their numbers, as the library has them."""
    if "id2label" not in layout.keys.honoured:
        return ()
    named, count = settings["id2label"], settings.get("num_labels")
    if named is None:
        named = {str(number): f"LABEL_{number}" for number in range(LABELS if count is None else count)}
    if not isinstance(named, dict) or {str(number) for number in range(len(named))} != named.keys():
        raise DataError(file, f"id2label: expected a name for each of the numbers 0, 1, 2, …; got {named!r:.80}")
    labels = tuple(named[str(number)] for number in range(len(named)))
    if not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
        raise DataError(file, f"id2label: expected a name of its own for each label, got {named!r:.80}")
    if count is not None and count != len(labels):
        raise DataError(file, f"num_labels: expected {len(labels)}, as many as id2label has, got {count!r}")
    if len(labels) < 2:
        raise DataError(file, "id2label: one label means regression, which is not imported; expected two or more")
    return labels


def _positions(
    folder: Path,
    layout: Layout,
    config: Any,  # noqa: ANN401
    tensors: dict[str, Tensor],
    settings: Mapping[str, Any],
) -> Any:  # noqa: ANN401
    """Where tables of positions were saved: the waves they hold, which are then computed, or learned tables."""
    tables = {name: tensors[name] for name in layout.tables if name in tensors}
    if not tables:
        return config
    length = settings["max_position_embeddings"]
    for name, table in tables.items():
        if table.shape != (length, config.width):
            raise DataError(folder, f"'{name}': expected ({length}, {config.width}), got {tuple(table.shape)}")
    for interleaved in (False, True):
        wavy = config.but(position=config.position.but(interleaved=interleaved))
        waves = wave_table(wavy, length)
        if all(torch.allclose(waves, table, atol=1e-6) for table in tables.values()):
            if interleaved and len(tables) < len(layout.tables):
                break  # the table that was not saved is not interleaved
            for name in tables:
                del tensors[name]
            return wavy
    usual = wave_table(config, length)
    tensors |= {name: usual for name in layout.tables if name not in tables}
    position = {"kind": "learned", "length": length}
    return _Holder.from_tree({"model": {**config.tree(), "position": position}}).model


def _weights(
    folder: Path,
    layout: Layout,
    config: Any,  # noqa: ANN401
    tensors: dict[str, Tensor],
    settings: Mapping[str, Any],
    labels: int,
    bare: bool,
) -> dict[str, Tensor]:
    """Our parameters, each from its place in their tensors; none of theirs is left over."""
    places = dict(layout.mapping(config))
    if config.position.kind == "learned":
        places |= {own: Place(theirs) for theirs, own in layout.tables.items()}
    idle = layout.idle if settings[UNTIED] or not settings.get("tie_word_embeddings", True) else ()
    refuse_unused(folder, layout, tensors, [place.name for place in places.values()] + list(idle))
    found = {}
    for name, place in places.items():
        if place.name in tensors:
            found[name] = _view(folder, place, tensors[place.name])
        elif place.name != "final_logits_bias" and not (bare and name.startswith("head.")):
            raise DataError(folder, f"its weights have no '{place.name}', which a {layout.name} of its settings needs")
    shapes = _shapes(config, found, labels)
    for name, tensor in found.items():
        if not fits(tensor.shape, shapes[name]):
            place = places[name].name
            raise DataError(folder, f"'{place}': expected {tuple(shapes[name])}, got {tuple(tensor.shape)}")
    weights = {name: tensor.clone().reshape(shapes[name]).contiguous() for name, tensor in found.items()}
    if "head.bias" in shapes and "head.bias" not in weights:
        weights["head.bias"] = torch.zeros(shapes["head.bias"])
    return weights


def _view(folder: Path, place: Place, tensor: Tensor) -> Tensor:
    try:
        return place.view(tensor)
    except (RuntimeError, IndexError) as error:
        raise DataError(folder, f"'{place.name}' of shape {tuple(tensor.shape)} does not fit: {error}") from None


def _shapes(config: Any, found: Mapping[str, Tensor], labels: int) -> dict[str, torch.Size]:  # noqa: ANN401
    """What each of our parameters looks like."""
    rows = {name.partition("embedding")[0]: len(table) for name, table in found.items() if name.endswith(EMBEDDING)}
    with torch.device("meta"):
        if config.shape == "encoder-decoder":
            target = rows["target_"]
            model = config.build(rows.get("source_", target), target)
        elif config.kind == "vision":
            model = config.build(labels)
        else:
            model = config.build(rows[""], labels or None)
    return {name: weight.shape for name, weight in model.named_parameters()}


EMBEDDING = "embedding.table.weight"
