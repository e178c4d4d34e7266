"""Tiny folders that transformers writes, with random settings: sizes, activations, biases, ties, dtypes, shards."""

import json
from pathlib import Path
from random import Random
from typing import Any

import torch
import transformers
from tiny import ENGLISH, pair, tokenizer
from torch import nn

from regard.export.huggingface.import_model import Imported
from regard.export.huggingface.tokenizer_files import write_tokenizer
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, EOS

TOKENS = tokenizer(ENGLISH)
ACTIVATIONS = ("relu", "gelu", "gelu_new", "silu", "swish", "tanh", "gelu_pytorch_tanh", "linear")
ARCHITECTURES = (
    "BertForMaskedLM",
    "BertForSequenceClassification",
    "GPT2LMHeadModel",
    "GPTNeoXForCausalLM",
    "LlamaForCausalLM",
    "MarianMTModel",
    "PegasusForConditionalGeneration",
    "T5ForConditionalGeneration",
    "ViTForImageClassification",
)
KEPT = ("architectures", "model_type", "decoder_start_token_id", "dtype", "use_parallel_residual")
"""Keys that stay in every config.json, since the library has no default of them or one that is refused."""


def some(draw: Random, **choices: Any) -> dict[str, Any]:
    """About half of the settings, each with one of its values; the library's default holds for the others."""
    return {name: draw.choice(values) for name, values in choices.items() if draw.random() < 0.5}


def stack(draw: Random) -> dict[str, Any]:
    heads = draw.choice([1, 2, 4])
    sizes = {"hidden_size": heads * draw.choice([4, 8]), "num_hidden_layers": draw.choice([1, 2, 3])}
    return {**sizes, "num_attention_heads": heads, "intermediate_size": draw.choice([12, 20, 48])}


def bert(draw: Random) -> dict[str, Any]:
    more = some(draw, hidden_act=ACTIVATIONS, type_vocab_size=(1, 3), layer_norm_eps=(1e-5, 1e-3),
                classifier_dropout=(0.3,), hidden_dropout_prob=(0.0,))  # fmt: skip
    return {**stack(draw), "max_position_embeddings": draw.choice([16, 33]), "vocab_size": TOKENS.vocab_size, **more}


def gpt2(draw: Random) -> dict[str, Any]:
    heads = draw.choice([1, 2, 4])
    more = some(draw, n_inner=(12, 40), activation_function=ACTIVATIONS, layer_norm_epsilon=(1e-12, 1e-3),
                tie_word_embeddings=(False,), reorder_and_upcast_attn=(True,))  # fmt: skip
    sizes = {"n_embd": heads * draw.choice([4, 8]), "n_head": heads, "n_layer": draw.choice([1, 2, 3])}
    return {**sizes, "n_positions": draw.choice([16, 33]), "vocab_size": TOKENS.vocab_size, **more}


def neox(draw: Random) -> dict[str, Any]:
    more = some(draw, hidden_act=ACTIVATIONS, layer_norm_eps=(1e-12, 1e-3), tie_word_embeddings=(True,))
    sizes = stack(draw)
    width = sizes["hidden_size"] // sizes["num_attention_heads"]
    share = draw.choice([0.5, 1.0] if width == 4 else [None, 0.3, 0.5, 0.75, 1.0])
    rope = {} if share is None else {"partial_rotary_factor": share}
    rope |= some(draw, rope_theta=(500.0, 1e6))
    rope |= {"rope_type": "default"} if rope else {}
    sizes |= {"rope_parameters": rope} if rope else {}
    return {**sizes, "use_parallel_residual": False, "vocab_size": TOKENS.vocab_size, **more}


def llama(draw: Random) -> dict[str, Any]:
    sizes = stack(draw)
    more = some(draw, hidden_act=ACTIVATIONS, rms_norm_eps=(1e-5, 1e-3), tie_word_embeddings=(True,),
                attention_bias=(True,), mlp_bias=(True,), head_dim=(2, 4, 6),
                rope_parameters=({"rope_type": "default", "rope_theta": 300.0},))  # fmt: skip
    kv = [heads for heads in (1, 2, 4) if sizes["num_attention_heads"] % heads == 0]
    return {**sizes, "vocab_size": TOKENS.vocab_size, **more, **some(draw, num_key_value_heads=kv)}


def bart(draw: Random) -> dict[str, Any]:
    heads, hidden = draw.choice([1, 2, 4]), draw.choice([12, 40])
    sizes = {
        "d_model": heads * draw.choice([4, 8]),
        "encoder_layers": draw.choice([1, 2]),
        "decoder_layers": draw.choice([1, 3]),
    }
    both = {f"{side}_attention_heads": heads for side in ("encoder", "decoder")}
    both |= {f"{side}_ffn_dim": hidden for side in ("encoder", "decoder")}
    more = some(draw, activation_function=ACTIVATIONS, scale_embedding=(True,))
    special = {"pad_token_id": 0, "eos_token_id": EOS, "decoder_start_token_id": BOS, "forced_eos_token_id": EOS}
    positions = {"max_position_embeddings": draw.choice([16, 33])}
    return {**sizes, **both, **positions, "vocab_size": TOKENS.vocab_size, **special, **more}


def marian(draw: Random) -> dict[str, Any]:
    return {**bart(draw), **some(draw, share_encoder_decoder_embeddings=(False,))}


def t5(draw: Random) -> dict[str, Any]:
    heads = draw.choice([1, 2, 4])
    gates = ("gated-gelu", "gated-silu", "gated-relu", "gelu", "relu", "gelu_new")
    more = some(draw, feed_forward_proj=gates, layer_norm_epsilon=(1e-3,), relative_attention_num_buckets=(8, 16),
                relative_attention_max_distance=(20, 64), num_decoder_layers=(1, 3),
                tie_word_embeddings=(False,))  # fmt: skip
    sizes = {"d_model": draw.choice([8, 20]), "d_kv": draw.choice([2, 6]), "d_ff": draw.choice([12, 40])}
    special = {"pad_token_id": 0, "eos_token_id": EOS, "decoder_start_token_id": BOS}
    return {
        **sizes,
        "num_heads": heads,
        "num_layers": draw.choice([1, 2]),
        "vocab_size": TOKENS.vocab_size,
        **special,
        **more,
    }


def vit(draw: Random) -> dict[str, Any]:
    more = some(draw, hidden_act=ACTIVATIONS, layer_norm_eps=(1e-5, 1e-3), num_channels=(1,))
    labels = {} if draw.random() < 0.3 else {"num_labels": draw.choice([2, 5])}
    return {**stack(draw), "image_size": draw.choice([8, 12]), "patch_size": draw.choice([2, 4]), **labels, **more}


SETTINGS = dict(zip(ARCHITECTURES, (bert, bert, gpt2, neox, llama, marian, bart, t5, vit), strict=True))


def write_random(architecture: str, seed: int, folder: Path) -> dict[str, Any]:
    """A folder with random settings and weights, some keys of config.json left out; the settings, for messages."""
    draw = Random(f"{architecture} {seed}")
    settings = SETTINGS[architecture](draw)
    if architecture == "BertForMaskedLM":
        settings |= some(draw, tie_word_embeddings=(False,))
    if architecture == "BertForSequenceClassification":
        settings |= some(draw, num_labels=(3, 4), problem_type=("single_label_classification",))
    made = getattr(transformers, architecture)
    model = made(made.config_class(**settings))
    randomise(model, seed)
    dtype = draw.choice([torch.float32, torch.float32, torch.float16, torch.bfloat16])
    model.to(dtype).save_pretrained(folder, max_shard_size=draw.choice(["1GB", "1GB", "8KB"]))
    file = folder / "config.json"
    tree = json.loads(file.read_text())
    usual = made.config_class()
    left_out = [key for key, value in tree.items() if key not in KEPT and getattr(usual, key, None) == value]
    left_out = [key for key in left_out if draw.random() < 0.6]
    file.write_text(json.dumps({key: value for key, value in tree.items() if key not in left_out}))
    if draw.random() < 0.3 and (folder / "generation_config.json").is_file():
        (folder / "generation_config.json").unlink()
    if not architecture.startswith("ViT"):
        write_tokenizer(TOKENS, pair(), folder)
    if not settings.get("share_encoder_decoder_embeddings", True):
        (folder / "target").mkdir()
        write_tokenizer(TOKENS, pair(), folder / "target")
    return {**settings, "left out": left_out, "dtype": str(dtype)}


@torch.no_grad()
def randomise(model: nn.Module, seed: int) -> None:
    """Random values everywhere, so that no gain of one and no bias of zero hides a mistake."""
    noise = torch.Generator().manual_seed(seed)
    for name, weight in [*model.named_parameters(), *model.named_buffers()]:
        if "embed_positions" in name or not weight.is_floating_point() or "inv_freq" in name:
            continue
        change = 0.15 * torch.randn(weight.shape, generator=noise)
        weight.copy_(change if weight.dim() > 1 else weight + change)


def built(imported: Imported) -> nn.Module:
    sizes = [tokenizer.vocab_size for tokenizer in imported.tokenizers]
    model = imported.config.build(*sizes, *([len(imported.labels)] if imported.labels else []))
    model.load_state_dict(imported.weights, strict=False)
    assert {name for name, _ in model.named_parameters()} == imported.weights.keys()
    return model.eval()


@torch.no_grad()
def difference(imported: Imported, folder: Path) -> float:
    """The largest difference of a logit from what transformers computes with the folder in float32."""
    theirs = getattr(transformers, imported.architecture.class_name).from_pretrained(folder, dtype=torch.float32).eval()
    ours = built(imported)
    if not imported.tokenizers:
        size = imported.config.image
        images = torch.randn(2, imported.config.channels, size, size, generator=torch.Generator().manual_seed(5))
        return float((ours(images) - theirs(pixel_values=images).logits).abs().max())
    grid = Sequences.padded([[7, 8, 9, 10, 11, 12, 13, 250, 14, EOS], [12, 40, EOS]])
    given = {"input_ids": grid.tokens, "attention_mask": grid.layout.valid.long()}
    if imported.task == "translation":
        target = Sequences.padded([[BOS, 20, 21, 22, 23, 24], [BOS, 30, 31, 32, 33, 34]])
        return float((ours(grid, target) - theirs(**given, decoder_input_ids=target.tokens).logits).abs().max())
    rows = slice(None) if imported.labels else grid.layout.valid
    return float((ours(grid)[rows] - theirs(**given).logits[rows]).abs().max())
