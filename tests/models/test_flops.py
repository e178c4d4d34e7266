"""`num_params()` and `flops()` of the configs against the built models, counted by torch."""

import pytest
import torch
from test_combinations import HEADS, POSITIONS, refused, settings, with_trees
from torch.utils.flop_counter import FlopCounterMode

from regard.models import PRESETS, DecoderConfig, EncoderConfig, EncoderDecoderConfig, VisionConfig
from regard.nn.attention.reference import record_attention
from regard.nn.layout import Sequences
from regard.run.recipe import resolve_recipe

VOCAB = 50


def counted(model, *inputs) -> int:
    """FLOPs of one forward pass by the reference, as torch counts them."""
    grouped = {torch.ops.aten._grouped_mm: grouped_flops}  # torch counts all other products itself
    with record_attention(model), FlopCounterMode(display=False, custom_mapping=grouped) as counter:
        model(*inputs)
    return counter.get_total_flops()


def grouped_flops(rows: tuple[int, int], matrices: tuple[int, int, int], *_, **__) -> int:
    return 2 * rows[0] * matrices[1] * matrices[2]


def tokens(batch: int, time: int) -> Sequences:
    return Sequences.full(torch.ones(batch, time, dtype=torch.long))


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_the_published_number_of_parameters(name: str):
    published = {
        "transformer-base": 63_082_496,
        "transformer-big": 214_245_376,
        "gpt2-124m": 124_439_808,
        "bert-base": 109_514_298,
        "t5-small": 60_506_624,
        "llama-small": 124_668_672,
        "vit-tiny": 5_717_416,
    }
    known = PRESETS[name]
    config = resolve_recipe({"model": {"preset": name}}).model
    with torch.device("meta"):
        model = config.build(**known.sizes)
    built = sum(weight.numel() for weight in model.parameters())
    assert built == config.num_params(**known.sizes) == published[name]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_flops(name: str):
    known = PRESETS[name]
    config = resolve_recipe({"model": {"preset": name}}).model
    with torch.device("meta"):
        model = config.build(**known.sizes).eval()
        work = known.work
        if config.kind == "vision":
            inputs = [torch.zeros(work["batch"], 3, 224, 224)]
        elif config.kind == "encoder-decoder":
            inputs = [tokens(work["batch"], work["source"]), tokens(work["batch"], work["target"])]
        else:
            inputs = [tokens(work["batch"], work["time"])]
        assert counted(model, *inputs) == pytest.approx(config.flops(**work), rel=0.02)


def skipped(config, batch: int, time: int, causal: bool = False) -> int:
    """FLOPs of the reference, which computes every pair, that a kind for long sequences does not count."""
    attention, keys = config.attention, time
    if attention.kind == "memory-compressed":
        keys = time // attention.stride + time if causal else -(-time // attention.stride)
    pairs = config.heads * time * keys - attention.pairs(config.heads, time)
    return 4 * batch * config.depth * pairs * config.head_width


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("position", POSITIONS)
def test_flops_of_each_combination(position: str, heads: str):
    if refused(position, heads):
        return
    chosen = settings(position, heads, "before")
    if heads != "strict":
        config = EncoderConfig(**chosen)
        expected = config.flops(batch=2, time=20, vocab=VOCAB) + skipped(config, 2, 20)
        assert counted(config.build(VOCAB), with_trees(tokens(2, 20))) == pytest.approx(expected, rel=0.02)
    if position != "tree":
        config = EncoderDecoderConfig(**chosen)
        expected = config.flops(batch=2, source=12, target=20, vocab=VOCAB)
        expected += skipped(config, 2, 12) + skipped(config, 2, 20, causal=True)
        assert counted(config.build(VOCAB), tokens(2, 12), tokens(2, 20)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    "changes",
    [
        {"feedforward": "none"},
        {"feedforward": {"kind": "gated", "hidden": 24}},
        {"feedforward": {"kind": "experts", "experts": 4, "chosen": 2, "hidden": 24}},
        {"embedding": {"factor": 8}},
        {"embedding": {"factor": 8, "share": "none"}},
        {"embedding": {"norm": True, "segments": 2}},
        {"head": {"kind": "vocabulary", "bias": True, "transform": "gelu"}},
        {"norm": {"kind": "layer", "gain": False}},
        {"norm": {"kind": "layer", "shift": False}, "final_norm": False},
        {"norm": "rms"},
        {"depth": 4, "width": 32, "heads": 2},
        {"attention": {"kind": "full", "head_width": 10, "bias": False}},
        {"attention": {"kind": "full", "head_width": 10, "value_width": 4, "output_projection": False}},
        {"norm": {"kind": "layer", "epsilon": 0, "epsilon_inside": False, "root_deviation": True}},
    ],
    ids=str,
)
def test_parameters_and_flops_of_other_parts(changes: dict):
    config = DecoderConfig(**{**settings("sinusoidal", "standard", "before"), **changes})
    model = config.build(VOCAB)
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB)
    assert counted(model, tokens(2, 20)) == pytest.approx(config.flops(batch=2, time=20, vocab=VOCAB), rel=0.02)


@pytest.mark.parametrize("head", ["pooled", "token", {"kind": "pooled", "pooling": "max", "hidden": 12}], ids=str)
def test_classes(head: object):
    config = EncoderConfig(**settings("learned", "standard", "before"), head=head)  # type: ignore[arg-type]
    model = config.build(VOCAB, classes=5)
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB, classes=5)
    expected = config.flops(batch=2, time=20, vocab=VOCAB, classes=5)
    assert counted(model, tokens(2, 20)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("share", ["all", "output", "none"])
def test_shared_embeddings(share: str):
    config = EncoderDecoderConfig(**settings("sinusoidal", "standard", "after"), embedding={"share": share})  # type: ignore[arg-type]
    model = config.build(VOCAB, VOCAB)
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(VOCAB, VOCAB)
    distinct = {"all": 1, "output": 2, "none": 3}[share]
    tables = [weight for weight in model.parameters() if weight.shape == (VOCAB, 16)]
    assert len(tables) == distinct


@pytest.mark.parametrize("class_token", [True, False])
def test_vision(class_token: bool):
    config = VisionConfig(width=16, depth=2, heads=2, image=12, patch=4, channels=1, class_token=class_token)
    model = config.build(classes=3)
    assert sum(weight.numel() for weight in model.parameters()) == config.num_params(classes=3)
    assert counted(model, torch.randn(2, 1, 12, 12)) == pytest.approx(config.flops(batch=2, classes=3), rel=0.02)
