"""Translation, and every other task from text to text: read the source, write the target."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import FileName, Unused
from regard.data.batches import Batch
from regard.data.examples import Example, Pair
from regard.data.fields import TextField
from regard.data.settings import DataConfig
from regard.data.sources import Content, SourceConfig
from regard.data.store_writer import Row
from regard.decode import Ensemble
from regard.errors import ConfigError
from regard.nn.loss import Losses
from regard.tasks.base import GenerationTask, Inputs, TaskBase, Vocabularies, need_shape, total_tokens
from regard.tasks.generation import TextGenerator
from regard.tasks.reward import RewardConfig, expected_reward_loss
from regard.tasks.tensors import shift, to_sequences
from regard.tasks.unknown_words import UnknownWords, read_dictionary
from regard.text.tokenizer import TokenizerConfig


class TranslationConfig(TaskBase):
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
    """Fine-tune on the score of what the model writes (GNMT's reinforcement learning); needs a trained start."""

    content: ClassVar[Content] = "pairs"
    texts: ClassVar[tuple[str, ...]] = ("source", "target")
    scores: ClassVar[tuple[str, ...]] = ("bleu", "chrf", "ter", "exact_match")
    splits_inputs: ClassVar[bool] = True
    predicts_tokens: ClassVar[bool] = True
    generates: ClassVar[bool] = True

    def task(self, vocabularies: Vocabularies) -> "Translation":
        """The task, once vocabularies are known."""
        return Translation(vocabularies, self)

    def scores_on(self, source: SourceConfig) -> tuple[str, ...]:
        """Pronouns are scored on the embedded corpus, attachment where trees are generated."""
        pronoun = ("pronoun",) if source.street is not None else ()
        trees = ("uas", "las") if source.is_treebank and source.target == "brackets" else ()
        return (*self.scores, *pronoun, *trees)

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses a model or data that this task cannot use."""
        super().check(model, data)
        need_shape(model, ["encoder-decoder"], "translation")
        if data.batching is not None and data.batching.kind == "stream":
            raise ConfigError("data.batching", "sources and targets need 'bucketed' or 'packed' batches, got 'stream'")
        if self.dictionary and self.unknown == "keep":
            raise ConfigError("task.dictionary", "it is used for unknown words only: set task.unknown=replace as well")
        if self.reward and self.consistency:
            raise ConfigError("task.consistency", "two readings of a batch and a reward do not go together; set one")
        if self.reward and data.batching is not None and data.batching.kind == "packed":
            raise ConfigError("data.batching", "a reward needs 'bucketed' batches, got 'packed'")

    def unused(self, model: Any, data: DataConfig, tokenizer: TokenizerConfig) -> Iterator[Unused]:  # noqa: ANN401
        """A reward alone does not look at references token by token."""
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
        """How often a training step reads its batch, forth and back."""
        return self.reward.passes if self.reward else super().passes

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Cross-entropy of all targets; with a reward, what the model's own translations earn, and a little of that."""
        if self.reward is None:
            return super().losses(model, inputs)
        objective = expected_reward_loss(model, inputs.arguments[0], inputs.targets, self.reward)
        if not self.reward.likelihood:
            return Losses(objective, self._plain(model, inputs))
        likelihood = super().losses(model, inputs)
        return Losses(objective + self.reward.likelihood * likelihood.objective, likelihood.cross_entropy)

    @torch.no_grad()
    def _plain(self, model: nn.Module, inputs: Inputs) -> Tensor:
        """Cross-entropy of the references, without dropout: drawing it would change what later parts draw."""
        learning = model.training
        model.eval()
        try:
            x = model.hidden(*inputs.arguments)  # type: ignore[operator]
            return model.head.loss(x, inputs.targets)  # type: ignore[union-attr, operator]
        finally:
            model.train(learning)

    def generator(
        self,
        stepper: Any,  # noqa: ANN401
        device: torch.device,
        longest: int | None = None,
        base: Path = Path(),
    ) -> TextGenerator:
        """What translates with a model, or with an ensemble of them."""
        assert isinstance(self.config, TranslationConfig)
        unknown = None
        if self.config.unknown == "replace":
            file = self.config.dictionary
            models: list[Any] = list(stepper.members) if isinstance(stepper, Ensemble) else [stepper]
            unknown = UnknownWords(models, read_dictionary(base / file) if file else {})
        return TextGenerator(stepper, self.source, self.target, device, longest, unknown)

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """Sources end with the end token; targets begin and end with theirs."""
        limit = data.max_length if training else None
        source_sampler = self.source.sampler(tokenizer) if training else None
        target_sampler = self.target.sampler(tokenizer) if training else None
        return {
            "source": TextField(self.source, source_sampler, max_length=limit, overlong=data.overlong),
            "target": TextField(
                self.target, target_sampler, begin=True, max_length=limit and limit + 1, overlong=data.overlong
            ),
        }

    def row(self, example: Example) -> Row:
        """A pair as the store takes it."""
        assert isinstance(example, Pair)
        return {"source": example.source, "target": example.target}

    def build(self, model: Any) -> nn.Module:  # noqa: ANN401
        """The model for both vocabularies."""
        return model.build(self.source.vocab_size, self.target.vocab_size)

    def num_params(self, model: Any) -> int:  # noqa: ANN401
        """Learned numbers of the model, without building it."""
        return model.num_params(self.source.vocab_size, self.target.vocab_size)

    def inputs(self, batch: Batch, model: Any, device: torch.device) -> Inputs:  # noqa: ANN401
        """Source and shifted target as tensors."""
        source, target = batch.fields["source"], batch.fields["target"]
        written, targets = shift(target, device)
        count = int(np.sum(target.lengths - 1))
        if written.layout.packed:
            one = partial(model.flops, 1, vocab=self.target.vocab_size)
            flops = self.packed_flops(one, source.lengths, target.lengths - 1)
        else:
            rows, time = target.tokens.shape
            flops = model.flops(rows, source.tokens.shape[1], time - 1, self.target.vocab_size)
        arguments = (to_sequences(source, device), written)
        return Inputs(arguments, targets, count, total_tokens(batch) - len(target.lengths), 3.0 * flops * self.passes)
