"""Summarisation: a short text for a long one, by two stacks (T-ED) or by one that reads and then writes (T-D).

Liu 2018 compares four systems, each a matter of `model`:

    seq2seq-attention   model.kind = "lstm-seq2seq"
    T-ED                model.kind = "encoder-decoder"
    T-D                 model.kind = "decoder"                 input, separator and output as one sequence
    T-DMCA              … and model.attention = "alternating"  local and memory-compressed layers in turn
"""

from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.data.batches import Batch
from regard.data.examples import Example
from regard.data.fields import TextField
from regard.data.settings import DataConfig
from regard.data.sources import Content
from regard.data.store_writer import Row
from regard.decode import Ensemble
from regard.errors import ConfigError
from regard.models.stepper import PrefixDecoder
from regard.nn.loss import IGNORED, Losses
from regard.tasks.base import GenerationTask, Inputs, TaskBase, Vocabularies, need_shape, with_balance
from regard.tasks.summarisation_generation import Summariser
from regard.tasks.summarisation_sequence import OneSequence, joined_inputs
from regard.tasks.translation import Translation, TranslationConfig
from regard.text.special_tokens import BOS, SEP, SPECIAL_TOKENS
from regard.text.tokenizer import Tokenizer, TokenizerConfig


class SummarisationConfig(TaskBase):
    """A short text for each long one: summaries, subjects of messages, minutes of meetings (Liu 2018)."""

    kind: Literal["summarisation"] = "summarisation"
    smoothing: float = Field(0.1, ge=0, lt=1)
    """Label smoothing: the share of each token's probability that is spread over all tokens. Losses are shown without
    it; metrics.jsonl has the smoothed one as `objective`."""
    input_tokens: int = Field(500, ge=2)
    """Most tokens of an input, its end token counted: longer ones are cut there, in training and after, and counted.
    `data.max_length` is for the outputs."""
    predict_input: bool = False
    """A decoder learns to predict its input too, not the output alone, as Liu 2018 does; scores count the output."""

    cuts_inputs: ClassVar[bool] = True
    content: ClassVar[Content] = "pairs"
    texts: ClassVar[tuple[str, ...]] = ("source", "target")
    scores: ClassVar[tuple[str, ...]] = ("rouge_l", "rouge_1", "rouge_2", "loss", "perplexity", "cut")
    predicts_tokens: ClassVar[bool] = True
    generates: ClassVar[bool] = True

    def task(self, vocabularies: Vocabularies) -> "Summarisation":
        """The task, once the vocabulary is known."""
        return Summarisation(vocabularies, self)

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses a model or data that this task cannot use."""
        super().check(model, data)
        need_shape(model, ["encoder-decoder", "decoder"], "summarisation")
        if data.batching is not None and data.batching.kind == "stream":
            raise ConfigError("data.batching", "inputs and outputs need 'bucketed' or 'packed' batches, got 'stream'")
        if self.predict_input and model.shape != "decoder":
            raise ConfigError("task.predict_input", f"only a decoder predicts its input; {model.kind} reads it")
        needed = self.input_tokens + (data.max_length if model.shape == "decoder" else 0)
        if model.longest is not None and model.longest < needed:
            raise ConfigError(
                "model.position.length",
                f"expected at least {needed} for task.input_tokens = {self.input_tokens}"
                f"{' and data.max_length' if needed > self.input_tokens else ''}, got {model.longest}",
            )


class Summarisation(GenerationTask):
    """−Σ log P(y_i | y_<i, m_1 … m_L): each token of the output from those before it and the first L of the input."""

    verb = "translate"
    predicted = ("target",)

    def __init__(self, vocabularies: Vocabularies, config: SummarisationConfig) -> None:
        super().__init__(vocabularies, config)
        self.input_tokens, self.predict_input = config.input_tokens, config.predict_input
        self.source, self.target = vocabularies.tokenizers["source"], vocabularies.tokenizers["target"]
        self._pairs = Translation(vocabularies, TranslationConfig(consistency=config.consistency))

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, TextField]:
        """As for translation, but inputs are cut at their limit, after training too."""
        fields = self._pairs.fields(data, tokenizer, training)
        source = TextField(self.source, fields["source"].sampler, max_length=self.input_tokens, overlong="cut")
        return {**fields, "source": source}

    def position_limits(self, model: Any) -> dict[str, int]:  # noqa: ANN401
        """In a decoder, input, separator and output share the positions, and the input has its own limit."""
        limits = super().position_limits(model)
        if not limits or model.shape != "decoder":
            return limits
        return {"source": self.input_tokens, "target": model.longest - self.input_tokens + 2}

    def row(self, example: Example) -> Row:
        """A pair as the store takes it."""
        return self._pairs.row(example)

    def build(self, model: Any) -> nn.Module:  # noqa: ANN401
        """The model for both vocabularies, or for the one of a decoder."""
        if model.shape != "decoder":
            return self._pairs.build(model)
        need_separator(self.source, self.target)
        return model.build(self.target.vocab_size)

    def num_params(self, model: Any) -> int:  # noqa: ANN401
        """Learned numbers of the model, without building it."""
        return model.num_params(self.target.vocab_size) if model.shape == "decoder" else self._pairs.num_params(model)

    def inputs(self, batch: Batch, model: Any, device: torch.device) -> Inputs:  # noqa: ANN401
        """Input and shifted output as tensors: two sequences, or one of both."""
        if model.shape != "decoder":
            return self._pairs.inputs(batch, model, device)
        source, target = batch.fields["source"], batch.fields["target"]
        vocab, passes = self.target.vocab_size, 3.0 * self.passes
        return joined_inputs(source, target, model, vocab, device, self.packed_flops, passes, self.predict_input)

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Cross-entropy of the answers; the vocabulary is scored only where there is one."""
        if not isinstance(inputs, OneSequence):
            return super().losses(model, inputs)
        if self.config.consistency:
            losses = super().losses(model, inputs)
            plain = self._plain(model, inputs) if self.predict_input else losses.plain
            return Losses(losses.objective, plain)
        x = model.hidden(*inputs.arguments)  # type: ignore[operator]
        losses = losses_at_answers(model, x, inputs.targets, self.config.smoothing)
        if self.predict_input:  # then the objective is of the inputs too, and scores are not
            with torch.no_grad():
                losses = Losses(losses.objective, losses_at_answers(model, x.detach(), inputs.outputs).objective)
        return with_balance(model, losses, inputs.count)

    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        """Cross-entropy of the outputs without smoothing."""
        if not isinstance(inputs, OneSequence):
            return super().measure(model, inputs)
        return {"nll": float(self._plain(model, inputs)), "count": inputs.output_count}

    @torch.no_grad()
    def _plain(self, model: nn.Module, inputs: OneSequence) -> Tensor:
        """Cross-entropy of the outputs."""
        learning = model.training
        model.eval()  # dropout that is drawn here would change what later parts draw
        try:
            x = model.hidden(*inputs.arguments)  # type: ignore[operator]
            return losses_at_answers(model, x, inputs.outputs).objective
        finally:
            model.train(learning)

    def generator(
        self,
        stepper: Any,  # noqa: ANN401
        device: torch.device,
        longest: int | None = None,
        base: Path = Path(),
    ) -> Summariser:
        """What summarises with a model, or with an ensemble of them, of one stack or two."""
        if isinstance(stepper, Ensemble):
            reading: Any = Ensemble([reads_source(member) for member in stepper.members], stepper.mean)  # type: ignore[arg-type]
        else:
            reading = reads_source(stepper)
        return Summariser(reading, self.source, self.target, device, input_tokens=self.input_tokens)


def losses_at_answers(model: nn.Module, x: Tensor, targets: Tensor, smoothing: float = 0.0) -> Losses:
    """Cross-entropy where there is an answer; a long input costs no scores over the vocabulary."""
    answers = targets != IGNORED
    return model.head.losses(x[answers][None], targets[answers][None], smoothing)  # type: ignore[union-attr, operator]


def reads_source(stepper: Any) -> Any:  # noqa: ANN401
    """A model of one stack made to read a source; one of two does so already."""
    return PrefixDecoder(stepper, begin=BOS, separator=SEP) if stepper.config.shape == "decoder" else stepper


def need_separator(source: Tokenizer, target: Tokenizer) -> None:
    """A decoder reads input and output as one text: one vocabulary, with a token between the two."""
    if source.identity != target.identity:
        raise ConfigError(
            "tokenizer.joint", "a decoder reads input and output as one text, so both need one vocabulary; set it true"
        )
    name = SPECIAL_TOKENS[SEP]
    if source.core.token_to_id(name) != SEP:
        raise ConfigError("tokenizer", f"expected the separator {name} as token {SEP} between input and output")
