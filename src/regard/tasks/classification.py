"""Classification: one label for a whole text."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.data.batches import Batch
from regard.data.collate import Packed
from regard.data.examples import Example, Labelled
from regard.data.fields import TextField
from regard.data.settings import DataConfig
from regard.data.sources import Content
from regard.data.store_writer import Row
from regard.errors import ConfigError, DataError, nearest, shortened
from regard.nn.device import to_device
from regard.nn.loss import Losses, cross_entropy, smoothed_losses
from regard.tasks.adversarial import adversarial_loss
from regard.tasks.base import Inputs, Task, TaskBase, Vocabularies, need_shape, total_tokens, with_balance
from regard.tasks.consistency import consistent_losses, twice
from regard.tasks.generation import classify
from regard.tasks.tensors import to_sequences
from regard.text.tokenizer import TokenizerConfig


class ClassificationConfig(TaskBase):
    """One label for each text, such as whether a review likes its film."""

    kind: Literal["classification"] = "classification"
    content: ClassVar[Content] = "labelled"
    texts: ClassVar[tuple[str, ...]] = ("text",)
    labels: ClassVar[tuple[str, ...]] = ("label",)
    usual_model: ClassVar[str] = "encoder"
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "loss")

    adversarial: float = Field(0.0, ge=0)
    """Adversarial training: read each text again with its words' vectors moved, by this share of their length, to where
    its loss grows fastest; 0.2 is a good start. Helps where data is scarce, and more than doubles a step's cost."""

    def is_answered(self, example: Example) -> bool:
        """A blank text has no label: `classify` gives none."""
        return not isinstance(example, Labelled) or bool(example.text.strip())

    def task(self, vocabularies: Vocabularies) -> "Classification":
        """The task, once vocabulary and labels are known."""
        return Classification(vocabularies, self)

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses a model or data that this task cannot use."""
        super().check(model, data)
        need_shape(model, ["encoder", "decoder"], "classification")
        if getattr(model.head, "kind", None) == "token":
            raise ConfigError("model.head", "one label a text needs 'pooled', got 'token'; leave it out")
        if data.batching is not None and data.batching.kind != "bucketed":
            raise ConfigError("data.batching", f"one label a text needs 'bucketed' batches, got '{data.batching.kind}'")
        if self.adversarial and self.consistency:
            raise ConfigError("task.adversarial", "moved words and consistency do not go together; set one of them")


class Classification(Task):
    """−log P(label | text)."""

    best_metric = "accuracy"
    verb = "classify"
    adversarial: float = 0.0
    """Share of their length by which words move; images, which have none, leave it at zero."""

    def __init__(self, vocabularies: Vocabularies, config: ClassificationConfig) -> None:
        super().__init__(vocabularies, config)
        self.tokenizer, self.adversarial = vocabularies.tokenizers["text"], config.adversarial
        self.number = {label: number for number, label in enumerate(vocabularies.labels)}

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """Texts end with the end token, so that even an empty one has something to pool."""
        sampler = self.tokenizer.sampler(tokenizer) if training else None
        return {"text": TextField(self.tokenizer, sampler, max_length=data.max_length, overlong=data.overlong)}

    def row(self, example: Example) -> Row:
        """A text and its label's number."""
        assert isinstance(example, Labelled)
        if example.label not in self.number:
            hint = nearest(example.label, self.number)
            raise DataError(
                example.location.file,
                f"label '{shortened(example.label, 60)}' is unknown in the training data; {hint}",
                example.location.line,
            )
        return {"text": example.text, "label": self.number[example.label]}

    def build(self, model: Any) -> nn.Module:  # noqa: ANN401
        """The model for vocabulary and labels."""
        return model.build(self.tokenizer.vocab_size, len(self.number))

    def num_params(self, model: Any) -> int:  # noqa: ANN401
        """Learned numbers of the model, without building it."""
        return model.num_params(self.tokenizer.vocab_size, len(self.number))

    def inputs(self, batch: Batch, model: Any, device: torch.device) -> Inputs:  # noqa: ANN401
        """Texts and the numbers of their labels."""
        text = batch.fields["text"]
        assert not isinstance(text, Packed)
        targets = to_device(torch.from_numpy(batch.labels["label"]), device)
        flops = model.flops(*text.tokens.shape, self.tokenizer.vocab_size, len(self.number))
        return Inputs(
            (to_sequences(text, device),), targets, len(targets), total_tokens(batch), 3.0 * float(flops) * self.passes
        )

    @property
    def passes(self) -> float:
        """How often a training step reads its batch, forth and back; the slope of words needs no weight's slope."""
        return 7 / 3 if self.adversarial else super().passes

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Cross-entropy of the labels."""
        return with_balance(model, self._read(model, inputs), inputs.count)

    def _read(self, model: nn.Module, inputs: Inputs) -> Losses:
        smoothing, consistency = self.config.smoothing, self.config.consistency
        if consistency:
            first, second = model(*twice(inputs.arguments)).chunk(2)
            return consistent_losses(first, second, inputs.targets, smoothing, consistency)

        passes: list[Losses] = []

        def read() -> Tensor:
            passes.append(smoothed_losses(model(*inputs.arguments), inputs.targets, smoothing))
            return passes[-1].objective

        if self.adversarial:
            valid = inputs.arguments[0].layout.valid
            objective = adversarial_loss(model.embedding, read, valid, self.adversarial)  # type: ignore[arg-type]
            return Losses(objective, passes[0].cross_entropy)  # of the texts as they are
        read()
        return passes[0]

    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        """Cross-entropy, and how many are right."""
        return self.measure_labels(model, inputs)[0]

    def measure_labels(self, model: nn.Module, inputs: Inputs) -> tuple[dict[str, float], Tensor | None]:
        """Cross-entropy and how many are right, and the likeliest labels."""
        logits = model(*inputs.arguments)
        nll, predicted = cross_entropy(logits, inputs.targets), logits.argmax(-1)
        right = (predicted == inputs.targets).sum()
        return {"nll": float(nll), "right": float(right), "count": inputs.count}, predicted

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Mean loss and the share that is right."""
        return {**super().summarise(sums), "accuracy": sums["right"] / sums["count"] if sums["count"] else math.nan}

    def classify(
        self,
        model: nn.Module,
        texts: Sequence[str],
        device: torch.device,
        longest: int | None = None,
        cut: bool = False,
    ) -> list[dict[str, float] | None]:
        """The probability of each label for each text; None for a blank one."""
        return classify(model, self.tokenizer, self.vocabularies.labels, texts, device, longest, cut)
