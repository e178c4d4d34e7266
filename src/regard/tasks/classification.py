"""Classification: one label for a whole text."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, cast

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
from regard.decode import in_batches
from regard.errors import ConfigError
from regard.nn.device import to_device
from regard.nn.layout import Sequences
from regard.nn.loss import Losses
from regard.tasks.base import Inputs, Scoring, TaskConfig, Vocabularies, need_shape, total_tokens
from regard.tasks.contract import ModelConfig, sequences
from regard.tasks.generation import AnyInput
from regard.tasks.labels import LabelTask
from regard.tasks.regularisation import adversarial_loss
from regard.tasks.tensors import to_sequences
from regard.text.inputs import TOKENS_PER_BATCH, refuse_overlong
from regard.text.special_tokens import EOS
from regard.text.tokenizer import TokenizerConfig


class ClassificationConfig(TaskConfig):
    """One label for each text, such as whether a review likes its film."""

    kind: Literal["classification"] = "classification"
    content: ClassVar[Content] = "labelled"
    texts: ClassVar[tuple[str, ...]] = ("text",)
    labels: ClassVar[tuple[str, ...]] = ("label",)
    usual_model: ClassVar[str] = "encoder"
    scoring: ClassVar[Scoring] = "labels"
    default_score: ClassVar[str] = "accuracy"
    measured: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "loss")
    example_command: ClassVar[str] = "echo 'Your text' | regard classify {folder}"

    adversarial: float = Field(0.0, ge=0)
    """Adversarial training: read each text again with its embeddings moved, by this share of their norm, to where its
    loss grows fastest; 0.2 is a good start. Helps where data is scarce, and more than doubles a step's cost."""

    def is_answered(self, example: Example) -> bool:
        """A blank text has no label: `classify` gives none."""
        return not isinstance(example, Labelled) or bool(example.text.strip())

    def task(self, vocabularies: Vocabularies) -> "Classification":
        return Classification(vocabularies, self)

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        super().check(model, data)
        need_shape(model, ["encoder", "decoder"], "classification")
        if getattr(getattr(model, "head", None), "kind", None) == "token":
            raise ConfigError("model.head", "one label a text needs 'pooled', got 'token'; leave it out")
        if data.batching is not None and data.batching.kind != "bucketed":
            raise ConfigError("data.batching", f"one label a text needs 'bucketed' batches, got '{data.batching.kind}'")
        if self.adversarial and self.consistency:
            raise ConfigError("task.adversarial", "it does not go together with task.consistency; set one of them")


class Classification(LabelTask):
    """−log P(label | text)."""

    def __init__(self, vocabularies: Vocabularies, config: ClassificationConfig) -> None:
        super().__init__(vocabularies, config)
        self.tokenizer, self.adversarial = vocabularies.tokenizers["text"], config.adversarial

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """Texts end with the end token, so that even an empty one has something to pool."""
        sampler = self.tokenizer.sampler(tokenizer) if training else None
        return {"text": TextField(self.tokenizer, sampler, max_length=data.max_length, overlong=data.overlong)}

    def row(self, example: Example) -> Row:
        assert isinstance(example, Labelled)
        return {"text": example.text, "label": self.label_number(example.label, example.location)}

    def build(self, model: ModelConfig) -> nn.Module:
        return model.build(self.tokenizer.vocab_size, len(self.number))

    def num_params(self, model: ModelConfig) -> int:
        return model.num_params(self.tokenizer.vocab_size, len(self.number))

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        """Texts and the numbers of their labels."""
        text = batch.fields["text"]
        assert not isinstance(text, Packed)
        targets = to_device(torch.from_numpy(batch.labels["label"]), device)
        flops = 3.0 * float(model.flops(*text.tokens.shape, self.tokenizer.vocab_size, len(self.number))) * self.passes
        return Inputs((to_sequences(text, device),), targets, len(targets), total_tokens(batch), flops)

    @property
    def passes(self) -> float:
        """The gradient with respect to embeddings needs none with respect to weights: a third of a pass less."""
        return 7 / 3 if self.adversarial else super().passes

    def plain_losses(self, read: Callable[[], Losses], model: nn.Module, inputs: Inputs) -> Losses:
        if not self.adversarial:
            return read()
        readings: list[Losses] = []

        def objective() -> Tensor:
            readings.append(read())
            return readings[-1].objective

        valid = sequences(inputs.arguments[0]).layout.valid
        loss = adversarial_loss(cast(nn.Module, model.embedding), objective, valid, self.adversarial)
        return Losses(loss, readings[0].cross_entropy)  # of the texts as they are

    @torch.no_grad()
    def classify(
        self,
        model: nn.Module,
        texts: Sequence[AnyInput],
        device: torch.device,
        longest: int | None = None,
        cut: bool = False,
    ) -> list[dict[str, float] | None]:
        """The probability of each label for each text, None for a blank one; longer texts are cut or refused."""
        lines = cast(Sequence[str], texts)
        rows = [[*self.tokenizer.encode(text), EOS] if text.strip() else [] for text in lines]
        if cut and longest is not None:
            rows = [row if len(row) <= longest else [*row[: longest - 1], EOS] for row in rows]
        refuse_overlong([len(row) for row in rows], longest)

        def work(batch: list[list[int]]) -> list[dict[str, float]]:
            probabilities = model(Sequences.padded(batch, device=device)).float().softmax(-1).tolist()
            return [dict(zip(self.vocabularies.labels, row, strict=True)) for row in probabilities]

        answers = iter(in_batches([row for row in rows if row], work, tokens_per_batch=TOKENS_PER_BATCH))
        return [next(answers) if row else None for row in rows]
