"""Initial weights from a trained run, and which of them are frozen or trained at a lower rate.

Names and shapes decide what is taken over; of an output layer over labels, each row goes to its label's index here.
What does not fit keeps its random initialisation, and both are reported. What would fit by accident only (another
number of heads, a vocabulary of other tokens) or cannot be meant (another width) is refused.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from pydantic import Field, NonNegativeInt
from torch import Tensor, nn

from regard.config import Config, FileName
from regard.errors import ConfigError
from regard.nn.head import PooledHead
from regard.tasks import Vocabularies
from regard.text.tokenizer import Tokenizer, TokenizerConfig, load_tokenizers

LAYER = re.compile(r"\.(\d+)\.")
SHOWN = 4
"""Names of a kind that a report spells out."""


class StartConfig(Config):
    """Begins with the weights and the vocabulary of a trained run."""

    run: FileName
    """Folder of the run; `model.from` in a recipe takes over the run's model and tokenizer settings as well."""
    which: str = "best"
    """Its checkpoint: best, last, or step-N."""
    freeze: tuple[str, ...] = ()
    """Parts that are not trained: names such as "embedding" or "stack.blocks.0", with * for any text."""
    freeze_layers: NonNegativeInt = 0
    """So many of the lowest layers are not trained, nor the embeddings below them."""
    layer_rate: float = Field(1.0, gt=0, le=1)
    """Learning rate of each layer as a share of that of the layer above it; embeddings as the lowest layer."""

    def load(
        self,
        model: nn.Module,
        trained: nn.Module,
        vocabularies: Vocabularies | None = None,
        known_vocabularies: Vocabularies | None = None,
    ) -> str:
        """Puts a trained model's weights into another; says what was taken over and what was not.

        With the vocabularies and labels of both, tokens and labels are told apart by name and not by number alone.
        """
        weights: dict[str, Tensor] = dict(trained.named_parameters())
        parameters = dict(model.named_parameters())
        if parameters.keys() & weights.keys():
            self._require_fit(model.config, trained.config)
            self._require_vocabulary(parameters, weights)
        matched = ""
        if vocabularies is not None and known_vocabularies is not None:
            self._require_tokens(vocabularies, known_vocabularies)
            weights, matched = self._by_label(model, weights, vocabularies.labels, known_vocabularies.labels)
        transfer = transfer_weights(model, weights)
        if not transfer.loaded:
            raise ConfigError(
                "start.run",
                f"{self.run}: none of its weights has the name and size of one of this model's; is its model.kind or "
                "model.width another? With model.from in place of model the settings are the run's",
            )
        frozen = [name for name in transfer.missing if self.is_frozen(name)]
        if frozen:
            raise ConfigError("start.freeze", f"{frozen[0]} is not in {self.run}, so it would stay random; train it")
        return transfer.sentence(self.run) + matched

    def _by_label(
        self, model: nn.Module, weights: dict[str, Tensor], labels: Sequence[str], old_labels: Sequence[str]
    ) -> tuple[dict[str, Tensor], str]:
        """The weights with the rows of the output layer at the labels' numbers in this task; what to say about it."""
        rows = class_parameters(model)
        if list(labels) == list(old_labels) or not rows.keys() & weights.keys():
            return weights, ""
        shared = [label for label in labels if label in old_labels]
        if not shared:
            rest = {name: weight for name, weight in weights.items() if name not in rows}
            listed = ", ".join(old_labels[:SHOWN])
            return rest, f"; none of its labels is one here ({listed}), so the output layer is new"
        new = [label for label in labels if label not in old_labels]
        frozen = [name for name in rows if self.is_frozen(name)]
        if new and frozen:
            raise ConfigError("start.freeze", f"{self.run} has no label '{new[0]}', so {frozen[0]} must be trained")
        here, there = [labels.index(label) for label in shared], [old_labels.index(label) for label in shared]
        for name, parameter in rows.items():
            if name in weights and weights[name].shape[1:] == parameter.shape[1:]:
                moved = parameter.detach().clone()
                moved[here] = weights[name].detach()[there].to(moved)
                weights = {**weights, name: moved}
        listed = f"; new labels: {', '.join(new[:SHOWN])}" if new else ""
        return weights, f"; rows of the output layer were matched by label, {len(shared)} of {len(labels)}{listed}"

    def _require_tokens(self, vocabularies: Vocabularies, known_vocabularies: Vocabularies) -> None:
        """Refuses a vocabulary of other tokens, of whatever size: a row of a table is one token's."""
        identities = {tokenizer.identity for tokenizer in known_vocabularies.tokenizers.values()}
        for field, tokenizer in vocabularies.tokenizers.items():
            if tokenizer.identity not in identities:
                raise ConfigError(
                    "tokenizer",
                    f"{self.run} has other tokens for {field}; a model started from it keeps its vocabulary",
                )

    def _require_fit(self, config: object, trained_config: object) -> None:
        """Refuses a model whose weights have another size throughout, or the same size and another meaning."""
        for name in ("width", "heads"):
            mine, theirs = getattr(config, name, None), getattr(trained_config, name, None)
            if mine is not None and theirs is not None and mine != theirs:
                raise ConfigError(
                    f"model.{name}",
                    f"{self.run} has {theirs}, so its weights do not fit; expected {theirs}, got {mine}; leave it out "
                    "beside model.from",
                )

    def _require_vocabulary(self, parameters: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
        for name in parameters.keys() & weights.keys():
            if name.endswith("embedding.table.weight") and len(parameters[name]) != len(weights[name]):
                raise ConfigError(
                    "tokenizer",
                    f"{self.run} has a vocabulary of {len(weights[name]):,} tokens, this model one of "
                    f"{len(parameters[name]):,}; a model started from it keeps its vocabulary",
                )

    def require_tokenizer(self, tokenizer: TokenizerConfig, trained_tokenizer: TokenizerConfig) -> None:
        """Refuses settings of a vocabulary that would be ignored, since the run's is taken over."""
        if tokenizer != trained_tokenizer:
            raise ConfigError(
                "tokenizer",
                f"a model started from {self.run} keeps its vocabulary, of kind '{trained_tokenizer.kind}'; give its "
                "settings, or model.from in place of start.run, which takes them over",
            )

    def hold(self, model: nn.Module) -> list[str]:
        """Freezes parameters; returns sentences about what is frozen and at which rates the rest is trained."""
        names = [name for name, _ in model.named_parameters()]
        for pattern in self.freeze:
            if not any(_fits(name, pattern) for name in names):
                raise ConfigError("start.freeze", f"'{pattern}' fits no parameter; names are such as {names[0]}")
        layers = _last(names) + 1
        if self.freeze_layers > layers:
            raise ConfigError("start.freeze_layers", f"the model has {layers} layers, got {self.freeze_layers}")
        frozen = {name: weight for name, weight in model.named_parameters() if self.is_frozen(name)}
        if len(frozen) == len(names):
            setting = "freeze" if self.freeze else "freeze_layers"
            problem = f"freezes all {len(names)} parameters, so nothing would be trained; freeze fewer"
            raise ConfigError(f"start.{setting}", problem)
        for weight in frozen.values():
            weight.requires_grad_(False)
        sentences: list[str] = []
        if frozen:
            count = sum(weight.numel() for weight in frozen.values())
            sentences.append(f"frozen: {count:,} parameters ({_shorten(list(frozen), names)})")
        if self.layer_rate != 1:
            rates = [self._rate(name, layers - 1) for name in names if name not in frozen]
            sentences.append(f"learning rates: from ×{min(rates):.3g} at the bottom to ×{max(rates):.3g} at the top")
        return sentences

    def is_frozen(self, name: str) -> bool:
        layer = _layer(name)
        low = "embedding" in name if layer is None else layer < self.freeze_layers
        return (self.freeze_layers > 0 and low) or any(_fits(name, pattern) for pattern in self.freeze)

    def rates(self, model: nn.Module) -> Callable[[str], float]:
        """The share of the learning rate of each parameter, by its name."""
        last = _last(name for name, _ in model.named_parameters())
        return lambda name: self._rate(name, last)

    def _rate(self, name: str, last: int) -> float:
        layer = _layer(name)
        if layer is None:
            layer = -1 if "embedding" in name else last + 1
        return self.layer_rate ** (last + 1 - layer)

    def load_tokenizers(self, texts: Sequence[str]) -> dict[str, Tokenizer]:
        """The vocabularies that a task will take over, read from the run's folder."""
        return load_tokenizers(texts, Path(self.run))

    def tokenizers(self, available: Mapping[str, Tokenizer], texts: Sequence[str]) -> dict[str, Tokenizer]:
        """The run's vocabularies for the texts of a task."""
        if all(text in available for text in texts):
            return {text: available[text] for text in texts}
        if len({tokenizer.identity for tokenizer in available.values()}) == 1:
            return dict.fromkeys(texts, next(iter(available.values())))
        there = f"vocabularies for {', '.join(available)}" if available else "no vocabulary"
        raise ConfigError("start.run", f"{self.run} has {there}, this task needs {', '.join(texts)}")


@dataclass(frozen=True)
class WeightTransfer:
    loaded: list[str]
    missing: list[str]
    """Parameters of the model that the other has not, or in another size."""
    unused: list[str]
    """What only the other has, or has in another size."""
    resized: list[str]
    """What both have, each in its own size."""
    everything: tuple[list[str], list[str]]
    """All parameters of the model, and all of the other."""

    def sentence(self, run: str) -> str:
        names_here, names_there = self.everything
        parts = [f"started from {run}: {len(self.loaded)} of {len(names_here)} weights taken over"]
        for names, what, every in ((self.missing, "new", names_here), (self.unused, "unused", names_there)):
            if names:
                parts.append(f"{what}: {_shorten(names, every)}")
        if self.resized:
            parts.append(f"of another size there: {_shorten(self.resized, names_here)}")
        return "; ".join(parts)


def class_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that have a row for each label: the last layer of a head over classes."""
    head = getattr(model, "head", None)
    last = head.linear if isinstance(head, PooledHead) else head if isinstance(head, nn.Linear) else None
    parameters = set() if last is None else set(last.parameters())
    return {name: parameter for name, parameter in model.named_parameters() if parameter in parameters}


@torch.no_grad()
def transfer_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> WeightTransfer:
    """Copies the weights whose names and sizes a model shares."""
    parameters = dict(model.named_parameters())
    shared = [name for name in parameters if name in weights]
    loaded = [name for name in shared if weights[name].shape == parameters[name].shape]
    for name in loaded:
        parameters[name].copy_(weights[name])
    loaded_names = set(loaded)
    return WeightTransfer(
        loaded,
        [name for name in parameters if name not in loaded_names],
        [name for name in weights if name not in loaded_names],
        [name for name in shared if name not in loaded_names],
        (list(parameters), list(weights)),
    )


def _fits(name: str, pattern: str) -> bool:
    """Whether a pattern names a parameter or a part that it belongs to."""
    return fnmatchcase(name, pattern) or name.startswith(f"{pattern}.")


def _layer(name: str) -> int | None:
    match = LAYER.search(name)
    return int(match.group(1)) if match else None


def _last(names: Iterable[str]) -> int:
    return max((layer for name in names if (layer := _layer(name)) is not None), default=0)


def _shorten(names: Sequence[str], every: Sequence[str]) -> str:
    """Names for people: a layer of which all are meant is one name, and of many the first are told."""
    meant, shown = set(names), []
    for name in names:
        match = LAYER.search(name)
        layer = name[: match.end()] if match else ""
        whole = layer and all(other in meant for other in every if other.startswith(layer))
        shown.append(f"{layer}*" if whole else name)
    shown = list(dict.fromkeys(shown))
    return ", ".join(shown[:SHOWN]) + (f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else "")
