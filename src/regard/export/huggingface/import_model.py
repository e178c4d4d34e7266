"""A Hugging Face folder read in: settings, vocabulary and weights become those of a model of ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from regard.config import Config
from regard.errors import ConfigError, DataError
from regard.export.exported_model import TextConfig, sinusoid_table
from regard.export.huggingface.architecture import MULTI_LABEL, UNTIED, Architecture
from regard.export.huggingface.architectures import ARCHITECTURES
from regard.export.huggingface.architectures.vit import read_image_processor
from regard.export.huggingface.config_keys import Json, read_table
from regard.export.huggingface.generation_config import read_generation
from regard.export.huggingface.id_mapping import our_rows, reordered, vocabulary_head
from regard.export.huggingface.parameter_names import TensorView
from regard.export.huggingface.tensors import fits, read_tensors, refuse_unused, untied
from regard.export.huggingface.vocabulary import read_vocabularies
from regard.models import EncoderDecoderConfig, ModelConfig, VisionConfig
from regard.text.tokenizer import Tokenizer

DEFAULT_LABELS = 2
"""The library's number of labels where config.json has none."""
EMBEDDING = "embedding.table.weight"


ImportedConfig = TextConfig | VisionConfig


class _Recipe(Config):
    model: ModelConfig


def _model_config(tree: Json) -> ImportedConfig:
    config = _Recipe.from_tree({"model": tree}).model
    assert isinstance(config, ImportedConfig)
    return config


@dataclass(frozen=True, eq=False)
class Imported:
    """A model that was read from a Hugging Face folder."""

    architecture: Architecture
    config: ImportedConfig
    """The model's settings."""
    weights: dict[str, Tensor]
    task: str
    tokenizers: tuple[Tokenizer, ...]
    """One, or the source's and the target's; none for models that read images."""
    labels: tuple[str, ...] = ()
    length: int = 256
    """Most tokens of a text."""
    notes: tuple[str, ...] = ()
    """For people."""
    settings: Json = field(default_factory=dict)
    """Settings of the task that the folder states."""
    search: Json | None = None
    """Settings of our search as the folder generates, where it does."""
    new_head: bool = False
    """Whether the folder has no output layer, so that the model gets a newly initialised one."""


def read_folder(folder: Path) -> Imported:
    """The model of a Hugging Face folder; DataError or ConfigError where it cannot be imported.

    Its files are of unknown origin, so whatever in them does not fit is refused with a sentence.
    """
    try:
        return _read(folder)
    except (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise DataError(folder, f"not a model that can be imported ({type(error).__name__}: {error})") from None


def _read(folder: Path) -> Imported:
    tree = _config(folder)
    architecture, headless = _architecture(folder, tree)
    settings = architecture.keys.resolve(folder / "config.json", tree)
    labels = _labels(folder / "config.json", architecture, settings)
    tensors = read_tensors(folder, architecture, settings)
    settings[UNTIED] = untied(folder, architecture, settings, tensors)
    config = _model(folder, architecture, settings)
    _refuse_missing_layers(folder, config, tensors)
    config = _positions(folder, architecture, config, tensors, settings)
    weights = _weights(folder, architecture, config, tensors, settings, len(labels), headless)
    if isinstance(config, VisionConfig):
        task, notes = read_image_processor(folder, config.image, config.channels)
        return Imported(architecture, config, weights, "image_classification", (), labels, notes=notes, settings=task)
    imported = _with_vocabulary(folder, architecture, config, weights, settings, labels)
    if headless and labels:
        note = "its output layer is new and knows nothing yet: fine-tune with model.from"
        imported = replace(imported, notes=(note, *imported.notes), new_head=True)
    return _as_summariser(folder, imported)


def _refuse_missing_layers(folder: Path, config: ImportedConfig, tensors: dict[str, Tensor]) -> None:
    """Refuses more or wider layers than there are tensors for, before anything of that size is allocated."""
    deepest = max(value for name, value in config if name.endswith("depth") and isinstance(value, int))
    widest = max((max(tensor.shape) for tensor in tensors.values() if tensor.ndim), default=0)
    if deepest > len(tensors) or config.width > widest:
        raise DataError(
            folder,
            f"its settings say {deepest:,} layers of width {config.width:,}; its weights have {len(tensors):,} "
            f"tensors, none wider than {widest:,}",
        )


def _with_vocabulary(
    folder: Path,
    architecture: Architecture,
    config: TextConfig,
    weights: dict[str, Tensor],
    settings: Json,
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
    if any(tokenizer.id_mapping is not None for tokenizer in tokenizers):
        config, weights = _in_our_ids(folder, config, weights, tokenizers)
        notes = ("its vocabulary was renumbered: our special tokens come first", *notes)
    length = config.longest or min(int(settings.get("max_position_embeddings") or 512), 1024)
    several = architecture.task == "classification" and settings.get("problem_type") == MULTI_LABEL
    task, vocabularies = MULTI_LABEL if several else architecture.task, tuple(tokenizers)
    return Imported(architecture, config, weights, task, vocabularies, labels, length, notes, search=search)


def _check_vocabulary(folder: Path, settings: Json, sizes: Sequence[int]) -> None:
    """Refuses tables of other sizes than config.json says."""
    names = ("vocab_size", "decoder_vocab_size")
    expected_sizes = [settings["vocab_size"], settings.get("decoder_vocab_size") or settings["vocab_size"]]
    for name, expected, size in zip(names, expected_sizes, (sizes[0], sizes[-1]), strict=True):
        if expected != size:
            raise DataError(
                folder / "config.json", f"{name}: {expected:,}, but the model's embedding has {size:,} rows"
            )


def _with_tokens(folder: Path, shape: str, settings: Json, tokens: Mapping[str, int]) -> Json:
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


def _as_summariser(folder: Path, imported: Imported) -> Imported:
    """A summariser, if regard.json, which our export wrote, says so and how much the model reads."""
    file = folder / "regard.json"
    tree = read_table(file) if file.is_file() else {}
    if tree.get("task") != "summarisation" or imported.task not in ("translation", "language_model"):
        return imported
    sizes = {name: tree.get(name) for name in ("input_tokens", "longest")}
    for name, size in sizes.items():
        if type(size) is not int or size < 2:
            raise DataError(file, f"{name}: expected an integer from 2 on, got {size!r}")
    settings = {"input_tokens": sizes["input_tokens"]}
    return replace(imported, task="summarisation", length=tree["longest"], settings=settings)


def _in_our_ids(
    folder: Path, config: TextConfig, weights: dict[str, Tensor], tokenizers: Sequence[Tokenizer]
) -> tuple[TextConfig, dict[str, Tensor]]:
    """The same model with its vocabulary in our order; tokens it does not have are never generated."""
    source, target = tokenizers[0].id_mapping, tokenizers[-1].id_mapping
    if source is None or target is None or source.special != target.special:
        raise DataError(folder, "its two vocabularies have different special tokens")
    weights = reordered(config, weights, our_rows, source, target)
    if head := vocabulary_head(config):
        config = config.but(head=head.but(never=target.never))
    return config.but(embedding=config.embedding.but(same=target.same)), weights


def _config(folder: Path) -> Json:
    file = folder / "config.json"
    if not file.is_file():
        raise DataError(folder, "not a Hugging Face folder: it has no config.json")
    return read_table(file)


def _architecture(folder: Path, tree: Json) -> tuple[Architecture, bool]:
    """The architecture that config.json names, and whether the model lacks its output layer."""
    listed = tree.get("architectures") or []
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    candidates = [one for one in ARCHITECTURES if one.imported]
    pairs = [(one, name) for one in candidates for name in names]
    matches = [(one, name == one.base_class) for one, name in pairs if name in (one.class_name, one.base_class)]
    if len({one.class_name for one, _ in matches}) == 1:
        return matches[-1]
    expected = ", ".join(
        [one.class_name for one in candidates] + [one.base_class for one in candidates if one.base_class]
    )
    got = ", ".join(names) or str(listed or "none")
    raise DataError(folder / "config.json", f"architectures: expected one of {expected}; got {got}")


def _model(folder: Path, architecture: Architecture, settings: Json) -> ImportedConfig:
    try:
        return _model_config(architecture.from_config(settings))
    except ConfigError as error:
        raise DataError(folder / "config.json", f"cannot be imported: {error}") from None


def _labels(file: Path, architecture: Architecture, settings: Json) -> tuple[str, ...]:
    """The names of the labels in the order of their numbers, as the library has them."""
    if "id2label" not in architecture.keys.honoured:
        return ()
    names, count = settings["id2label"], settings.get("num_labels")
    if names is None:
        names = {str(number): f"LABEL_{number}" for number in range(DEFAULT_LABELS if count is None else count)}
    if not isinstance(names, dict) or {str(number) for number in range(len(names))} != names.keys():
        raise DataError(file, f"id2label: expected a name for each of the numbers 0, 1, 2, …; got {names!r:.80}")
    labels = tuple(names[str(number)] for number in range(len(names)))
    if not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
        raise DataError(file, f"id2label: expected a name of its own for each label, got {names!r:.80}")
    if count is not None and count != len(labels):
        raise DataError(file, f"num_labels: expected {len(labels)}, as many as id2label has, got {count!r}")
    if len(labels) < 2:
        raise DataError(file, "id2label: one label means regression, which is not imported; expected two or more")
    return labels


def _positions(
    folder: Path,
    architecture: Architecture,
    config: ImportedConfig,
    tensors: dict[str, Tensor],
    settings: Json,
) -> ImportedConfig:
    """Saved position tables: sinusoids, which are then computed, or learned positions."""
    tables = {name: tensors[name] for name in architecture.position_tables if name in tensors}
    if not tables:
        return config
    length = settings["max_position_embeddings"]
    for name, table in tables.items():
        if table.shape != (length, config.width):
            raise DataError(folder, f"'{name}': expected ({length}, {config.width}), got {tuple(table.shape)}")
    for interleaved in (False, True):
        sinusoidal = config.but(position=config.position.but(interleaved=interleaved))
        expected = sinusoid_table(sinusoidal, length)
        if all(torch.allclose(expected, table, atol=1e-6) for table in tables.values()):
            if interleaved and len(tables) < len(architecture.position_tables):
                break  # the table that was not saved is not interleaved
            for name in tables:
                del tensors[name]
            return sinusoidal
    default = sinusoid_table(config, length)
    tensors |= {name: default for name in architecture.position_tables if name not in tables}
    position = {"kind": "learned", "length": length}
    return _model_config({**config.tree(), "position": position})


def _weights(
    folder: Path,
    architecture: Architecture,
    config: ImportedConfig,
    tensors: dict[str, Tensor],
    settings: Json,
    labels: int,
    headless: bool,
) -> dict[str, Tensor]:
    """Our parameters, each a view of one of their tensors; no tensor is left over."""
    names = dict(architecture.parameter_names(config))
    if config.position.kind == "learned":
        names |= {ours: TensorView(theirs) for theirs, ours in architecture.position_tables.items()}
    unused = architecture.unused_if_untied if settings[UNTIED] or not settings.get("tie_word_embeddings", True) else ()
    refuse_unused(folder, architecture, tensors, [view.name for view in names.values()] + list(unused))
    views = {}
    for name, view in names.items():
        if view.name in tensors:
            views[name] = _view(folder, view, tensors[view.name])
        elif view.name != "final_logits_bias" and not (headless and name.startswith("head.")):
            needs = f"which a {architecture.name} of its settings needs"
            raise DataError(folder, f"its weights have no '{view.name}', {needs}")
    shapes = _shapes(config, views, labels)
    for name, tensor in views.items():
        if not fits(tensor.shape, shapes[name]):
            theirs = names[name].name
            raise DataError(folder, f"'{theirs}': expected {tuple(shapes[name])}, got {tuple(tensor.shape)}")
    weights = {name: tensor.clone().reshape(shapes[name]).contiguous() for name, tensor in views.items()}
    if "head.bias" in shapes and "head.bias" not in weights:
        weights["head.bias"] = torch.zeros(shapes["head.bias"])
    return weights


def _view(folder: Path, view: TensorView, tensor: Tensor) -> Tensor:
    try:
        return view.view(tensor)
    except (RuntimeError, IndexError) as error:
        raise DataError(folder, f"'{view.name}' of shape {tuple(tensor.shape)} does not fit: {error}") from None


def _shapes(config: ImportedConfig, views: Mapping[str, Tensor], labels: int) -> dict[str, torch.Size]:
    """The shape of each of our parameters."""
    rows = {name.partition("embedding")[0]: len(table) for name, table in views.items() if name.endswith(EMBEDDING)}
    with torch.device("meta"):
        if isinstance(config, EncoderDecoderConfig):
            target = rows["target_"]
            model = config.build(rows.get("source_", target), target)
        elif isinstance(config, VisionConfig):
            model = config.build(labels)
        else:
            model = config.build(rows[""], labels or None)
    return {name: weight.shape for name, weight in model.named_parameters()}
