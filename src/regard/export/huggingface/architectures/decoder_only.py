"""What GPT-2, GPT-NeoX and Llama share: supported settings, tied embeddings, the causal mask, rotary positions."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.export.huggingface.architecture import UNTIED, Ignored
from regard.export.huggingface.config_keys import NO_DEFAULT, honoured
from regard.export.supported_settings import STANDARD, Supported
from regard.text.special_tokens import BOS, EOS, PAD

SPECIAL = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
LAYER_NORM: Supported = {"norm.kind": ("layer",), "norm.epsilon_inside": (True,)}
ADDED_POSITIONS: Supported = {"position.combine": ("add",), "position.layers": ("first",)}
DECODER: Supported = {
    **STANDARD,
    "norm_place": ("before",),
    "final_norm": (True,),
    "attention.scaled": (True,),
    "embedding.norm": (False,),
    "embedding.segments": (0,),
    "head.kind": ("vocabulary",),
    "head.bias": (False,),
    "head.scale": (False,),
}
ROPE_THETA = 1e4
"""The library's base period where a file has none."""
ROPE_KEYS = honoured(rope_parameters=None, rope_scaling=NO_DEFAULT)


def embedding_settings(hf: Mapping[str, Any]) -> dict[str, Any]:
    tied = hf["tie_word_embeddings"] and not hf[UNTIED]
    return {"share": "all" if tied else "none", "scale": False}


def tied_head(embedding: str, settings: Mapping[str, Any]) -> dict[str, str]:
    return {"lm_head.weight": embedding} if settings["tie_word_embeddings"] else {}


def causal_masks(attention: str) -> tuple[Ignored, ...]:
    """The causal masks that older files keep beside each attention."""
    reason = "the mask of later tokens"
    return (
        Ignored(rf"(^|\.){attention}\.bias$", reason, lambda mask, settings: _is_causal(mask)),
        Ignored(rf"(^|\.){attention}\.masked_bias$", reason),
    )


def _is_causal(mask: Tensor) -> bool:
    square = mask.reshape(mask.shape[-2:]).bool()
    return bool((square == torch.ones_like(square).tril()).all())


def rope(hf: Mapping[str, Any], theta: float, share: float) -> tuple[float, float]:
    """Base period and rotated part of each head; refused where positions are scaled."""
    tree = hf.get("rope_scaling") or hf["rope_parameters"] or {}
    if not isinstance(tree, dict):
        raise ConfigError("rope_parameters", f"expected a table, got {tree!r}")
    kind = tree.get("rope_type", tree.get("type", "default"))
    if kind != "default":
        raise ConfigError("rope_parameters.rope_type", f"expected 'default', got {kind!r}")
    if unknown := [key for key in tree if key not in ("rope_type", "type", "rope_theta", "partial_rotary_factor")]:
        raise ConfigError(f"rope_parameters.{unknown[0]}", f"no setting of a rotation of the kind '{kind}'")
    values = {"rope_theta": tree.get("rope_theta", theta)}
    values["partial_rotary_factor"] = tree.get("partial_rotary_factor", share)
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ConfigError(f"rope_parameters.{key}", f"expected a number above 0, got {value!r}")
    return values["rope_theta"], values["partial_rotary_factor"]


def is_inverse_frequencies(tensor: Tensor, theta: float) -> bool:
    """Whether these are the frequencies of a base period, within the precision of 16 bits."""
    expected = theta ** -torch.linspace(0, 1, len(tensor) + 1)[:-1]
    return bool(torch.allclose(tensor.float(), expected, rtol=0.02, atol=1e-7))
