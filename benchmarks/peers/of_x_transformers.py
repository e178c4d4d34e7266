"""x-transformers."""

import importlib
from importlib.metadata import version
from typing import Any

import protocol
import torch
import torch.nn.functional as F

library: Any = importlib.import_module("x_transformers")


def pairs(work: protocol.Work) -> Any:
    """An encoder-decoder of the workload's size with tied embeddings."""
    settings: dict[str, Any] = {}
    for side in ("enc", "dec"):
        settings |= {
            f"{side}_num_tokens": work["vocabulary"], f"{side}_depth": work["depth"], f"{side}_heads": work["heads"],
            f"{side}_max_seq_len": 512, f"{side}_attn_flash": True, f"{side}_emb_dropout": work["dropout"],
            f"{side}_ff_dropout": work["dropout"], f"{side}_attn_dim_head": work["width"] // work["heads"],
            f"{side}_ff_mult": 4,
        }  # fmt: skip
    model = library.XTransformer(dim=work["width"], tie_token_emb=True, pad_value=protocol.PAD, **settings)
    model.decoder.net.to_logits.weight = model.decoder.net.token_emb.emb.weight
    return model


def text(work: protocol.Work) -> Any:
    """A decoder of the workload's size."""
    layers = library.Decoder(
        dim=work["width"], depth=work["depth"], heads=work["heads"], attn_dim_head=work["width"] // work["heads"],
        attn_flash=True, attn_dropout=work["dropout"], ff_dropout=work["dropout"],
    )  # fmt: skip
    return library.TransformerWrapper(
        num_tokens=work["vocabulary"], max_seq_len=work["longest"] + work["write"], tie_embedding=True,
        attn_layers=layers,
    )  # fmt: skip


def make(request: protocol.Request) -> protocol.Step:
    """The timed step: a training step, or generation for a batch."""
    torch.manual_seed(0)
    torch.set_num_threads(request["threads"])
    work = request["work"]
    if work["kind"] == "train-pair":
        batch, model = protocol.PairBatch(request), pairs(work)
        written = torch.cat([batch.read[:, :1], batch.labels], 1)  # its wrapper shifts by itself
        return protocol.training_step(
            request, model, lambda forward: forward(batch.source, written, mask=batch.source_mask)
        )
    if work["kind"] == "train-text":
        inputs, targets = protocol.text_batch(request)
        return protocol.training_step(
            request,
            text(work),
            lambda forward: F.cross_entropy(forward(inputs).flatten(0, 1).float(), targets.flatten()),
        )
    if work["kind"] == "translate" and work["beam"] == 1:
        return translate(request)
    raise ValueError(f"does not do {work['kind']} with a beam of {work['beam']}")


def translate(request: protocol.Request) -> protocol.Step:
    """Greedy search with cached keys and values."""
    work, model = request["work"], pairs(request["work"]).eval()
    source, mask = protocol.grid(protocol.rows(work, request["lengths"]), work["device"])
    start = torch.full((len(source), 1), protocol.BEGIN)

    def step() -> None:
        with torch.inference_mode():
            model.generate(source, start, work["write"], mask=mask, temperature=0.0, cache_kv=True)

    return step


if __name__ == "__main__":
    protocol.serve(make, lambda: f"x-transformers {version('x-transformers')}, torch {torch.__version__}")
