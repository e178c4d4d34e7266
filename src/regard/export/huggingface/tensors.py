"""The weights of a Hugging Face folder: every tensor is used, known not to matter, or refuses the import by its name.

Safetensors only. Weights that are pickled are refused: a pickle may run any program while it is read.
"""

import re
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.errors import DataError
from regard.export.huggingface.architecture import Architecture
from regard.export.huggingface.config_keys import Json, read_table

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.bin", "model.pt", "pytorch_model.pt")
ADAPTERS = ("adapter_config.json", "adapter_model.safetensors")
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def read_tensors(folder: Path, architecture: Architecture, settings: Json) -> dict[str, Tensor]:
    """The tensors that a model consists of, under the names of the architecture's `parameter_names`, in float32."""
    for name in ADAPTERS:
        if (folder / name).is_file():
            raise DataError(folder / name, "adapters are not read; merge them into the model's weights first")
    tensors: dict[str, Tensor] = {}
    file_names: dict[str, str] = {}
    for file, expected in _files(folder).items():
        for name, tensor in _read(file, expected, architecture, settings):
            renamed = architecture.renamed(name)
            if renamed in tensors:
                other = file_names[renamed]
                twice = "is stored twice" if other == name else f"is stored beside '{other}', another name of it"
                raise DataError(file, f"'{name}' {twice}")
            tensors[renamed], file_names[renamed] = tensor, name
    return _with_prefix(tensors, architecture)


def _with_prefix(tensors: dict[str, Tensor], architecture: Architecture) -> dict[str, Tensor]:
    """The tensors of a model that was saved without its output layer, under the names that they have within it."""
    prefix = architecture.base_model_prefix
    if not prefix or any(name.startswith(prefix) for name in tensors):
        return tensors
    return {
        name if name.startswith(architecture.head_prefixes) else prefix + name: tensor
        for name, tensor in tensors.items()
    }


def _files(folder: Path) -> dict[Path, set[str] | None]:
    """The files of the weights, each with the names that the index says it has."""
    index, single = folder / INDEX, folder / SINGLE
    if not index.is_file():
        if not single.is_file():
            raise _without_weights(folder)
        return {single: None}
    names = read_table(index).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(name, str) for name in names.values()):
        raise DataError(index, "weight_map: expected the name of a file for each tensor")
    files: dict[Path, set[str] | None] = {}
    for tensor, name in names.items():
        if Path(name).name != name or name in ("", ".", "..") or "\\" in name:
            raise DataError(index, f"weight_map: '{name}' leads out of the folder")
        named = files.setdefault(folder / name, set())
        assert named is not None
        named.add(tensor)
    if single.is_file() and single not in files:
        raise DataError(folder, f"has both {SINGLE} and {INDEX}, which names other files; remove one of them")
    if missing := [file for file in files if not file.is_file()]:
        raise DataError(index, f"names {missing[0].name}, which is missing")
    return files


def _without_weights(folder: Path) -> DataError:
    for name in PICKLED:
        if (folder / name).is_file():
            return DataError(
                folder / name,
                "pickled weights are not read, since they may run any program; convert them where you trust them: "
                f"AutoModel.from_pretrained('{folder}').save_pretrained('{folder}', safe_serialization=True)",
            )
    return DataError(folder, f"has no {SINGLE}")


def _read(
    file: Path, expected: set[str] | None, architecture: Architecture, settings: Json
) -> Iterable[tuple[str, Tensor]]:
    """The tensors of a file, without those that the architecture ignores."""
    try:
        with safe_open(file, "pt") as tensors:
            names = list(tensors.keys())
            if expected is not None and (odd := sorted(expected.symmetric_difference(names))):
                has = "lacks" if odd[0] in expected else "has, and the index does not name,"
                raise DataError(file, f"{has} '{odd[0]}'")
            for name in names:
                ignored = next(
                    (one for one in architecture.ignored if re.search(one.pattern, architecture.renamed(name))), None
                )
                if ignored is None:
                    _check_dtype(file, name, tensors.get_slice(name).get_dtype())
                    yield name, tensors.get_tensor(name).float()
                elif ignored.check is not None and not ignored.check(tensors.get_tensor(name), settings):
                    raise DataError(file, f"'{name}' is not {ignored.reason}")
    except (SafetensorError, OSError) as error:
        raise DataError(file, f"not a whole safetensors file: {error}") from None


def _check_dtype(file: Path, name: str, dtype: str) -> None:
    if dtype not in DTYPES:
        types = ", ".join(DTYPES.values())
        raise DataError(file, f"'{name}': expected values of type {types}, got {dtype}; quantised models are not read")


def untied(folder: Path, architecture: Architecture, settings: Json, tensors: dict[str, Tensor]) -> bool:
    """Takes out tensors that are stored under two names; True where the output layer is not tied.

    As in the library: of two that are tied one may be missing; where both are there and differ, they are not tied.
    """
    ties, untied_names = architecture.ties(settings), []
    for name, source in ties.items():
        if name in tensors and source not in tensors:
            tensors[source] = tensors.pop(name)
        elif name in tensors and torch.equal(tensors[name], tensors[source]):
            del tensors[name]
        elif name in tensors:
            untied_names.append(name)
    if unknown := [name for name in untied_names if name not in architecture.tied_head]:
        raise DataError(folder, f"'{unknown[0]}' differs from '{ties[unknown[0]]}', which it is tied to")
    if untied_names:  # all of the output layer or nothing
        tensors |= {name: tensors[ties[name]] for name in architecture.tied_head if name not in tensors}
    return bool(untied_names)


def refuse_unused(folder: Path, architecture: Architecture, tensors: Iterable[str], used: Iterable[str]) -> None:
    """Refuses tensors that no part of the model is made of."""
    unused = sorted(set(tensors) - set(used))
    if unused:
        also = f" and {len(unused) - 1:,} more" if unused[1:] else ""
        raise DataError(
            folder, f"its weights have '{unused[0]}'{also}, which a {architecture.name} of its settings has not"
        )


def fits(shape: Sequence[int], ours: Sequence[int]) -> bool:
    """Whether a tensor has the shape of a parameter, whose neighbouring axes may be merged."""
    rest = [size for size in shape if size != 1]
    for size in (size for size in ours if size != 1):
        product = 1
        while rest and product < size:
            product *= rest.pop(0)
        if product != size:
            return False
    return prod(rest) == 1
