"""Hugging Face transformers: Marian for pairs, GPT-2 for text."""

import os
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import protocol
import torch
import torch.nn.functional as F
import transformers


def marian(work: protocol.Asked) -> Any:  # noqa: ANN401
    """An encoder-decoder of the wanted size."""
    pad = work["vocabulary"]  # one id more, as Marian begins with its padding
    config = transformers.MarianConfig(
        vocab_size=pad + 1, decoder_vocab_size=pad + 1, d_model=work["width"],
        encoder_layers=work["depth"], decoder_layers=work["depth"],
        encoder_attention_heads=work["heads"], decoder_attention_heads=work["heads"],
        encoder_ffn_dim=work["feedforward"], decoder_ffn_dim=work["feedforward"],
        dropout=work["dropout"], attention_dropout=0.0, activation_dropout=0.0, activation_function="relu",
        max_position_embeddings=512, scale_embedding=True, pad_token_id=pad, eos_token_id=3,
        decoder_start_token_id=pad, forced_eos_token_id=None, tie_word_embeddings=True,
    )  # fmt: skip
    return transformers.MarianMTModel(config)


def gpt2(work: protocol.Asked) -> Any:  # noqa: ANN401
    """A decoder of the wanted size."""
    config = transformers.GPT2Config(
        vocab_size=work["vocabulary"], n_positions=work["longest"] + work["write"], n_embd=work["width"],
        n_layer=work["depth"], n_head=work["heads"], resid_pdrop=work["dropout"], embd_pdrop=work["dropout"],
        attn_pdrop=work["dropout"], bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def make(asked: protocol.Asked) -> protocol.Step:
    """A step of training, or a batch written."""
    torch.manual_seed(0)
    torch.set_num_threads(asked["threads"])
    return {"train-pair": train_pair, "train-text": train_text, "translate": translate, "generate": generate}[
        asked["work"]["kind"]
    ](asked)


def train_pair(asked: protocol.Asked) -> protocol.Step:
    """Marian on a padded batch."""
    batch, model = protocol.PairBatch(asked), marian(asked["work"])
    given = {"input_ids": batch.source, "attention_mask": batch.source_kept.long(), "decoder_input_ids": batch.read}
    labels = batch.labels.flatten()
    return protocol.training_step(
        asked,
        model,
        lambda forward: F.cross_entropy(forward(**given, use_cache=False).logits.flatten(0, 1).float(), labels),
    )


def train_text(asked: protocol.Asked) -> protocol.Step:
    """GPT-2 on a full batch."""
    inputs, targets = protocol.text_batch(asked)
    return protocol.training_step(
        asked,
        gpt2(asked["work"]),
        lambda forward: F.cross_entropy(
            forward(input_ids=inputs, use_cache=False).logits.flatten(0, 1).float(), targets.flatten()
        ),
    )


def translate(asked: protocol.Asked) -> protocol.Step:
    """Marian with its own search; the end is forbidden, so that all write equally much."""
    work = asked["work"]
    model = _ready(marian(work), asked)
    source, kept = protocol.grid(protocol.rows(work, asked["lengths"]), work["device"])
    return _writing(model, work, {"input_ids": source, "attention_mask": kept.long(), "num_beams": work["beam"]})


def generate(asked: protocol.Asked) -> protocol.Step:
    """GPT-2, greedily; on a GPU with the cache of fixed size, which it compiles."""
    work = asked["work"]
    model = _ready(gpt2(work), asked)
    prompt, kept = protocol.grid(protocol.rows(work, asked["lengths"]), work["device"])
    static = {"cache_implementation": "static"} if work["device"] == "cuda" else {}
    return _writing(model, work, {"input_ids": prompt, "attention_mask": kept.long(), **static})


def _ready(model: Any, asked: protocol.Asked) -> Any:  # noqa: ANN401
    dtype = torch.bfloat16 if asked["precision"] == "bfloat16" else torch.float32
    return model.to(asked["work"]["device"], dtype).eval()


def _writing(model: Any, work: protocol.Asked, given: dict[str, Any]) -> protocol.Step:  # noqa: ANN401
    count = work["write"]

    def step() -> None:
        with torch.inference_mode():
            model.generate(
                **given, do_sample=False, min_new_tokens=count, max_new_tokens=count, max_length=None, use_cache=True
            )

    return step


if __name__ == "__main__":
    protocol.speak(make, lambda: f"transformers {transformers.__version__}, torch {torch.__version__}")
