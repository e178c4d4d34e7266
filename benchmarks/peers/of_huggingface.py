"""Hugging Face transformers: Marian for pairs, GPT-2 for text."""

import os
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import protocol
import torch
import torch.nn.functional as F
import transformers


def marian(work: protocol.Work) -> Any:
    """An encoder-decoder of the workload's size."""
    pad = work["vocabulary"]  # one id more: Marian decoders start with the padding token
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


def gpt2(work: protocol.Work) -> Any:
    """A decoder of the workload's size."""
    config = transformers.GPT2Config(
        vocab_size=work["vocabulary"], n_positions=work["longest"] + work["write"], n_embd=work["width"],
        n_layer=work["depth"], n_head=work["heads"], resid_pdrop=work["dropout"], embd_pdrop=work["dropout"],
        attn_pdrop=work["dropout"], bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def make(request: protocol.Request) -> protocol.Step:
    """The timed step: a training step, or generation for a batch."""
    torch.manual_seed(0)
    torch.set_num_threads(request["threads"])
    return {"train-pair": train_pair, "train-text": train_text, "translate": translate, "generate": generate}[
        request["work"]["kind"]
    ](request)


def train_pair(request: protocol.Request) -> protocol.Step:
    """Marian on a padded batch."""
    batch, model = protocol.PairBatch(request), marian(request["work"])
    inputs = {"input_ids": batch.source, "attention_mask": batch.source_mask.long(), "decoder_input_ids": batch.read}
    labels = batch.labels.flatten()
    return protocol.training_step(
        request,
        model,
        lambda forward: F.cross_entropy(forward(**inputs, use_cache=False).logits.flatten(0, 1).float(), labels),
    )


def train_text(request: protocol.Request) -> protocol.Step:
    """GPT-2 on a full batch."""
    inputs, targets = protocol.text_batch(request)
    return protocol.training_step(
        request,
        gpt2(request["work"]),
        lambda forward: F.cross_entropy(
            forward(input_ids=inputs, use_cache=False).logits.flatten(0, 1).float(), targets.flatten()
        ),
    )


def translate(request: protocol.Request) -> protocol.Step:
    """Marian with `generate`; EOS is suppressed, so that all programs generate equally many tokens."""
    work = request["work"]
    model = _ready(marian(work), request)
    source, mask = protocol.grid(protocol.rows(work, request["lengths"]), work["device"])
    return _generation_step(
        model, work, {"input_ids": source, "attention_mask": mask.long(), "num_beams": work["beam"]}
    )


def generate(request: protocol.Request) -> protocol.Step:
    """GPT-2, greedily; on a GPU with the static cache, which it compiles."""
    work = request["work"]
    model = _ready(gpt2(work), request)
    prompt, mask = protocol.grid(protocol.rows(work, request["lengths"]), work["device"])
    static = {"cache_implementation": "static"} if work["device"] == "cuda" else {}
    return _generation_step(model, work, {"input_ids": prompt, "attention_mask": mask.long(), **static})


def _ready(model: Any, request: protocol.Request) -> Any:
    dtype = torch.bfloat16 if request["precision"] == "bfloat16" else torch.float32
    return model.to(request["work"]["device"], dtype).eval()


def _generation_step(model: Any, work: protocol.Work, inputs: dict[str, Any]) -> protocol.Step:
    count = work["write"]

    def step() -> None:
        with torch.inference_mode():
            model.generate(
                **inputs, do_sample=False, min_new_tokens=count, max_new_tokens=count, max_length=None, use_cache=True
            )

    return step


if __name__ == "__main__":
    protocol.serve(make, lambda: f"transformers {transformers.__version__}, torch {torch.__version__}")
