"""An imported model beside the library's: logits of both on random inputs."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.errors import Failure
from regard.export.huggingface.export import padded, quiet, require_transformers
from regard.export.huggingface.id_mapping import our_logits, their_ids
from regard.export.huggingface.import_model import Imported
from regard.export.parity import TOLERANCE, Scores, largest_difference
from regard.models import VisionConfig
from regard.models.contract import Model
from regard.nn.head import NEVER
from regard.nn.layout import Sequences
from regard.text.id_mapping import NONE
from regard.text.special_tokens import EOS, SPECIAL_TOKENS

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
    assert isinstance(ours, Model)
    with torch.no_grad():
        mine, expected = _images(imported, ours, theirs) if not imported.tokenizers else _texts(imported, ours, theirs)
    # numpy's maximum keeps NaN, where Python's may lose it
    difference = float(np.max([largest_difference(one, other) for one, other in zip(mine, expected, strict=True)]))
    scale = max(float(np.abs(np.where(one < NEVER / 2, 0, one)).max(initial=1.0)) for one in expected)
    what = "hidden state" if imported.new_head else "logit"
    sentence = f"largest difference of a {what} from transformers on random inputs: {difference:.2g}"
    if not difference <= TOLERANCE * scale:
        raise Failure(f"{folder}: {sentence}; at most {TOLERANCE * scale:.2g} is allowed, so nothing was imported")
    return sentence


def _load(imported: Imported, folder: Path) -> nn.Module:
    """The library's model; files of the folder only, no code of it, nothing from a network."""
    transformers = require_transformers()
    architecture = imported.architecture
    name = str(architecture.base_class) if imported.new_head else architecture.class_name
    with quiet():
        model = getattr(transformers, name).from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
        )
    return model.eval()


def _images(imported: Imported, ours: Model, theirs: nn.Module) -> tuple[list[Scores], list[Scores]]:
    config = imported.config
    assert isinstance(config, VisionConfig)
    shape = (IMAGES, config.channels, config.image, config.image)
    images = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    return [ours(images).numpy()], [theirs(pixel_values=images).logits.numpy()]


def _texts(imported: Imported, ours: Model, theirs: nn.Module) -> tuple[list[Scores], list[Scores]]:
    """The logits of each row's own tokens, of two texts of different lengths."""
    source, target = imported.tokenizers[0], imported.tokenizers[-1]
    rows = _random_rows(imported, 0)
    ours_in = [Sequences.padded(rows)]
    theirs_in = padded([their_ids(row, source) for row in rows])
    if imported.config.shape == "encoder-decoder":
        rows = _random_rows(imported, -1)
        ours_in.append(Sequences.padded(rows))
        decoder_inputs = padded([their_ids(row, target) for row in rows])
        theirs_in |= {f"decoder_{name}": tensor for name, tensor in decoder_inputs.items()}
    if imported.new_head:
        mine, expected = ours.hidden(*ours_in), theirs(**theirs_in).last_hidden_state
    else:
        mine, expected = ours(*ours_in), theirs(**theirs_in).logits
        expected = expected if imported.labels else our_logits(expected, target)
    if imported.labels and not imported.new_head:
        return [mine.numpy()], [expected.numpy()]
    pairs = zip(mine, expected, map(len, rows), strict=True)
    cut = [(one[:length].numpy(), other[:length].numpy()) for one, other, length in pairs]
    return [one for one, _ in cut], [other for _, other in cut]


def _random_rows(imported: Imported, side: int) -> list[list[int]]:
    """Random tokens that both vocabularies have, the end last."""
    tokenizer = imported.tokenizers[side]
    id_mapping, size = tokenizer.id_mapping, tokenizer.vocab_size
    shared = [token for token in range(size) if id_mapping is None or id_mapping.foreign_ids[token] != NONE]
    tokens = torch.tensor([token for token in shared if token >= len(SPECIAL_TOKENS)] or shared)
    draw, ends = torch.Generator().manual_seed(2 + side), [EOS] if EOS in shared else []
    lengths = [max(1, min(length, imported.length - len(ends))) for length in LENGTHS]
    return [[*tokens[torch.randint(len(tokens), (n,), generator=draw)].tolist(), *ends] for n in lengths]
