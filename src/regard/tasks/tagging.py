"""Tagging: one label for each word of a sentence, which a model may read with the sentence's dependency tree.

A word in several pieces is tagged at its first. Position kinds that follow the tree (`model.position = "tree"`, Wang
2019) are given the head of each piece as `EncodedWords` of `text/tokenizer.py` says.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.data.batches import Batch
from regard.data.collate import Packed, Ragged, pad
from regard.data.examples import Example, SourceLocation, Tagged
from regard.data.fields import NumbersField
from regard.data.settings import DataConfig
from regard.data.sources import Content
from regard.data.store_writer import Row
from regard.decode import in_batches
from regard.errors import ConfigError, DataError, InputError, OverlongError, RegardError, nearest, shortened
from regard.nn.device import to_device
from regard.nn.head import TokenHeadConfig
from regard.nn.layout import Sequences
from regard.nn.loss import IGNORED, Losses, cross_entropy, smoothed_losses
from regard.tasks.base import Inputs, Task, TaskBase, Vocabularies, need_shape, needs_tree, with_balance
from regard.tasks.consistency import consistent_losses, twice
from regard.tasks.tensors import to_sequences, with_heads
from regard.text.inputs import TOKENS_PER_BATCH, refuse_overlong
from regard.text.tokenizer import EncodedWords, TokenizerConfig

MOST_NUMBERS = 1 << 16
GIVEN = "input"  # the file of sentences that came as plain texts, whose file and line the caller knows
"""Places in a sentence that the store can tell apart."""
NO_TREE = (
    "this model follows the dependency tree of a sentence, and here is none; give a CoNLL-U file (NAME.conllu) with "
    "the heads of its words, as a parser writes it"
)


class TaggingConfig(TaskBase):
    """One label for each word of a sentence, such as its part of speech."""

    kind: Literal["tagging"] = "tagging"
    content: ClassVar[Content] = "tagged"
    texts: ClassVar[tuple[str, ...]] = ("text",)
    gives_trees: ClassVar[bool] = True
    usual_model: ClassVar[str] = "encoder"
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "loss")

    def task(self, vocabularies: Vocabularies) -> "Tagging":
        """The task, once vocabulary and tags are known."""
        return Tagging(vocabularies, self)

    @property
    def has_classes(self) -> bool:
        """The tags are classes, though not of whole sentences."""
        return True

    def classes_of(self, example: Example) -> Sequence[str]:
        """The tags of a sentence."""
        assert isinstance(example, Tagged)
        return example.tags

    def check(self, model: Any, data: DataConfig) -> None:  # noqa: ANN401
        """Refuses a model or data that this task cannot use."""
        super().check(model, data)
        need_shape(model, ["encoder"], "tagging")
        if model.head is not None and model.head.kind != "token":
            raise ConfigError("model.head", f"a tag for each word needs 'token', got '{model.head.kind}'; leave it out")
        if data.batching is not None and data.batching.kind == "stream":
            raise ConfigError("data.batching", "sentences with tags need 'bucketed' or 'packed' batches, got 'stream'")
        if data.overlong == "cut":
            raise ConfigError("data.overlong", "a sentence with its tree cannot be cut; leave it at 'skip'")


class Tagging(Task):
    """−Σ log P(tag of word i | sentence)."""

    best_metric = "accuracy"
    verb = "classify"
    beside = ("heads", "tags")

    def __init__(self, vocabularies: Vocabularies, config: TaggingConfig) -> None:
        super().__init__(vocabularies, config)
        self.tokenizer = vocabularies.tokenizers["text"]
        self.number = {tag: number for number, tag in enumerate(vocabularies.labels)}

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, NumbersField]:
        """Tokens, the head of each, and the tag of each that begins a word."""
        if self.tokenizer.sampler(tokenizer) is not None:
            raise ConfigError("tokenizer", "words with tags are cut in one way only; leave dropout or alpha out")
        made_with, limit = self.tokenizer.identity, data.max_length
        return {
            "text": NumbersField(self.tokenizer.vocab_size, made_with, limit),
            "heads": NumbersField(MOST_NUMBERS, made_with, limit),
            "tags": NumbersField(len(self.number) + 1, made_with, limit),
        }

    def row(self, example: Example) -> Row:
        """A sentence in tokens; one without a tree has no heads."""
        assert isinstance(example, Tagged)
        cut = self.tokenizer.encode_words(example.words)
        heads = [] if example.heads is None else cut.heads(example.heads)
        return {"text": cut.tokens, "heads": heads, "tags": cut.tags(self.numbers(example))}

    def numbers(self, example: Tagged) -> list[int]:
        """The number of each word's tag; DataError for one that the training data does not have."""
        for tag in example.tags:
            if tag not in self.number:
                problem = f"tag '{shortened(tag, 60)}' is unknown in the training data; {nearest(tag, self.number)}"
                raise DataError(example.location.file, problem, example.location.line)
        return [self.number[tag] for tag in example.tags]

    def build(self, model: Any) -> nn.Module:  # noqa: ANN401
        """The model for vocabulary and tags."""
        return _tagger(model).build(self.tokenizer.vocab_size, len(self.number))

    def num_params(self, model: Any) -> int:  # noqa: ANN401
        """Learned numbers of the model, without building it."""
        return _tagger(model).num_params(self.tokenizer.vocab_size, len(self.number))

    def inputs(self, batch: Batch, model: Any, device: torch.device) -> Inputs:  # noqa: ANN401
        """Sentences, with their trees if the model follows them, and the tags of their words."""
        text, tags = batch.fields["text"], torch.from_numpy(batch.fields["tags"].tokens)
        sequences = to_sequences(text, device)
        if needs_tree(model):
            sequences = with_heads(sequences, batch.fields["heads"])
        flops = partial(_tagger(model).flops, vocab=self.tokenizer.vocab_size, classes=len(self.number))
        if isinstance(text, Packed):
            cost = self.packed_flops(partial(flops, 1), text.lengths)
        else:
            cost = float(flops(*text.tokens.shape))
        targets = to_device(torch.where(tags > 0, tags - 1, IGNORED), device)
        count, tokens = int((tags > 0).sum()), int(text.lengths.sum())
        return Inputs((sequences,), targets, count, tokens, 3.0 * cost * self.passes)

    def losses(self, model: nn.Module, inputs: Inputs) -> Losses:
        """Cross-entropy of the words' tags."""
        smoothing, consistency = self.config.smoothing, self.config.consistency
        if consistency:
            first, second = model(*twice(inputs.arguments)).chunk(2, 1 if inputs.arguments[0].layout.packed else 0)
            losses = consistent_losses(first, second, inputs.targets, smoothing, consistency)
        else:
            losses = smoothed_losses(model(*inputs.arguments), inputs.targets, smoothing)
        return with_balance(model, losses, inputs.count)

    def measure(self, model: nn.Module, inputs: Inputs) -> dict[str, float]:
        """Cross-entropy, and how many words are tagged right."""
        return self.measure_labels(model, inputs)[0]

    def measure_labels(self, model: nn.Module, inputs: Inputs) -> tuple[dict[str, float], Tensor | None]:
        """Cross-entropy and how many words are tagged right, and the likeliest tags."""
        logits = model(*inputs.arguments)
        nll, predicted = cross_entropy(logits, inputs.targets), logits.argmax(-1)
        right = (predicted == inputs.targets).sum()
        return {"nll": float(nll), "right": float(right), "count": inputs.count}, predicted

    def summarise(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Mean loss and the share of words that is right."""
        return {**super().summarise(sums), "accuracy": sums["right"] / sums["count"] if sums["count"] else math.nan}

    def classify(
        self,
        model: nn.Module,
        texts: Sequence[str | Tagged],
        device: torch.device,
        longest: int | None = None,
        cut: bool = False,
    ) -> list[dict[str, float] | None]:
        """The likeliest tags of each sentence, one space apart, and how likely all of them are; None for a blank."""
        sentences = [_sentence(text, place) if isinstance(text, str) else text for place, text in enumerate(texts, 1)]
        given = {number: sentence for number, sentence in enumerate(sentences, start=1) if sentence.words}
        try:
            found = iter(self.tag(model, list(given.values()), device, longest))
        except OverlongError as error:  # of the sentences that are not blank
            numbers = list(given)
            raise OverlongError({numbers[number - 1]: what for number, what in error.inputs.items()}) from None
        return [dict([_whole(next(found))]) if sentence.words else None for sentence in sentences]

    @torch.no_grad()
    def tag(
        self, model: nn.Module, sentences: Sequence[Tagged], device: torch.device, longest: int | None = None
    ) -> list[list[tuple[str, float]]]:
        """The likeliest tag of each word of each sentence, and its probability; given tags are not looked at."""
        follows = needs_tree(model.config)
        jobs = [_Job(sentence, self.tokenizer.encode_words(sentence.words)) for sentence in sentences]
        refuse_overlong([len(job) for job in jobs], longest)
        for job in jobs:
            job.check_tree(follows)

        def work(batch: list[_Job]) -> list[list[tuple[str, float]]]:
            likely, chosen = model(_grid(batch, follows, device)).float().softmax(-1).max(-1)
            rows = zip(batch, likely.tolist(), chosen.tolist(), strict=True)
            labels = list(self.vocabularies.labels)
            return [[(labels[tags[at]], sure[at]) for at in job.cut.starts] for job, sure, tags in rows]

        return in_batches(jobs, work, tokens_per_batch=TOKENS_PER_BATCH)


@dataclass(frozen=True)
class _Job:
    """A sentence to tag."""

    sentence: Tagged
    cut: EncodedWords

    def __len__(self) -> int:
        return len(self.cut.tokens)

    def check_tree(self, follows_tree: bool) -> None:
        """Refuses a sentence without the tree that the model follows."""
        if follows_tree and self.sentence.heads is None:
            raise self._refusal(NO_TREE)

    def _refusal(self, problem: str) -> RegardError:
        location = self.sentence.location
        return (
            InputError(location.line, problem)
            if location.file == GIVEN
            else DataError(location.file, problem, location.line)
        )


def _sentence(text: str, place: int) -> Tagged:
    """A line of words, one space apart."""
    return Tagged(tuple(text.split()), (), None, SourceLocation(GIVEN, place))


def _whole(tags: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """All tags of a sentence, and how likely all of them are right."""
    return " ".join(tag for tag, _ in tags), math.prod(likely for _, likely in tags)


def _grid(batch: Sequence[_Job], follows_tree: bool, device: torch.device) -> Sequences:
    grid = to_sequences(pad(Ragged.of([job.cut.tokens for job in batch])), device)
    if not follows_tree:
        return grid
    return with_heads(grid, pad(Ragged.of([job.cut.heads(job.sentence.heads or ()) for job in batch])))


def _tagger(model: Any) -> Any:  # noqa: ANN401
    """The model's settings with an output at each place, where they leave it open."""
    return model if model.head is not None else model.but(head=TokenHeadConfig())
