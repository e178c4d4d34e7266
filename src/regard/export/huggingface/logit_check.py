"""An imported model beside the library's: logits of both on random inputs."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import Failure
from regard.export.huggingface.export import need_transformers, quiet
from regard.export.huggingface.import_model import Imported
from regard.export.huggingface.restore_ids import our_logits, their_ids
from regard.export.parity import Scores, apart
from regard.nn.head import NEVER
from regard.nn.layout import Sequences
from regard.text.id_mapping import NONE
from regard.text.special_tokens import EOS, SPECIAL_TOKENS

CLOSE = 1e-4
"""Largest difference of a logit, of those whose size is 1 or less; of larger ones, as part of the largest."""
LENGTHS = (24, 9)
IMAGES = 2


def compare_with_library(imported: Imported, ours: nn.Module, folder: Path) -> str:
    """A sentence with the largest difference of a logit; Failure where it is too large."""
    if find_spec("transformers") is None:
        return "not compared with transformers, which is not installed"
    try:
        theirs = _load(imported, folder)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError, ImportError) as error:
        return f"not compared with transformers, which cannot load the folder: {str(error).splitlines()[0]:.200}"
    with torch.no_grad():
        mine, expected = _images(imported, ours, theirs) if not imported.tokenizers else _texts(imported, ours, theirs)
    difference = max(apart(one, other) for one, other in zip(mine, expected, strict=True))
    largest = max(float(np.abs(np.where(one < NEVER / 2, 0, one)).max(initial=1.0)) for one in expected)
    what = "hidden state" if imported.new_head else "logit"
    sentence = f"largest difference of a {what} from transformers on random inputs: {difference:.2g}"
    if not difference <= CLOSE * largest:
        raise Failure(f"{folder}: {sentence}; at most {CLOSE * largest:.2g} is allowed, so nothing was imported")
    return sentence


def _load(imported: Imported, folder: Path) -> nn.Module:
    """The library's model; files of the folder only, no code of it, nothing from a network."""
    transformers = need_transformers()
    architecture = imported.architecture
    name = str(architecture.base_class) if imported.new_head else architecture.class_name
    with quiet():
        model = getattr(transformers, name).from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
        )
    return model.eval()


def _images(imported: Imported, ours: nn.Module, theirs: nn.Module) -> tuple[list[Scores], list[Scores]]:
    config = imported.config
    shape = (IMAGES, config.channels, config.image, config.image)
    images = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    return [ours(images).numpy()], [theirs(pixel_values=images).logits.numpy()]


def _texts(imported: Imported, ours: nn.Module, theirs: nn.Module) -> tuple[list[Scores], list[Scores]]:
    """The logits of each row's own tokens, of two texts of different lengths."""
    source, target = imported.tokenizers[0], imported.tokenizers[-1]
    rows = _random_rows(imported, 0)
    inputs: list[Any] = [Sequences.padded(rows)]
    given = _grid([their_ids(row, source) for row in rows])
    if imported.config.shape == "encoder-decoder":
        rows = _random_rows(imported, -1)
        inputs.append(Sequences.padded(rows))
        given |= {f"decoder_{name}": grid for name, grid in _grid([their_ids(row, target) for row in rows]).items()}
    if imported.new_head:
        mine, expected = ours.hidden(*inputs), theirs(**given).last_hidden_state  # type: ignore[operator]
    else:
        mine, expected = ours(*inputs), theirs(**given).logits
        expected = expected if imported.labels else our_logits(expected, target)
    if imported.labels and not imported.new_head:
        return [mine.numpy()], [expected.numpy()]
    lengths = [len(row) for row in rows]
    return tuple([one[: lengths[row]].numpy() for row, one in enumerate(grid)] for grid in (mine, expected))  # type: ignore[return-value]


def _random_rows(imported: Imported, side: int) -> list[list[int]]:
    """Tokens that both vocabularies have, the end last."""
    tokenizer = imported.tokenizers[side]
    id_mapping, size = tokenizer.id_mapping, tokenizer.vocab_size
    known = [own for own in range(size) if id_mapping is None or id_mapping.foreign_ids[own] != NONE]
    tokens = torch.tensor([own for own in known if own >= len(SPECIAL_TOKENS)] or known)
    draw, ends = torch.Generator().manual_seed(2 + side), [EOS] if EOS in known else []
    lengths = [max(1, min(length, imported.length - len(ends))) for length in LENGTHS]
    return [[*tokens[torch.randint(len(tokens), (n,), generator=draw)].tolist(), *ends] for n in lengths]


def _grid(rows: list[list[int]]) -> dict[str, Tensor]:
    time = max(map(len, rows))
    return {
        "input_ids": torch.tensor([row + [0] * (time - len(row)) for row in rows]),
        "attention_mask": torch.tensor([[1] * len(row) + [0] * (time - len(row)) for row in rows]),
    }
