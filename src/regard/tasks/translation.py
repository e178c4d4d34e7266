"""Translation, and every other task from text to text: read the source, generate the target."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import FileName, Unused
from regard.data.batches import Batch
from regard.data.examples import Example, Pair, PairBlock
from regard.data.fields import TextField
from regard.data.settings import DataConfig
from regard.data.store_writer import LINE, Row
from regard.decode import AnyStepper, Ensemble
from regard.errors import ConfigError
from regard.nn.loss import Losses
from regard.tasks.base import (
    TRAINING_SETTINGS,
    GenerationTask,
    Inputs,
    TaskConfig,
    Vocabularies,
    need_shape,
    total_tokens,
)
from regard.tasks.contract import ModelConfig, evaluation_mode, sequences, token_model
from regard.tasks.generation import TextGenerator
from regard.tasks.reward import RewardConfig, expected_reward_loss
from regard.tasks.tensors import shift, to_sequences
from regard.tasks.unknown_words import UnknownWords, read_dictionary
from regard.text.tokenizer import TokenizerConfig


class TranslationConfig(TaskConfig):
    """From text to text: translation, and any other pairs (parsing, questions and answers, data to text)."""

    kind: Literal["translation"] = "translation"
    smoothing: float = Field(0.1, ge=0, lt=1)
    """Label smoothing: the share of each token's probability that is spread over all tokens. Losses are shown without
    it; metrics.jsonl has the smoothed one as `objective`."""

    unknown: Literal["keep", "replace"] = "keep"
    """What becomes of unknown words in translations of a word vocabulary: they stay `<unk>`, or the source word behind
    each, found through attention, is translated by the dictionary or else copied (PosUnk)."""
    dictionary: FileName | None = None
    """Words and their translations for `unknown`, a tab-separated pair a line."""
    reward: RewardConfig | None = None
    """Fine-tune on the score of what the model generates (GNMT's reinforcement learning); needs a trained start."""

    content = "pairs"
    texts = ("source", "target")
    scoring = "texts"
    default_score = "bleu"
    example_command = "echo 'Your text' | regard translate {folder}"
    ctranslate2_settings = TRAINING_SETTINGS | {"reward"}
    copy_baseline = True
    packs = True
    splits_inputs = True
    generates = True

    def task(self, vocabularies: Vocabularies) -> "Translation":
        return Translation(vocabularies, self)

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        super().check(model, data)
        need_shape(model, ["encoder-decoder"], "translation")
        if data.batching is not None and data.batching.kind == "stream":
            raise ConfigError("data.batching", "sources and targets need 'bucketed' or 'packed' batches, got 'stream'")
        if self.dictionary and self.unknown == "keep":
            raise ConfigError("task.dictionary", "it is used for unknown words only: set task.unknown=replace as well")
        if self.reward and self.consistency:
            raise ConfigError("task.consistency", "it does not go together with task.reward; set one of them")
        if self.reward and data.batching is not None and data.batching.kind == "packed":
            raise ConfigError("data.batching", "a reward needs 'bucketed' batches, got 'packed'")

    def unused(self, model: ModelConfig, data: DataConfig, tokenizer: TokenizerConfig) -> Iterator[Unused]:
        """A reward alone does not use the references' tokens one by one."""
        yield from super().unused(model, data, tokenizer)
        if self.reward and not self.reward.likelihood:
            yield Unused("task.smoothing", "with task.reward.likelihood = 0")


class Translation(GenerationTask):
    """−Σ log P(y_i | y_<i, x): each target token from those before it and the whole source."""

    verb = "translate"
    predicted = ("target",)

    def __init__(self, vocabularies: Vocabularies, config: TranslationConfig) -> None:
        super().__init__(vocabularies, config)
        self.reward = config.reward
        self.source, self.target = vocabularies.tokenizers["source"], vocabularies.tokenizers["target"]

    @property
    def passes(self) -> float:
        return self.reward.passes if self.reward else super().passes

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Cross-entropy of all targets; with a reward, its expectation, and a share of the cross-entropy."""
        if self.reward is None:
            return super().losses(model, inputs)
        objective = expected_reward_loss(model, sequences(inputs.arguments[0]), inputs.targets, self.reward)
        if not self.reward.likelihood:
            return Losses(objective, self._plain(model, inputs))
        likelihood = super().losses(model, inputs)
        return Losses(objective + self.reward.likelihood * likelihood.objective, likelihood.cross_entropy)

    @torch.no_grad()
    def _plain(self, model: nn.Module, inputs: Inputs) -> Tensor:
        """Cross-entropy of the references."""
        parts = token_model(model)
        with evaluation_mode(model):
            return parts.head.loss(parts.hidden(*inputs.arguments), inputs.targets)

    def generator(
        self, stepper: AnyStepper, device: torch.device, longest: int | None = None, base: Path = Path()
    ) -> TextGenerator:
        assert isinstance(self.config, TranslationConfig)
        unknown = None
        if self.config.unknown == "replace":
            file = self.config.dictionary
            models = stepper.members if isinstance(stepper, Ensemble) else [stepper]
            unknown = UnknownWords(cast(list[nn.Module], models), read_dictionary(base / file) if file else {})
        return TextGenerator(stepper, self.source, self.target, device, longest, unknown)

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """Sources end with the end token; targets begin and end with theirs."""
        limit, overlong = data.max_length if training else None, data.overlong
        from_source, from_target = (
            side.sampler(tokenizer) if training else None for side in (self.source, self.target)
        )
        return {
            "source": TextField(self.source, from_source, max_length=limit, overlong=overlong),
            "target": TextField(self.target, from_target, True, max_length=limit and limit + 1, overlong=overlong),
        }

    def row(self, example: Example) -> Row:
        assert isinstance(example, Pair)
        return {"source": example.source, "target": example.target}

    def rows(self, examples: Sequence[Example]) -> list[Row]:
        if not isinstance(examples, PairBlock):
            return super().rows(examples)
        columns = zip(examples.sources, examples.targets, examples.lines, strict=True)
        return [{"source": source, "target": target, LINE: line} for source, target, line in columns]

    def sizes(self, model: ModelConfig) -> tuple[int, ...]:
        return self.source.vocab_size, self.target.vocab_size

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        """Source and shifted target as tensors."""
        source, target = batch.fields["source"], batch.fields["target"]
        tokens, targets = shift(target, device)
        count = int(np.sum(target.lengths - 1))
        flops = self.forward_flops(partial(model.flops, vocab=self.target.vocab_size), source, target, shifted=True)
        arguments = (to_sequences(source, device), tokens)
        return Inputs(arguments, targets, count, total_tokens(batch) - len(target.lengths), 3.0 * flops * self.passes)
