"""JoeyNMT."""

import importlib
import logging
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import protocol
import torch

logging.disable(logging.WARNING)
UNK, PAD, EOS = 0, 1, 3
"""Its own ids, in the order in which its vocabularies have them."""


def pairs(work: protocol.Work) -> Any:
    """An encoder-decoder of the workload's size, all tables tied."""
    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=UNK, pad_id=PAD, bos_id=protocol.BEGIN, eos_id=EOS, sep_id=None,
    )  # fmt: skip
    words = [f"w{number}" for number in range(work["vocabulary"] - 4)]
    vocabulary = importlib.import_module("joeynmt.vocabulary").Vocabulary(words, special)
    side = {
        "type": "transformer", "num_layers": work["depth"], "num_heads": work["heads"], "hidden_size": work["width"],
        "ff_size": work["feedforward"], "dropout": work["dropout"], "layer_norm": "pre",
        "embeddings": {"embedding_dim": work["width"], "scale": True, "dropout": work["dropout"]},
    }  # fmt: skip
    settings = {
        "encoder": dict(side), "decoder": dict(side), "tied_embeddings": True, "tied_softmax": True,
        "initializer": "xavier_uniform", "embed_initializer": "normal", "embed_init_weight": 0.06,
    }  # fmt: skip
    model = importlib.import_module("joeynmt.model").build_model(settings, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.0)
    return model


def make(request: protocol.Request) -> protocol.Step:
    """The timed step: a training step, or generation for a batch."""
    torch.manual_seed(0)
    torch.set_num_threads(request["threads"])
    kind = request["work"]["kind"]
    if kind == "translate":
        return translate(request)
    if kind != "train-pair":
        raise ValueError(f"does not do {kind}")
    batch, model = protocol.PairBatch(request), pairs(request["work"])
    inputs = {
        "return_type": "loss", "src": batch.source.masked_fill(~batch.source_mask, PAD),
        "trg_input": batch.read.masked_fill(~batch.target_mask, PAD),
        "trg": batch.target.masked_fill(~batch.target_mask, PAD),
        "src_mask": batch.source_mask[:, None], "src_length": batch.source_mask.sum(1),
        "trg_mask": batch.target_mask[:, None],
    }  # fmt: skip
    count = int(batch.target_mask.sum())
    return protocol.training_step(request, model, lambda forward: forward(**inputs)[0] / count)


def translate(request: protocol.Request) -> protocol.Step:
    """Its greedy or beam search, which has no KV cache."""
    work, model = request["work"], pairs(request["work"]).eval()
    search = importlib.import_module("joeynmt.search")
    source, padding_mask = protocol.grid(protocol.rows(work, request["lengths"]), work["device"])
    source, mask, count = source.masked_fill(~padding_mask, PAD), padding_mask[:, None], work["write"]

    lengths = padding_mask.sum(1)

    def step() -> None:
        with torch.inference_mode():
            encoded, hidden, _, _ = model(return_type="encode", src=source, src_length=lengths, src_mask=mask)
            arguments = {
                "src_mask": mask, "max_output_length": count, "min_output_length": count, "model": model,
                "encoder_output": encoded, "encoder_hidden": hidden,
            }  # fmt: skip
            if work["beam"] == 1:
                search.greedy(**arguments)
            else:
                search.beam_search(beam_size=work["beam"], alpha=1.0, **arguments)

    return step


if __name__ == "__main__":
    protocol.serve(make, lambda: f"joeynmt {version('joeynmt')}, torch {torch.__version__}")
