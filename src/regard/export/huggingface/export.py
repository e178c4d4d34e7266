"""A Hugging Face folder: `AutoModel….from_pretrained` and `AutoTokenizer` load it without code of ours."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.export.exported_model import Row, Subject
from regard.export.huggingface import architectures  # noqa: F401, registers them all
from regard.export.huggingface.architecture import Architecture, Sizes, choose, fold_into_weights, sinusoid_table
from regard.export.huggingface.architectures.vit import write_image_processor
from regard.export.huggingface.parameter_names import ParameterNames
from regard.export.huggingface.restore_ids import our_ids, our_logits, restored, rows_of, their_ids, their_settings
from regard.export.huggingface.tokenizer_files import write_tokenizers
from regard.export.parity import Compared, Scores, prompt
from regard.text.special_tokens import BOS, EOS, PAD

HINT = "train with settings that fit, or export to onnx, which needs no architecture"


def write_huggingface(subject: Subject, folder: Path) -> Architecture:
    """Writes config.json, model.safetensors, generation_config.json and the tokenizer's files."""
    architecture = choose(subject.settled, HINT)
    vocab, target_vocab = (0, 0) if subject.images else (rows_of(subject.source), rows_of(subject.target))
    model = as_huggingface(architecture, subject, Sizes(vocab, target_vocab, subject.labels, subject.room))
    with quiet():
        if subject.writes:
            model.generation_config = _generation(subject, architecture)
        model.save_pretrained(folder)  # type: ignore[operator]
    if subject.images is None:
        write_tokenizers(subject, folder)
    else:
        write_image_processor(subject.images, folder, HINT)
    if form := subject.input_form():
        settings = {"task": subject.kind, "longest": subject.length, **form}
        (folder / "regard.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return architecture


def as_huggingface(architecture: Architecture, subject: Subject, sizes: Sizes) -> nn.Module:
    """The model of transformers with our weights."""
    reads_text = subject.images is None
    config, weights = restored(subject) if reads_text else (subject.settled, subject.weights())
    config, weights = fold_into_weights(architecture, config, weights, sizes.length)
    settings = architecture.to_config(config, sizes)
    settings = their_settings(settings, subject) if reads_text else settings
    if subject.kind == "language_model" and not subject.documents:
        settings |= {"bos_token_id": None, "eos_token_id": None}
    transformers = need_transformers()
    with quiet():
        theirs = getattr(transformers, architecture.class_name)(
            transformers.AutoConfig.for_model(architecture.model_type, **settings)
        )
    theirs._keys_to_ignore_on_save = None  # tables of positions are saved, too: ours may be others
    tables = {name: _table(architecture, config, weights, name, sizes.length) for name in architecture.position_tables}
    fill(theirs, architecture, architecture.parameter_names(config), weights, tables)
    return theirs.eval()


@torch.no_grad()
def fill(
    theirs: nn.Module,
    architecture: Architecture,
    names: ParameterNames,
    weights: Mapping[str, Tensor],
    tables: Mapping[str, Tensor],
) -> None:
    """Copies weights to their places; a bias that we do not have is zero, a gain that we do not have is one."""
    # versions of the library differ in names that files have in one form
    tensors = {architecture.renamed(name): tensor for name, tensor in theirs.state_dict(keep_vars=True).items()}
    assert not (missing := {view.name for view in names.values()} - tensors.keys()), f"no tensor {sorted(missing)}"
    for name, place in names.items():
        view = place.view(tensors[place.name])
        if name in weights:
            view.copy_(weights[name].reshape(view.shape))
        else:
            view.fill_(1.0 if name.endswith("gain") else 0.0)
    for name, table in tables.items():
        tensors[name].copy_(table)
    unplaced = {name for name in weights if name not in names} - set(_learned_tables(names, weights))
    assert not unplaced, f"no place for {sorted(unplaced)}"


def _learned_tables(names: ParameterNames, weights: Mapping[str, Tensor]) -> list[str]:
    return [name for name in weights if name.endswith("positions.0.table.weight") and name not in names]


def _table(architecture: Architecture, config: Any, weights: Mapping[str, Tensor], name: str, length: int) -> Tensor:  # noqa: ANN401
    own = architecture.position_tables[name]
    return weights[own] if own in weights else sinusoid_table(config, length)


def _generation(subject: Subject, architecture: Architecture) -> Any:  # noqa: ANN401
    """Greedy search that writes what ours may write, no further than a table of positions reaches."""
    limited = architecture.learned_positions_only and subject.kind == "language_model"
    never = their_ids(subject.never, subject.target)
    numbers = {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS if subject.ends else None,
        "decoder_start_token_id": BOS if subject.pairs else None,
    }
    numbers = their_settings(numbers, subject)
    return need_transformers().GenerationConfig(
        **numbers,
        suppress_tokens=[number for number in never if number != numbers["eos_token_id"]] or None,
        **({"max_length": subject.room} if limited else {"max_new_tokens": subject.most_written}),
        do_sample=False,
        num_beams=1,
    )


class HuggingFace:
    """The exported folder, run by transformers."""

    compared: Compared = "logits"

    def __init__(self, subject: Subject, folder: Path, architecture: Architecture) -> None:
        transformers = need_transformers()
        self.subject = subject
        with quiet():
            self.model = (
                getattr(transformers, architecture.auto_class).from_pretrained(folder, dtype=torch.float32).eval()
            )

    @torch.no_grad()
    def scores(self, rows: list[Row]) -> list[Scores]:
        """The logits of a padded batch, cut to each row's length."""
        if not self.subject.writes:
            return self._labels(rows)
        target, mask = self._grid([row.target for row in rows]).values()
        if self.subject.pairs:
            given = self._grid([row.source for row in rows])
            logits = self.model(**given, decoder_input_ids=target, decoder_attention_mask=mask).logits
        else:
            logits = self.model(input_ids=target, attention_mask=mask).logits
        logits = our_logits(logits, self.subject.target).numpy()
        return [np.array(logits[place, : len(row.target)]) for place, row in enumerate(rows)]

    def _labels(self, rows: list[Row]) -> list[Scores]:
        """The scores of each row's labels, or of each of its tokens."""
        pixels = [row.pixels for row in rows if row.pixels is not None]
        if pixels:
            return list(self.model(pixel_values=torch.from_numpy(np.stack(pixels))).logits.numpy())
        logits = self.model(**self._grid([row.source for row in rows])).logits
        if self.subject.kind == "masked_language_model":
            logits = our_logits(logits, self.subject.target)
        logits = logits.numpy()
        return [one if one.ndim == 1 else one[: len(row.source)] for one, row in zip(logits, rows, strict=True)]

    def greedy(self, rows: list[Row], longest: int) -> list[list[int]]:
        """What `generate` writes with the folder's own settings."""
        if self.subject.pairs:
            given, start = self._grid([row.source for row in rows]), 1
        else:
            prompts = [prompt(row) for row in rows]
            given, start = self._grid(prompts, left=True), max(map(len, prompts))
        with quiet():
            found = self.model.generate(**given, max_new_tokens=longest).tolist()
        written = [our_ids(row[start:], self.subject.target) for row in found]
        return [_until_end(row) for row in written] if self.subject.ends else written

    def _grid(self, rows: list[list[int]], left: bool = False) -> dict[str, Tensor]:
        """Rows in the vocabulary's own numbers; a source and a target have the same special tokens."""
        numbers = [their_ids(row, self.subject.source) for row in rows]
        return _padded(numbers, left)


def _padded(rows: list[list[int]], left: bool = False) -> dict[str, Tensor]:
    longest = max(map(len, rows))
    gaps = [[PAD] * (longest - len(row)) for row in rows]
    tokens = [gap + row if left else row + gap for row, gap in zip(rows, gaps, strict=True)]
    mask = [
        [0] * len(gap) + [1] * len(row) if left else [1] * len(row) + [0] * len(gap)
        for row, gap in zip(rows, gaps, strict=True)
    ]
    return {"input_ids": torch.tensor(tokens), "attention_mask": torch.tensor(mask)}


def _until_end(ids: list[int]) -> list[int]:
    return ids[: ids.index(EOS)] if EOS in ids else ids


def need_transformers() -> Any:  # noqa: ANN401
    """The library, which is not among the usual requirements."""
    try:
        import transformers
    except ImportError:
        raise RegardError("Hugging Face folders need an extra library: pip install 'transformers>=5'") from None
    return transformers


@contextmanager
def quiet() -> Iterator[None]:
    """Without the library's bars and notes."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def usage(subject: Subject, architecture: Architecture) -> str:
    """How the folder is used, for its README."""
    kind = "AutoImageProcessor" if subject.images else "AutoTokenizer"
    name = "processor" if subject.images else "tokenizer"
    text = "Your <mask>" if subject.kind == "masked_language_model" else "Your text"
    given = 'Image.open("image.png").convert("RGB")' if subject.images else f'["{text}"]'
    cut = ", truncation=True" if subject.input_tokens else ""
    lines = [
        *(["from PIL import Image"] if subject.images else []),
        f"from transformers import {architecture.auto_class}, {kind}",
        "",
        f'{name} = {kind}.from_pretrained(".")',
        f'model = {architecture.auto_class}.from_pretrained(".")',
        *subject.input_note(),
        f'inputs = {name}({given}, return_tensors="pt"{"" if subject.images else ", padding=True"}{cut})',
    ]
    if subject.kind == "masked_language_model":
        return "\n".join([*lines, "tokenizer.decode(model(**inputs).logits[0].argmax(-1))"])
    if subject.kind == "tagging":
        return "\n".join([*lines, "[model.config.id2label[int(tag)] for tag in model(**inputs).logits[0].argmax(-1)]"])
    if not subject.writes:
        return "\n".join([*lines, "model.config.id2label[int(model(**inputs).logits.argmax())]"])
    marian = subject.source.id_mapping is not None and subject.source.id_mapping.marian  # needs sentencepiece installed
    writer = "tokenizer" if subject.joint or marian else 'AutoTokenizer.from_pretrained(".", subfolder="target")'
    rest = '[:, inputs["input_ids"].shape[1] :]' if subject.prompted else ""  # without what was read
    return "\n".join([*lines, f"{writer}.batch_decode(model.generate(**inputs){rest}, skip_special_tokens=True)"])
