"""A CTranslate2 folder: the model by its own specifications, the vocabulary, and our tokenizer beside it.

An engine needs the folder and the libraries ctranslate2 and tokenizers, no torch: `regard.json` says the task, which
tokens stand around a text, and how long it may be.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.errors import ConfigError, RegardError
from regard.export.ctranslate2_parts import Parts, positions_of
from regard.export.exported_model import Row, Subject
from regard.export.huggingface.restore_ids import spread
from regard.export.parity import Compared, Scores, prompt
from regard.export.supported_settings import (
    STANDARD,
    Supported,
    same_in_decoder,
    unsupported_error,
    unsupported_settings,
)
from regard.text.special_tokens import BOS, EOS, SEP, SPECIAL_TOKENS, UNK
from regard.text.tokenizer import Tokenizer, save_tokenizers

HINT = "train with settings that fit, or export to onnx, which takes any kind of model"


def _supported(config: Any) -> Supported:  # noqa: ANN401
    writes_on = config.shape == "decoder"
    positions = ("sinusoidal", "learned", "relative", *(("rotary", "alibi") if writes_on else ("rotary", "t5")))
    return {
        **STANDARD,
        "norm.kind": ("layer", "rms"),
        "norm.epsilon_inside": (True,),
        "final_norm": (config.norm_place == "before",),
        "position.kind": positions,
        "position.combine": ("add",),
        "position.layers": ("first",),
        "position.values": (True,),
        "feedforward.kind": ("plain", "gated"),
        "feedforward.activation": ("relu", "gelu", "gelu-tanh", "silu", "tanh"),
        "embedding.segments": (0,),
        "head.kind": ("vocabulary",),
        **(same_in_decoder(config) if not writes_on else {}),
    }


def refuse_unsupported(config: Any) -> None:  # noqa: ANN401
    """Refuses a model that the specifications cannot describe."""
    if config.kind not in ("encoder-decoder", "decoder"):
        raise ConfigError(
            "model.kind", f"CTranslate2 folders hold 'encoder-decoder' or 'decoder', got '{config.kind}'; {HINT}"
        )
    if unsupported := unsupported_settings(config, _supported(config)):
        raise unsupported_error("CTranslate2", unsupported, HINT)


def write_ctranslate2(subject: Subject, folder: Path, *, int8: bool = False) -> str:
    """Writes model.bin, config.json, the vocabulary, tokenizer.json and regard.json; says which specification."""
    refuse_unsupported(subject.settled)
    config, weights = spread(subject)
    parts = Parts(config, weights, subject.room, subject.spare_positions)
    spec = _pair(subject, parts) if subject.pairs else _decoder(subject, parts)
    spec.validate()
    # the conversion works in place, on the copies that `weights` gave
    spec.optimize(quantization="int8" if int8 else None)
    spec.save(str(folder))
    save_tokenizers(subject.tokenizers, folder)
    _write_engine_settings(subject, folder)
    return type(spec).__name__


def _pair(subject: Subject, parts: Parts) -> Any:  # noqa: ANN401
    config, specs = parts.config, need_ctranslate2().specs.transformer_spec
    common = parts.options()
    encoder = specs.TransformerEncoderSpec(config.depth, config.heads, **common, **positions_of(config, decoder=False))
    decoder = specs.TransformerDecoderSpec(config.target_depth, config.heads, **common, **positions_of(config))
    spec = specs.TransformerSpec(encoder, decoder)
    source = "target_embedding" if config.embedding.shares_inputs else "source_embedding"
    parts.fill_stack(spec.encoder, "encoder", source, config.depth)
    parts.fill_stack(spec.decoder, "decoder", "target_embedding", config.target_depth, cross=True)
    parts.fill_head(spec.decoder, "target_embedding")
    spec.register_source_vocabulary(tokens_of(subject.source))
    spec.register_target_vocabulary(tokens_of(subject.target))
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = SPECIAL_TOKENS[BOS]
    _name_special_tokens(spec, config)
    return spec


def _decoder(subject: Subject, parts: Parts) -> Any:  # noqa: ANN401
    config, specs = parts.config, need_ctranslate2().specs.transformer_spec
    decoder = specs.TransformerDecoderSpec(
        config.depth, config.heads, with_encoder_attention=False, **parts.options(), **positions_of(config)
    )
    spec = specs.TransformerDecoderModelSpec(decoder)
    parts.fill_stack(spec.decoder, "stack", "embedding", config.depth)
    parts.fill_head(spec.decoder, "embedding")
    spec.register_vocabulary(tokens_of(subject.target))
    _name_special_tokens(spec, config)
    return spec


def _name_special_tokens(spec: Any, config: Any) -> None:  # noqa: ANN401
    spec.config.bos_token, spec.config.eos_token = SPECIAL_TOKENS[BOS], SPECIAL_TOKENS[EOS]
    spec.config.unk_token, spec.config.layer_norm_epsilon = SPECIAL_TOKENS[UNK], config.norm.epsilon


def tokens_of(tokenizer: Tokenizer) -> list[str]:
    """The vocabulary as CTranslate2 knows it."""
    return tokenizer.names


def _write_engine_settings(subject: Subject, folder: Path) -> None:
    settings = {
        "task": subject.kind,
        "longest": subject.length,
        "documents": subject.documents,
        "forbidden": list(forbidden(subject)),
        "joint": subject.joint,
        **subject.input_form(),
    }
    (folder / "regard.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def forbidden(subject: Subject) -> tuple[str, ...]:
    """Tokens that no search of ours writes."""
    return tuple(SPECIAL_TOKENS[number] for number in subject.never)


class CTranslate2:
    """The exported folder, run by ctranslate2."""

    def __init__(self, subject: Subject, folder: Path, *, int8: bool = False) -> None:
        library = need_ctranslate2()
        self.subject = subject
        self.source, self.target = tokens_of(subject.source), tokens_of(subject.target)
        self.number = {token: number for number, token in enumerate(self.target)}
        kind = library.Translator if subject.pairs else library.Generator
        precision = "int8" if int8 else "float32"
        self.model = kind(str(folder), device="cpu", compute_type=precision, inter_threads=1, intra_threads=1)
        self.compared: Compared = "log-probabilities" if subject.pairs else "logits"

    def scores(self, rows: list[Row]) -> list[Scores]:
        """Log-probabilities of a translation's tokens and its end; logits of a model of one stack."""
        if self.subject.pairs:
            sources = [[self.source[number] for number in row.source[:-1]] for row in rows]
            found = self.model.score_batch(sources, [self._tokens(row.target[1:]) for row in rows])
            return [np.array(one.log_probs, dtype=np.float32) for one in found]
        logits = self.model.forward_batch([self._tokens(row.target) for row in rows])
        grid = torch.as_tensor(np.array(logits)).float().numpy()
        return [grid[place, : len(row.target)] for place, row in enumerate(rows)]

    def greedy(self, rows: list[Row], longest: int) -> list[list[int]]:
        """Greedy search."""
        never: dict[str, Any] = {"suppress_sequences": [[token] for token in forbidden(self.subject)], "beam_size": 1}
        if self.subject.pairs:
            sources = [[self.source[number] for number in row.source[:-1]] for row in rows]
            found = self.model.translate_batch(sources, max_decoding_length=longest, max_input_length=0, **never)
            return [[self.number[token] for token in one.hypotheses[0]] for one in found]
        ends = {} if self.subject.documents else {"end_token": []}
        return self._continued([self._tokens(prompt(row)) for row in rows], max_length=longest, **never, **ends)

    def _continued(self, prompts: list[list[str]], **settings: Any) -> list[list[int]]:  # noqa: ANN401
        """Prompts of one length share a batch: of longer ones, the library would write the rest as if it were new."""
        written: dict[int, list[int]] = {}
        for length in {len(given) for given in prompts}:
            own = [place for place, given in enumerate(prompts) if len(given) == length]
            found = self.model.generate_batch([prompts[n] for n in own], include_prompt_in_result=False, **settings)
            texts = [[self.number[token] for token in one.sequences[0] if token != "<eos>"] for one in found]
            written.update(zip(own, texts, strict=True))
        return [written[place] for place in range(len(prompts))]

    def _tokens(self, ids: list[int]) -> list[str]:
        return [self.target[number] for number in ids]


def need_ctranslate2() -> Any:  # noqa: ANN401
    """The library, which is an extra."""
    try:
        import ctranslate2
    except ImportError:
        raise RegardError("CTranslate2 folders need an extra library: pip install 'regard[ctranslate2]'") from None
    return ctranslate2


def usage(subject: Subject) -> str:
    """How the folder is used, for its README."""
    cut = f"[:{subject.input_tokens - 1}]" if subject.input_tokens else ""
    if subject.pairs:
        reader = "tokenizer.json" if subject.joint else "tokenizer.source.json"
        writer = "tokenizer" if subject.joint else 'Tokenizer.from_file("tokenizer.target.json")'
        return "\n".join(
            [
                "import ctranslate2",
                "from tokenizers import Tokenizer",
                "",
                f'tokenizer = Tokenizer.from_file("{reader}")',
                'model = ctranslate2.Translator(".")',
                *subject.input_note(),
                f'tokens = tokenizer.encode("Your text", add_special_tokens=False).tokens{cut}',
                "written = model.translate_batch([tokens], max_input_length=0)[0].hypotheses[0]",
                f"{writer}.decode([{writer}.token_to_id(token) for token in written])",
            ]
        )
    return "\n".join(
        [
            "import ctranslate2",
            "from tokenizers import Tokenizer",
            "",
            'tokenizer, model = Tokenizer.from_file("tokenizer.json"), ctranslate2.Generator(".")',
            *(_summary(subject, cut) if subject.prompted else WRITE_ON),
        ]
    )


WRITE_ON = (
    'tokens = tokenizer.encode("Once upon", add_special_tokens=False).tokens',
    "model.generate_batch([tokens], max_length=100)[0].sequences[0]",
)


def _summary(subject: Subject, cut: str) -> list[str]:
    """What is read, then the separator; what follows is the summary."""
    options = f"max_length={subject.most_written}, include_prompt_in_result=False"
    return [
        *subject.input_note(),
        f'tokens = tokenizer.encode("Your text", add_special_tokens=False).tokens{cut} + ["{SPECIAL_TOKENS[SEP]}"]',
        f"written = model.generate_batch([tokens], {options})[0].sequences[0]",
        "tokenizer.decode([tokenizer.token_to_id(token) for token in written])",
    ]
