"""The settings that an export target supports, and the sentence that refuses any other value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.config import Config
from regard.errors import ConfigError

Supported = Mapping[str, tuple[Any, ...]]
"""Path of a setting below `model` → its supported values."""

STANDARD: Supported = {
    "attention.kind": ("full",),
    "attention.shape": ("standard",),
    "attention.projections": (True,),
    "attention.strict": (False,),
    "residual": (True,),
    "embedding.factor": (None,),
    "head.transform": (None,),
}
"""What every target but ONNX requires."""

ABSENT = object()


@dataclass(frozen=True)
class Unsupported:
    """A setting whose value a target does not support."""

    path: str
    value: Any
    supported: tuple[Any, ...]

    def __str__(self) -> str:
        supported = " or ".join(dict.fromkeys(map(_shown, self.supported)))
        return f"needs {supported}, got {_shown(self.value)}"


def _shown(value: Any) -> str:  # noqa: ANN401
    """A value as a recipe has it; of a part, its kind and the settings that differ from their defaults."""
    if not isinstance(value, Config):
        return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    changed = value.model_dump(exclude_defaults=True, exclude_none=True)
    settings = "".join(f", {name}={setting!r}" for name, setting in changed.items() if name != "kind")
    return f"'{getattr(value, 'kind', '…')}'{settings}"


def unsupported_settings(config: Any, supported: Supported) -> list[Unsupported]:  # noqa: ANN401
    """The settings with an unsupported value; one that the model's kinds do not have passes."""
    values = {path: _value(config, path) for path in supported}
    return [
        Unsupported(f"model.{path}", value, supported[path])
        for path, value in values.items()
        if value is not ABSENT and value not in supported[path]
    ]


def unsupported_error(target: str, unsupported: Sequence[Unsupported], hint: str) -> ConfigError:
    first, *others = unsupported
    also = "".join(f"; {other.path} {other}" for other in others)
    return ConfigError(first.path, f"{target} {first}{also}; {hint}")


def _value(config: Any, path: str) -> Any:  # noqa: ANN401
    """The value of a setting; where it is left out, the value it stands for."""
    if path == "final_norm":
        return config.has_final_norm
    if path == "attention.head_width":
        return config.head_width
    if path == "attention.kv_heads":
        return config.attention.kv_heads or config.heads
    for name in path.split("."):
        config = getattr(config, name, ABSENT)
        if config is ABSENT:
            return ABSENT
    return config


def standard_heads(config: Any) -> Supported:  # noqa: ANN401
    """Heads that share the width evenly, each with keys and values of its own."""
    return {"attention.head_width": (config.width // config.heads,), "attention.kv_heads": (config.heads,)}


def same_in_decoder(config: Any) -> Supported:  # noqa: ANN401
    """A decoder with the encoder's kinds of attention and position."""
    return {"decoder_attention": (None, config.attention), "decoder_position": (None, config.position)}
