"""F14: a head can follow coreference: 'The animal didn't cross the street because it was too tired / too wide'."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims.claim import Claim, Finding, Numbers, at_least
from regard.claims.setup import Setup
from regard.claims.style import ATTENTION, OTHER, RECURRENT
from regard.data.street.corpus import Example, pronoun_cases
from regard.data.street.nouns import NOUNS
from regard.nn.attention.module import Attention, record_attention
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, EOS
from regard.text.tokenizer import Tokenizer

PRONOUNS = ("er", "sie", "es")
BEFORE = " weil"
CANDIDATES = 3
"""Heads whose loss hurts most; among them the one is chosen that looks at what 'it' means."""


class CoreferenceHead(Claim):
    """Cut heads out of a trained translator and see which one it needs to know what 'it' means."""

    name, title = "f14", "a head follows coreference"
    looks_inside = True
    says = (
        "An attention head can follow coreference: what 'it' means in '… did not cross the street "
        "because it was too wide'."
    )
    how = (
        "German says er, sie or es by what 'it' means. Each head of a trained translator is cut out in turn. Of "
        "the three "
        "that the right pronoun's lead hangs on most, on one half of the cases, the one that most often prefers "
        "the noun "
        "meant is measured on the other half: from 'it' in the encoder, from the word before the pronoun in the "
        "decoder, "
        "at the English noun or at the German one already written."
    )

    def measure(self, setup: Setup) -> Numbers:
        """How sure the translator is of the pronoun with and without each head, and where each head looks."""
        run = setup.translator
        vocabularies = run.task.vocabularies.tokenizers
        cases = list(islice(pronoun_cases("test", 4000), setup.pick(240, 12)))
        halves = [_Cases(cases[start::2], vocabularies["source"], vocabularies["target"]) for start in (0, 1)]
        heads = _heads(run.model)
        whole = [half.certainty(run.model) for half in halves]
        without = [[half.without(run.model, *head) for head in heads] for half in halves]
        looks = [half.looks(run.model, heads) for half in halves]
        worst = sorted(range(len(heads)), key=lambda number: without[0][number][1])[:CANDIDATES]
        chosen = max(worst, key=lambda number: looks[0][number])
        return {
            "heads": [_told(*head) for head in heads],
            "chosen": chosen,
            "cases": len(halves[1].examples),
            "accuracy": whole[1][0],
            "margin": whole[1][1],
            "accuracy_without": [accuracy for accuracy, _ in without[1]],
            "lost": [1 - margin / whole[1][1] for _, margin in without[1]],
            "looks": looks[1],
        }

    def judge(self, numbers: Numbers) -> list[Finding]:
        """On the half that chose nothing: what cutting the head costs, and how often it prefers the noun meant."""
        chosen = numbers["chosen"]
        lost, looks = numbers["lost"][chosen], numbers["looks"][chosen]
        if numbers["accuracy"] < 0.7:
            measured = f"only {numbers['accuracy']:.0%} of the pronouns are right; train longer"
            return [Finding("a head follows coreference", measured, "inconclusive")]
        return [
            Finding("without one head the translator is less sure what 'it' means",
                    f"{lost:.0%} of its preference for the right pronoun hangs on {numbers['heads'][chosen]} "
                    f"(right without "
                    f"it: {numbers['accuracy_without'][chosen]:.0%})", at_least(lost, 0.1, 0.02)),
            Finding("that head looks at the noun that 'it' means, not at the other", f"in {looks:.0%} of the cases",
                    at_least(looks, 0.7, 0.55)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        """What the chosen head does."""
        chosen = numbers["chosen"]
        return (
            f"One head ({numbers['heads'][chosen]}) looks at the noun that 'it' means in "
            f"{numbers['looks'][chosen]:.0%} of "
            f"the cases and carries {numbers['lost'][chosen]:.0%} of the pronoun's lead"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        """A dot for each head: how often it looks at the noun meant, and what cutting it out costs."""
        axes, chosen = figure.subplots(), numbers["chosen"]
        lost = [100 * value for value in numbers["lost"]]
        looks = [100 * value for value in numbers["looks"]]
        colours = [RECURRENT if number == chosen else ATTENTION for number in range(len(lost))]
        axes.scatter(looks, lost, c=colours, s=[420 if number == chosen else 160 for number in range(len(lost))])
        side = ("left", 14) if looks[chosen] < 60 else ("right", -14)
        axes.annotate(numbers["heads"][chosen], (looks[chosen], lost[chosen]), (side[1], 0), ha=side[0], va="center",
                      textcoords="offset points", color=RECURRENT, fontweight="bold")  # fmt: skip
        axes.axvline(50, color=OTHER, linestyle="--", linewidth=2)
        axes.set(xlabel="prefers the noun that 'it' means (% of the cases)", xlim=(0, 100))
        axes.set_ylabel("lead of the right pronoun\nlost without the head (%)")


@dataclass(frozen=True)
class _Read:
    """One case as numbers: the source, the German up to the pronoun, and where the words of interest stand."""

    source: list[int]
    target: list[int]
    it: int
    meant: list[int]
    other: list[int]
    meant_in_german: list[int]
    other_in_german: list[int]


class _Cases:
    """Sentences that ask what 'it' means, all read up to the German pronoun at once."""

    def __init__(self, examples: list[Example], source: Tokenizer, target: Tokenizer) -> None:
        self.examples = examples
        self.read = [_read(example, source, target) for example in examples]
        self.choices = torch.tensor([target.encode(f"weil {word}")[-1] for word in PRONOUNS])
        self.right = torch.tensor([PRONOUNS.index(example.coreference.pronoun) for example in examples])  # type: ignore[union-attr]
        self.arguments = (Sequences.padded([one.source for one in self.read]),
                          Sequences.padded([one.target for one in self.read]))  # fmt: skip
        self.last = self.arguments[1].layout.lengths - 1

    @torch.no_grad()
    def certainty(self, model: nn.Module) -> tuple[float, float]:
        """How often the right pronoun is the likeliest of the three, and its mean lead over the next (a logit)."""
        rows = torch.arange(len(self.last))
        scores = model(*self.arguments)[rows, self.last][:, self.choices]
        rest = scores.scatter(1, self.right[:, None], -torch.inf).amax(1)
        lead = scores[rows, self.right] - rest
        return float((lead > 0).float().mean()), float(lead.mean())

    def without(self, model: nn.Module, name: str, head: int) -> tuple[float, float]:
        """The same when one head says nothing."""
        with head_cut(model.get_submodule(name), head):
            return self.certainty(model)

    @torch.no_grad()
    def looks(self, model: nn.Module, heads: list[tuple[str, int]]) -> list[float]:
        """How often each head gives the noun meant more weight than the other."""
        with record_attention(model) as seen:
            model(*self.arguments)
        return [self._share(name, seen[name][0].weights[:, head]) for name, head in heads]

    def _share(self, name: str, weights: Tensor) -> float:
        """Of one head: the encoder's looks from 'it'; the decoder's from the last German word, at English or German."""
        writes, german = name.startswith("decoder"), name.startswith("decoder") and not name.endswith("cross")
        more = 0
        for row, one in enumerate(self.read):
            look = weights[row, int(self.last[row]) if writes else one.it]
            meant, other = (one.meant_in_german, one.other_in_german) if german else (one.meant, one.other)
            more += bool(look[meant].sum() > look[other].sum())
        return more / len(self.read)


@contextmanager
def head_cut(attention: Any, head: int) -> Iterator[None]:  # noqa: ANN401
    """One head's share of what the output map is given is zero while the context lasts."""
    first, behind = head * attention.head_width, (head + 1) * attention.head_width

    def silence(module: nn.Module, given: tuple[Tensor]) -> Tensor:
        kept = given[0].clone()
        kept[..., first:behind] = 0.0
        return kept

    handle = attention.output.register_forward_pre_hook(silence)
    try:
        yield
    finally:
        handle.remove()


def _heads(model: nn.Module) -> list[tuple[str, int]]:
    """Every head of every attention, by the module's name."""
    parts = ((name, part) for name, part in model.named_modules() if isinstance(part, Attention))
    return [(name, head) for name, part in parts for head in range(part.heads)]


def _told(name: str, head: int) -> str:
    """`decoder.blocks.0.cross`, 2 as people say it."""
    side, _, layer, part = name.split(".")
    return f"{head + 1} of layer {int(layer) + 1} ({'cross-attention' if part == 'cross' else side})"


def _read(example: Example, source: Tokenizer, target: Tokenizer) -> _Read:
    asked = example.coreference
    assert asked is not None
    nouns = [
        NOUNS[name] for name in (asked.referent, asked.object if asked.referent == asked.subject else asked.subject)
    ]
    english, german = example.source.rstrip("."), example.target.partition(BEFORE)[0] + BEFORE
    return _Read(
        [*source.encode(example.source), EOS],
        [BOS, *target.encode(german)],
        _places(english, ("it",), source)[-1],
        *(_places(english, (noun.english,), source) for noun in nouns),
        *([1 + place for place in _places(german, (noun.german, noun.german_oblique), target)] for noun in nouns),
    )


def _places(text: str, forms: tuple[str, ...], tokenizer: Tokenizer) -> list[int]:
    """The tokens of the last word that has one of these forms, and of the article before it, which tells its gender."""
    words = text.replace(",", " ,").split()
    place = max(number for number, word in enumerate(words) if word in forms)
    before, until = (" ".join(words[:count]).replace(" ,", ",") for count in (place - 1, place + 1))
    return list(range(len(tokenizer.encode(before)), len(tokenizer.encode(until))))
