"""Tagging: one label for each word of a sentence, which a model may read with the sentence's dependency tree.

A word in several pieces is tagged at its first. Position kinds that follow the tree (`model.position = "tree"`, Wang
2019) are given the head of each piece as `EncodedWords` of `text/tokenizer.py` says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int64
from torch import nn

from regard.data.batches import Batch
from regard.data.collate import Ragged, pad
from regard.data.examples import Example, SourceLocation, Tagged
from regard.data.fields import NumbersField
from regard.data.settings import DataConfig
from regard.data.store import Store
from regard.data.store_writer import Row
from regard.decode import in_batches
from regard.errors import ConfigError, DataError, InputError, OverlongError
from regard.metrics.baseline import sampled
from regard.nn.device import to_device
from regard.nn.head import TokenHeadConfig
from regard.nn.layout import Sequences
from regard.nn.loss import IGNORED
from regard.tasks.base import (
    Inputs,
    TaskConfig,
    Vocabularies,
    head_kind,
    need_shape,
    needs_tree,
)
from regard.tasks.classification import LabelTask
from regard.tasks.contract import ModelConfig, config_of
from regard.tasks.generation import AnyInputs
from regard.tasks.tensors import to_sequences, with_heads
from regard.text.inputs import TOKENS_PER_BATCH, refuse_overlong
from regard.text.tokenizer import EncodedWords, TokenizerConfig

LONGEST_SENTENCE = 1 << 16
"""Positions in a sentence that the store can tell apart."""
PLAIN_TEXT = "input"
"""The file of sentences that came as plain texts, whose file and line the caller knows."""
NO_TREE = (
    "this model follows the dependency tree of a sentence, and here is none; give a CoNLL-U file (NAME.conllu) with "
    "the heads of its words, as a parser writes it"
)


class TaggingConfig(TaskConfig):
    """One label for each word of a sentence, such as its part of speech."""

    kind: Literal["tagging"] = "tagging"
    content = "tagged"
    texts = ("text",)
    gives_trees = True
    usual_model = "encoder"
    scoring = "labels"
    default_score = "accuracy"
    measured = ("accuracy", "macro_f1", "loss")
    example_command = "echo 'Your words , one space apart' | regard classify {folder}"

    def task(self, vocabularies: Vocabularies) -> "Tagging":
        return Tagging(vocabularies, self)

    @property
    def has_classes(self) -> bool:
        """The tags are labels, though not of whole sentences."""
        return True

    def check(self, model: ModelConfig, data: DataConfig) -> None:
        super().check(model, data)
        need_shape(model, ["encoder"], "tagging")
        if (head := head_kind(model)) not in (None, "token"):
            raise ConfigError("model.head", f"a tag for each word needs 'token', got '{head}'; leave it out")
        if data.batching is not None and data.batching.kind == "stream":
            raise ConfigError("data.batching", "sentences with tags need 'bucketed' or 'packed' batches, got 'stream'")
        if data.overlong == "cut":
            raise ConfigError("data.overlong", "a sentence with its tree cannot be cut; leave it at 'skip'")


class Tagging(LabelTask):
    """−Σ log P(tag of word i | sentence)."""

    beside = ("heads", "tags")

    def __init__(self, vocabularies: Vocabularies, config: TaggingConfig) -> None:
        super().__init__(vocabularies, config)
        self.tokenizer = vocabularies.tokenizers["text"]

    def fields(self, data: DataConfig, tokenizer: TokenizerConfig, training: bool) -> dict[str, NumbersField]:
        """Tokens, the head of each, and the tag of each that begins a word."""
        if self.tokenizer.sampler(tokenizer) is not None:
            raise ConfigError("tokenizer", "words with tags are cut in one way only; leave dropout or alpha out")
        made_with, limit = self.tokenizer.identity, data.max_length
        return {
            "text": NumbersField(self.tokenizer.vocab_size, made_with, limit),
            "heads": NumbersField(LONGEST_SENTENCE, made_with, limit),
            "tags": NumbersField(len(self.number) + 1, made_with, limit),
        }

    def row(self, example: Example) -> Row:
        """A sentence in tokens; one without a tree has no heads."""
        assert isinstance(example, Tagged)
        cut = self.tokenizer.encode_words(example.words)
        heads = [] if example.heads is None else cut.heads(example.heads)
        numbers = [self.label_number(tag, example.location, "tag") for tag in example.tags]
        return {"text": cut.tokens, "heads": heads, "tags": cut.tags(numbers)}

    def sizes(self, model: ModelConfig) -> tuple[int, ...]:
        return self.tokenizer.vocab_size, len(self.number)

    def build(self, model: ModelConfig) -> nn.Module:
        return super().build(_tagger(model))

    def num_params(self, model: ModelConfig) -> int:
        return super().num_params(_tagger(model))

    def inputs(self, batch: Batch, model: ModelConfig, device: torch.device) -> Inputs:
        """Sentences, with their trees if the model follows them, and the tags of their words."""
        text, tags = batch.fields["text"], torch.as_tensor(batch.fields["tags"].tokens)
        sequences = to_sequences(text, device)
        if needs_tree(model):
            sequences = with_heads(sequences, batch.fields["heads"])
        flops = partial(_tagger(model).flops, vocab=self.tokenizer.vocab_size, classes=len(self.number))
        targets = to_device(torch.where(tags > 0, tags - 1, IGNORED), device)
        count, tokens = int((tags > 0).sum()), int(text.lengths.sum())
        return Inputs((sequences,), targets, count, tokens, 3.0 * self.forward_flops(flops, text) * self.passes)

    def label_counts(self, store: Store) -> Int64[np.ndarray, " labels"]:
        tags = store.gather("tags", sampled(len(store))).tokens
        return np.bincount(tags[tags > 0].astype(np.int64) - 1, minlength=len(self.number))  # 0 begins no word

    def classify(
        self, model: nn.Module, texts: AnyInputs, device: torch.device, longest: int | None = None, cut: bool = False
    ) -> list[dict[str, float] | None]:
        """The likeliest tags of each sentence, one space apart, and how likely all of them are; None for a blank."""
        sentences = [
            text if isinstance(text, Tagged) else _sentence(str(text), line) for line, text in enumerate(texts, start=1)
        ]
        filled = {number: sentence for number, sentence in enumerate(sentences, start=1) if sentence.words}
        try:
            tagged = iter(self.tag(model, list(filled.values()), device, longest))
        except OverlongError as error:  # of the sentences that are not blank
            numbers = list(filled)
            raise OverlongError({numbers[number - 1]: what for number, what in error.inputs.items()}) from None
        return [_joint_probability(next(tagged)) if sentence.words else None for sentence in sentences]

    @torch.no_grad()
    def tag(
        self, model: nn.Module, sentences: Sequence[Tagged], device: torch.device, longest: int | None = None
    ) -> list[list[tuple[str, float]]]:
        """The likeliest tag of each word of each sentence, and its probability; tags of the input are ignored."""
        follows_tree = needs_tree(config_of(model))
        jobs = [_Job(sentence, self.tokenizer.encode_words(sentence.words)) for sentence in sentences]
        refuse_overlong([len(job) for job in jobs], longest)
        if follows_tree:
            for job in jobs:
                job.require_tree()

        def work(batch: list[_Job]) -> list[list[tuple[str, float]]]:
            likely, chosen = model(_grid(batch, follows_tree, device)).float().softmax(-1).max(-1)
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

    def require_tree(self) -> None:
        if self.sentence.heads is None:
            file, line = self.sentence.location.origin
            raise InputError(line, NO_TREE) if file == PLAIN_TEXT else DataError(file, NO_TREE, line)


def _sentence(text: str, line: int) -> Tagged:
    return Tagged(tuple(text.split()), (), None, SourceLocation(PLAIN_TEXT, line))


def _joint_probability(tags: Sequence[tuple[str, float]]) -> dict[str, float]:
    """All tags of a sentence, and how likely all of them are right."""
    return {" ".join(tag for tag, _ in tags): math.prod(likely for _, likely in tags)}


def _grid(batch: Sequence[_Job], follows_tree: bool, device: torch.device) -> Sequences:
    grid = to_sequences(pad(Ragged.of([job.cut.tokens for job in batch])), device)
    if not follows_tree:
        return grid
    return with_heads(grid, pad(Ragged.of([job.cut.heads(job.sentence.heads or ()) for job in batch])))


def _tagger(model: ModelConfig) -> ModelConfig:
    """The model's settings with a prediction at each token, where they leave it open."""
    return model if getattr(model, "head", None) is not None else model.but(head=TokenHeadConfig())
