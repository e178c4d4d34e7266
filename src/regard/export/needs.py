"""What a target can express: for each setting the values it knows, and the sentence that refuses any other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.config import Config
from regard.errors import ConfigError

Needs = Mapping[str, tuple[Any, ...]]
"""Path of a setting below `model` → the values that a target can express."""

WHOLE: Needs = {
    "attention.kind": ("full",),
    "attention.shape": ("standard",),
    "attention.maps": (True,),
    "attention.strict": (False,),
    "residual": (True,),
    "embedding.factor": (None,),
    "head.transform": (None,),
}
"""What no target but ONNX can do without."""

ABSENT = object()


@dataclass(frozen=True)
class Misfit:
    """A setting with a value that a target cannot express."""

    path: str
    got: Any
    wanted: tuple[Any, ...]

    def __str__(self) -> str:
        wanted = " or ".join(dict.fromkeys(map(_shown, self.wanted)))
        return f"needs {wanted}, got {_shown(self.got)}"


def _shown(value: Any) -> str:  # noqa: ANN401
    """A value as a recipe has it; of a part, what it is and the settings that are not its defaults."""
    if not isinstance(value, Config):
        return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    changed = value.model_dump(exclude_defaults=True, exclude_none=True)
    settings = "".join(f", {name}={setting!r}" for name, setting in changed.items() if name != "kind")
    return f"'{getattr(value, 'kind', '…')}'{settings}"


def misfits(config: Any, needs: Needs) -> list[Misfit]:  # noqa: ANN401
    """The settings that do not fit; one that the model's kinds do not have at all fits."""
    found = [(path, setting(config, path), wanted) for path, wanted in needs.items()]
    return [
        Misfit(f"model.{path}", got, wanted) for path, got, wanted in found if got is not ABSENT and got not in wanted
    ]


def refusal(target: str, found: Sequence[Misfit], hint: str) -> ConfigError:
    """The error for a model that a target cannot express."""
    first, *others = found
    also = "".join(f"; {misfit.path} {misfit}" for misfit in others)
    return ConfigError(first.path, f"{target} {first}{also}; {hint}")


def setting(config: Any, path: str) -> Any:  # noqa: ANN401
    """The value of a setting, with what it means when it is left out."""
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


def even_heads(config: Any) -> Needs:  # noqa: ANN401
    """Heads that share the width evenly, each with keys and values of its own."""
    return {"attention.head_width": (config.width // config.heads,), "attention.kv_heads": (config.heads,)}


def one_attention(config: Any) -> Needs:  # noqa: ANN401
    """A decoder with the encoder's kinds of attention and position."""
    return {
        "decoder_attention": (None, config.attention),
        "decoder_position": (None, config.position),
    }
