"""The two sentences of the lectures: what "it" refers to, which heads attend to it, and each head's ablation.

    The animal did not cross the street because it was too tired.   → …, weil es zu müde war.
    The animal did not cross the street because it was too wide.    → …, weil sie zu breit war.

The gender of the German pronoun shows the referent. Its probabilities are computed after the same German prefix in both
sentences, so that they differ by the source only.
"""

import torch
from torch import Tensor

from regard.data.street import LECTURE_SENTENCES
from regard.decode.search import AnySearch
from regard.look.generation import generate
from regard.look.groups import by_group
from regard.look.model_input import InputBuilder
from regard.look.payload import Coreference, CoreferenceSentence, GroupName, Head, rounded, rounded_rows
from regard.look.replay import RecordedAttention, replay, without_head_by_row
from regard.look.tokens import Sentence
from regard.nn.layout import Sequences
from regard.tasks.contract import sequences

PRONOUNS = ("er", "sie", "es")
BEFORE = " weil"
HEADS_AT_ONCE = 32


def trace_coreference(builder: InputBuilder, search: AnySearch) -> Coreference:
    """Both sentences, with the pronoun's probabilities of the whole model and without each of its heads."""
    sides = [SentenceTrace(builder, english, german, search) for english, german in LECTURE_SENTENCES]
    sentences = [side.payload() for side in sides]
    heads = [
        Head(group=group, layer=layer, head=head, module=attention.name)
        for group, layer, head, attention in sides[0].heads
    ]
    right = all(sentence.right for sentence in sentences)
    return Coreference(pronouns=list(PRONOUNS), heads=heads, sentences=sentences, right=right)


class SentenceTrace:
    """One of the two sentences, with its translation up to the pronoun."""

    def __init__(self, builder: InputBuilder, english: str, german: str, search: AnySearch) -> None:
        self.builder, self.english, self.german = builder, english, german
        self.ids = builder.ids(english)
        self.translation = builder.target.decode(generate(builder, self.ids, search))
        start = german.partition(BEFORE)[0] + BEFORE
        self.prefix = builder.target.encode(start)
        self.choices = [_next_id(builder, start, self.prefix, pronoun) for pronoun in PRONOUNS]
        self.inputs = builder.pair(self.ids, self.prefix)
        self.logits, attentions = replay(builder.model, self.inputs.arguments)
        self.groups = by_group(attentions, self.inputs)
        assert self.inputs.source is not None
        assert self.inputs.target is not None
        self.source, self.target = self.inputs.source, self.inputs.target

    @property
    def heads(self) -> list[tuple[GroupName, int, int, RecordedAttention]]:
        """All heads: group, layer, number, attention."""
        return [
            (group, layer, head, attention)
            for group, layers in self.groups.items()
            for layer, attention in enumerate(layers)
            for head in range(attention.weights.shape[0])
        ]

    def payload(self) -> CoreferenceSentence:
        return CoreferenceSentence(
            source=self.english,
            expected=self.german,
            translation=self.translation,
            right=_pronoun(self.translation) == _pronoun(self.german),
            pronoun=_pronoun(self.german),
            words={"source": self.source.texts, "target": self.target.texts},
            it=self.source.texts.index("it") if "it" in self.source.texts else None,
            attention=[self._word_weights(group, attention, head) for group, _, head, attention in self.heads],
            probabilities=rounded(self._pronoun_probabilities(self.logits)[0]),
            without=self._without([(attention.name, head) for _, _, head, attention in self.heads]),
        )

    def _word_weights(self, group: GroupName, attention: RecordedAttention, head: int) -> list[float]:
        """The weight on each word: from "it" in the encoder, from the position of the pronoun in the decoder."""
        keys, texts = self.target if group == "decoder" else self.source, self.source.texts
        weights = attention.weights[head]
        if weights.shape[-1] != len(keys.ids):
            return []
        queries = self.source.groups[texts.index("it")] if group == "encoder" and "it" in texts else [-1]
        return rounded(by_word(weights[queries].mean(0), keys), 4)

    @torch.no_grad()
    def _without(self, heads: list[tuple[str, int]]) -> list[list[float]]:
        """The probabilities without each head in turn; each row of a batch lacks one."""
        model, rows = self.builder.model, []
        for start in range(0, len(heads), HEADS_AT_ONCE):
            off = heads[start : start + HEADS_AT_ONCE]
            copies = [Sequences.full(sequences(one).tokens.expand(len(off), -1)) for one in self.inputs.arguments]
            with without_head_by_row(model, off):
                rows.extend(rounded_rows(self._pronoun_probabilities(model(*copies))))
        return rows

    def _pronoun_probabilities(self, logits: Tensor) -> Tensor:
        """Of er, sie and es as the next word; (rows, 3)."""
        return logits[:, -1].float().softmax(-1)[:, self.choices]


def _next_id(builder: InputBuilder, start: str, prefix: list[int], word: str) -> int:
    """The first token of a word that follows a text."""
    ids = builder.target.encode(f"{start} {word}")
    pairs = enumerate(zip(ids, prefix, strict=False))
    shared = next((index for index, (a, b) in pairs if a != b), len(prefix))
    return ids[min(shared, len(ids) - 1)]


def by_word(weights: Tensor, sentence: Sentence) -> Tensor:
    """The weight on each word: the sum over its tokens."""
    words = torch.tensor(sentence.words, device=weights.device)
    return torch.zeros(sentence.words[-1] + 1, device=weights.device).scatter_add_(0, words, weights.float())


def _pronoun(german: str) -> str | None:
    """The first pronoun after 'weil'."""
    after = german.partition(BEFORE)[2].lower().replace(",", " ").replace(".", " ").split()
    return next((word for word in after if word in PRONOUNS), None)
