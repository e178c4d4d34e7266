"""The settings that an export target supports, and the sentence that refuses any other value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.config import Config
from regard.errors import ConfigError
from regard.models import EncoderDecoderConfig, ModelConfig
from regard.models.stack import StackConfig
from regard.nn.feedforward import FeedForwardConfig, GatedConfig

Supported = Mapping[str, tuple[object, ...]]
"""Path of a setting below `model` → its supported values."""


class _AboveZero:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | float) and other > 0

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "a number above 0"


ABOVE_ZERO = _AboveZero()
"""Any such value is supported."""

STANDARD: Supported = {
    "attention.kind": ("full",),
    "attention.shape": ("standard",),
    "attention.value_width": (None,),
    "attention.output_projection": (True,),
    "attention.projections": (True,),
    "attention.strict": (False,),
    "residual": (True,),
    "embedding.factor": (None,),
    "head.transform": (None,),
}
"""What every target but ONNX requires."""

ABSENT = object()
RESOLVED = {"final_norm": "has_final_norm", "attention.head_width": "head_width"}
"""Settings whose value a property of the config says, also where it is left out."""


@dataclass(frozen=True)
class Unsupported:
    """A setting whose value a target does not support."""

    path: str
    value: object
    supported: tuple[object, ...]

    def __str__(self) -> str:
        supported = " or ".join(dict.fromkeys(map(_shown, self.supported)))
        return f"needs {supported}, got {_shown(self.value)}"


def _shown(value: object) -> str:
    """A value as a recipe has it; of a part, its kind and the settings that differ from their defaults."""
    if not isinstance(value, Config):
        return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    changed = value.model_dump(exclude_defaults=True, exclude_none=True)
    settings = "".join(f", {name}={setting!r}" for name, setting in changed.items() if name != "kind")
    return f"'{getattr(value, 'kind', '…')}'{settings}"


def unsupported_settings(config: ModelConfig, supported: Supported) -> list[Unsupported]:
    """The settings with an unsupported value; one that the model's kinds do not have passes."""
    values = {path: setting(config, path) for path in supported}
    return [
        Unsupported(f"model.{path}", value, supported[path])
        for path, value in values.items()
        if value is not ABSENT and value not in supported[path]
    ]


def unsupported_error(target: str, unsupported: Sequence[Unsupported], hint: str) -> ConfigError:
    first, *others = unsupported
    also = "".join(f"; {other.path} {other}" for other in others)
    return ConfigError(first.path, f"{target} {first}{also}; {hint}")


def setting(config: ModelConfig, path: str) -> object:
    """The value of a setting; where it is left out, the value it stands for."""
    value: object = config
    for name in RESOLVED.get(path, path).split("."):
        value = getattr(value, name, ABSENT)
    if path == "attention.kv_heads":
        return value or setting(config, "heads")
    if path == "attention.value_width" and value == setting(config, "attention.head_width"):
        return None
    if path == "feedforward.hidden" and isinstance(config, StackConfig):
        return feedforward_of(config).hidden_of(config.width)
    return value


def feedforward_of(config: StackConfig) -> FeedForwardConfig | GatedConfig:
    """The feed-forward network, of a kind that layouts have."""
    assert isinstance(config.feedforward, FeedForwardConfig | GatedConfig)
    return config.feedforward


def standard_heads(config: StackConfig) -> Supported:
    """Heads that share the width evenly, each with keys and values of its own."""
    return {"attention.head_width": (config.width // config.heads,), "attention.kv_heads": (config.heads,)}


def same_in_decoder(config: EncoderDecoderConfig) -> Supported:
    """A decoder with the encoder's kinds of attention and position."""
    return {"decoder_attention": (None, config.attention), "decoder_position": (None, config.position)}
