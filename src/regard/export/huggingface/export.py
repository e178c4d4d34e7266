"""A Hugging Face folder: `AutoModel….from_pretrained` and `AutoTokenizer` load it without code of ours."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.export.exported_model import ExportedModel, Row, sinusoid_table
from regard.export.huggingface.architecture import MULTI_LABEL, Architecture, Sizes
from regard.export.huggingface.architectures import choose
from regard.export.huggingface.architectures.vit import write_image_processor
from regard.export.huggingface.id_mapping import (
    in_their_ids,
    our_ids,
    our_logits,
    their_ids,
    their_size,
    their_token_ids,
)
from regard.export.huggingface.parameter_names import ParameterNames
from regard.export.huggingface.tokenizer_files import write_tokenizers
from regard.export.parity import Compared, ExportedFolder, ExportTarget, Scores, label_scores, target_scores
from regard.models.stack import StackConfig, TextStackConfig
from regard.nn.position import LearnedConfig
from regard.text.special_tokens import BOS, EOS, PAD

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

HINT = "train with settings that fit, or export to onnx, which needs no layout"


def require_transformers() -> ModuleType:
    try:
        import transformers
    except ImportError:
        raise RegardError("Hugging Face folders need an extra library: pip install 'transformers>=5'") from None
    return transformers


@contextmanager
def quiet() -> Iterator[None]:
    """Without the library's progress bars and notes."""
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


def write_huggingface(exported: ExportedModel, folder: Path) -> Architecture:
    """Writes config.json, model.safetensors, generation_config.json and the tokenizer's files."""
    architecture = choose(exported.resolved_config, HINT)
    vocab, target_vocab = (0, 0) if exported.images else (their_size(exported.source), their_size(exported.target))
    model = to_transformers(architecture, exported, Sizes(vocab, target_vocab, exported.labels, exported.max_positions))
    with quiet():
        if exported.generates:
            model.generation_config = _generation_config(exported, architecture)
        model.save_pretrained(folder)
    if exported.images is None:
        write_tokenizers(exported, folder)
    else:
        write_image_processor(exported.images, folder, HINT)
    if inputs := exported.input_settings():
        settings = {"task": exported.task, "longest": exported.length, **inputs}
        (folder / "regard.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return architecture


def to_transformers(architecture: Architecture, exported: ExportedModel, sizes: Sizes) -> "PreTrainedModel":
    """The model of transformers with our weights."""
    reads_text = exported.images is None
    config, weights = in_their_ids(exported) if reads_text else (exported.resolved_config, exported.weights())
    assert isinstance(config, StackConfig)
    config, weights = fold_into_weights(architecture, config, weights, sizes.length)
    settings = architecture.to_config(config, sizes)
    settings = their_token_ids(settings, exported) if reads_text else settings
    if exported.task == MULTI_LABEL:
        settings |= {"problem_type": MULTI_LABEL}
    if exported.task == "language_model" and not exported.documents:
        settings |= {"bos_token_id": None, "eos_token_id": None}
    transformers = require_transformers()
    with quiet():
        theirs = getattr(transformers, architecture.class_name)(
            transformers.AutoConfig.for_model(architecture.model_type, **settings)
        )
    theirs._keys_to_ignore_on_save = None  # position tables are saved, too: ours may be others
    tables = {
        name: weights[ours] if ours in weights else sinusoid_table(config, sizes.length)
        for name, ours in architecture.position_tables.items()
    }
    _fill(theirs, architecture, architecture.parameter_names(config), weights, tables)
    return theirs.eval()


def fold_into_weights(
    architecture: Architecture[StackConfig], config: StackConfig, weights: dict[str, Tensor], length: int
) -> tuple[StackConfig, dict[str, Tensor]]:
    """Settings and weights of the same function, as the architecture can express it.

    Sinusoids become a learned table, √width is multiplied into the embedding.
    """
    weights = dict(weights)
    if isinstance(config, TextStackConfig) and config.embedding.scale and not architecture.scales_embedding:
        table = weights["embedding.table.weight"]
        if config.embedding.shares_output:
            weights["head.linear.weight"] = table
        weights["embedding.table.weight"] = table * config.width**0.5
        config = config.but(embedding=config.embedding.but(scale=False, share="none"))
    if architecture.learned_positions_only and config.position.kind == "sinusoidal":
        weights["stack.positions.0.table.weight"] = sinusoid_table(config, length)
        config = config.but(position=LearnedConfig(length=length))
    return config, weights


@torch.no_grad()
def _fill(
    theirs: nn.Module,
    architecture: Architecture,
    names: ParameterNames,
    weights: Mapping[str, Tensor],
    tables: Mapping[str, Tensor],
) -> None:
    """Copies all weights; a bias that we do not have is zero, a gain that we do not have is one."""
    # versions of the library differ in names that files have in one form
    tensors = {architecture.renamed(name): tensor for name, tensor in theirs.state_dict(keep_vars=True).items()}
    assert not (missing := {view.name for view in names.values()} - tensors.keys()), f"no tensor {sorted(missing)}"
    for name, view in names.items():
        tensor = view.view(tensors[view.name])
        if name in weights:
            tensor.copy_(weights[name].reshape(tensor.shape))
        else:
            tensor.fill_(1.0 if name.endswith("gain") else 0.0)
    for name, table in tables.items():
        tensors[name].copy_(table)
    unplaced = {name for name in weights if name not in names and not name.endswith("positions.0.table.weight")}
    assert not unplaced, f"no tensor for {sorted(unplaced)}"


def _generation_config(exported: ExportedModel, architecture: Architecture) -> "GenerationConfig":
    """Greedy search with our suppressed tokens, no longer than a position table."""
    limited = architecture.learned_positions_only and exported.task == "language_model"
    tokens = {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS if exported.has_end else None,
        "decoder_start_token_id": BOS if exported.encoder_decoder else None,
    }
    tokens = their_token_ids(tokens, exported)
    suppressed = [token for token in their_ids(exported.suppressed, exported.target) if token != tokens["eos_token_id"]]
    return require_transformers().GenerationConfig(
        **tokens,
        suppress_tokens=suppressed or None,
        **({"max_length": exported.max_positions} if limited else {"max_new_tokens": exported.max_new_tokens}),
        do_sample=False,
        num_beams=1,
    )


class HuggingFace:
    """The exported folder, run by transformers."""

    compared: Compared = "logits"

    def __init__(self, exported: ExportedModel, folder: Path, architecture: Architecture) -> None:
        self.exported = exported
        auto_class = getattr(require_transformers(), architecture.auto_class)
        with quiet():
            self.model = auto_class.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def scores(self, rows: list[Row]) -> list[Scores]:
        """The logits of a padded batch, cut to each row's length."""
        if not self.exported.generates:
            return label_scores(self._label_logits(rows).numpy(), rows)
        target, mask = self._padded([row.target for row in rows]).values()
        if self.exported.encoder_decoder:
            source = self._padded([row.source for row in rows])
            logits = self.model(**source, decoder_input_ids=target, decoder_attention_mask=mask).logits
        else:
            logits = self.model(input_ids=target, attention_mask=mask).logits
        return target_scores(our_logits(logits, self.exported.target).numpy(), rows)

    def _label_logits(self, rows: list[Row]) -> Tensor:
        pixels = [row.pixels for row in rows if row.pixels is not None]
        if pixels:
            return self.model(pixel_values=torch.from_numpy(np.stack(pixels))).logits
        logits = self.model(**self._padded([row.source for row in rows])).logits
        return our_logits(logits, self.exported.target) if self.exported.task == "masked_language_model" else logits

    def greedy(self, rows: list[Row], max_length: int) -> list[list[int]]:
        """What `generate` returns with the folder's generation config."""
        if self.exported.encoder_decoder:
            inputs, start = self._padded([row.source for row in rows]), 1
        else:
            prompts = [row.prompt for row in rows]
            inputs, start = self._padded(prompts, left=True), max(map(len, prompts))
        with quiet():
            generated = self.model.generate(**inputs, max_new_tokens=max_length).tolist()
        outputs = [our_ids(row[start:], self.exported.target) for row in generated]
        return [_until_end(row) for row in outputs] if self.exported.has_end else outputs

    def _padded(self, rows: list[list[int]], left: bool = False) -> dict[str, Tensor]:
        """Rows in the vocabulary's own ids; a source and a target have the same special tokens."""
        return padded([their_ids(row, self.exported.source) for row in rows], left)


def padded(rows: list[list[int]], left: bool = False) -> dict[str, Tensor]:
    """input_ids and attention_mask."""
    longest = max(map(len, rows))
    paddings = [[0] * (longest - len(row)) for row in rows]
    pairs = list(zip(rows, paddings, strict=True))
    ids = [padding + row if left else row + padding for row, padding in pairs]
    masks = [([1] * len(row), padding) for row, padding in pairs]
    mask = [padding + ones if left else ones + padding for ones, padding in masks]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def _until_end(ids: list[int]) -> list[int]:
    return ids[: ids.index(EOS)] if EOS in ids else ids


def usage(exported: ExportedModel, architecture: Architecture) -> str:
    """An example for the README."""
    auto_class = architecture.auto_class
    loader = "AutoImageProcessor" if exported.images else "AutoTokenizer"
    name = "processor" if exported.images else "tokenizer"
    text = "Your <mask>" if exported.task == "masked_language_model" else "Your text"
    argument = 'Image.open("image.png").convert("RGB")' if exported.images else f'["{text}"]'
    options = "" if exported.images else ", padding=True"
    options += ", truncation=True" if exported.input_tokens else ""
    lines = [
        *(["from PIL import Image"] if exported.images else []),
        f"from transformers import {auto_class}, {loader}",
        "",
        f'{name} = {loader}.from_pretrained(".")',
        f'model = {auto_class}.from_pretrained(".")',
        *exported.input_comment(),
        f'inputs = {name}({argument}, return_tensors="pt"{options})',
    ]
    if exported.task == "masked_language_model":
        lines += ["tokenizer.decode(model(**inputs).logits[0].argmax(-1))"]
    elif exported.task == "tagging":
        lines += ["[model.config.id2label[int(tag)] for tag in model(**inputs).logits[0].argmax(-1)]"]
    elif not exported.generates:
        lines += ["model.config.id2label[int(model(**inputs).logits.argmax())]"]
    else:
        marian = exported.source.id_mapping is not None and exported.source.id_mapping.marian  # needs sentencepiece
        target = "tokenizer" if exported.joint or marian else 'AutoTokenizer.from_pretrained(".", subfolder="target")'
        output = '[:, inputs["input_ids"].shape[1] :]' if exported.prompted else ""  # without the prompt
        lines += [f"{target}.batch_decode(model.generate(**inputs){output}, skip_special_tokens=True)"]
    return "\n".join(lines)


def _write(exported: ExportedModel, folder: Path, int8: bool) -> ExportedFolder:
    architecture = write_huggingface(exported, folder)
    engine = HuggingFace(exported, folder, architecture)
    return ExportedFolder(engine, architecture.name, usage(exported, architecture))


TARGET = ExportTarget("huggingface", _write)
