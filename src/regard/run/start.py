"""Where a model's weights begin when they do not begin at random: with those of a trained run.

Names and sizes decide what is taken over. What does not fit stays as it was drawn, and both are said.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import Config
from regard.data.tokenizer import Tokenizer
from regard.errors import ConfigError

LAYER = re.compile(r"\.(\d+)\.")


class StartConfig(Config):
    """Begins with the weights and the vocabulary of a trained run."""

    run: str
    """Folder of the run; `model.from` in a recipe takes over the run's model and tokenizer settings as well."""
    which: str = "best"
    """Its checkpoint: best, last, or step-N."""
    freeze: tuple[str, ...] = ()
    """Parameters that do not learn, by name with * for any text, such as "embedding.*" or "stack.blocks.0.*"."""
    layer_rate: float = Field(1.0, gt=0, le=1)
    """Each layer below the last learns at this share of the rate of the one above it; embeddings as the lowest."""

    def load(self, model: nn.Module, trained: nn.Module) -> str:
        """Puts a trained model's weights into another; says what was taken over and what was not."""
        taken = take_over(model, dict(trained.named_parameters()))
        if not taken.loaded:
            raise ConfigError(
                "start.run",
                f"{self.run}: none of its weights has the name and size of one of this model's; is its model.kind or "
                "model.width another? With model.from in place of model the settings are the run's",
            )
        return taken.sentence(self.run)

    def hold(self, model: nn.Module) -> list[str]:
        """Freezes what is to be frozen, and says so."""
        names = [name for name, _ in model.named_parameters()]
        for pattern in self.freeze:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ConfigError("start.freeze", f"'{pattern}' fits no parameter; names are such as {names[0]}")
        frozen = [weight for name, weight in model.named_parameters() if self.is_frozen(name)]
        for weight in frozen:
            weight.requires_grad_(False)
        return [f"frozen: {sum(weight.numel() for weight in frozen):,} parameters"] if frozen else []

    def is_frozen(self, name: str) -> bool:
        """Whether a parameter does not learn."""
        return any(fnmatchcase(name, pattern) for pattern in self.freeze)

    def rates(self, model: nn.Module) -> Callable[[str], float]:
        """The share of the learning rate of each parameter, by its name."""
        layers = [_layer(name) for name, _ in model.named_parameters()]
        last = max((layer for layer in layers if layer is not None), default=0)

        def rate(name: str) -> float:
            layer = _layer(name)
            if layer is None:
                layer = -1 if "embedding" in name else last + 1
            return self.layer_rate ** (last + 1 - layer)

        return rate

    def tokenizers(self, known: Mapping[str, Tokenizer], texts: Sequence[str]) -> dict[str, Tokenizer]:
        """The run's vocabularies for the texts of a task."""
        if all(text in known for text in texts):
            return {text: known[text] for text in texts}
        if len({tokenizer.identity for tokenizer in known.values()}) == 1:
            return dict.fromkeys(texts, next(iter(known.values())))
        raise ConfigError(
            "start.run", f"{self.run} has vocabularies for {', '.join(known)}, this task needs {', '.join(texts)}"
        )


@dataclass(frozen=True)
class Taken:
    """What a model took over from another."""

    loaded: list[str]
    missing: list[str]
    """Parameters of the model that the other has not, or in another size."""
    unused: list[str]
    """What only the other has."""

    def sentence(self, run: str) -> str:
        """For people."""
        parts = [f"started from {run}: {len(self.loaded)} weights taken over"]
        for names, what in ((self.missing, "new"), (self.unused, "unused")):
            if names:
                shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
                parts.append(f"{what}: {shown}")
        return "; ".join(parts)


@torch.no_grad()
def take_over(model: nn.Module, weights: Mapping[str, Tensor]) -> Taken:
    """Copies the weights whose names and sizes a model shares."""
    own = dict(model.named_parameters())
    loaded = [name for name, weight in own.items() if name in weights and weights[name].shape == weight.shape]
    for name in loaded:
        own[name].copy_(weights[name])
    missing = [name for name in own if name not in loaded]
    return Taken(loaded, missing, [name for name in weights if name not in loaded])


def _layer(name: str) -> int | None:
    found = LAYER.search(name)
    return int(found.group(1)) if found else None
