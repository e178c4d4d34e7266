"""F14: a head can follow coreference: 'The animal didn't cross the street because it was too tired / too wide'."""

from dataclasses import dataclass
from itertools import islice

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from regard.claims.claim import Claim, Finding, Numbers, at_least
from regard.claims.figure import ATTENTION, OTHER, RECURRENT
from regard.claims.setup import Setup
from regard.data.street.corpus import Example, pronoun_cases
from regard.data.street.nouns import NOUNS
from regard.look.replay import without_heads
from regard.nn.attention.module import Attention
from regard.nn.attention.reference import record_attention
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, EOS
from regard.text.tokenizer import Tokenizer

PRONOUNS = ("er", "sie", "es")
BEFORE = " weil"
CANDIDATES = 3
"""The heads whose ablation costs most; of these the one that attends to the referent is measured."""


class CoreferenceHead(Claim):
    name, title = "f14", "a head follows coreference"
    uses_translator = True
    says = (
        "An attention head can follow coreference: what 'it' means in '… did not cross the street because it was too "
        "wide'."
    )
    how = (
        "German has er, sie or es depending on what 'it' refers to. Each head of a trained translator is ablated in "
        "turn. Of the three whose ablation costs the right pronoun most, on one half of the cases, the one that most "
        "often prefers the referent is measured on the other half: from 'it' in the encoder, from the word before the "
        "pronoun in the decoder, at the English noun or at the German one already generated."
    )

    def measure(self, setup: Setup) -> Numbers:
        run = setup.translator
        tokenizers = run.task.vocabularies.tokenizers
        cases = list(islice(pronoun_cases("test", 4000), setup.pick(240, 12)))
        halves = [_Cases(cases[start::2], tokenizers["source"], tokenizers["target"]) for start in (0, 1)]
        heads = _heads(run.model)
        intact = [half.accuracy_and_margin(run.model) for half in halves]
        without = [[half.ablated(run.model, *head) for head in heads] for half in halves]
        looks = [half.preference(run.model, heads) for half in halves]
        worst = sorted(range(len(heads)), key=lambda number: without[0][number][1])[:CANDIDATES]
        chosen = max(worst, key=lambda number: looks[0][number])
        return {
            "heads": [_label(*head) for head in heads],
            "chosen": chosen,
            "cases": len(halves[1].examples),
            "accuracy": intact[1][0],
            "margin": intact[1][1],
            "accuracy_without": [accuracy for accuracy, _ in without[1]],
            "lost": [1 - margin / intact[1][1] for _, margin in without[1]],
            "looks": looks[1],
        }

    def check(self, numbers: Numbers) -> list[Finding]:
        """On the held-out half: what the ablation costs, and how often the head prefers the referent."""
        chosen = numbers["chosen"]
        lost, looks = numbers["lost"][chosen], numbers["looks"][chosen]
        if numbers["accuracy"] < 0.7:
            measured = f"only {numbers['accuracy']:.0%} of the pronouns are right; train longer"
            return [Finding("a head follows coreference", measured, "inconclusive")]
        return [
            Finding("without one head the translator is less sure what 'it' refers to",
                    f"{lost:.0%} of the right pronoun's margin is lost without {numbers['heads'][chosen]} "
                    f"(accuracy without it: {numbers['accuracy_without'][chosen]:.0%})", at_least(lost, 0.1, 0.02)),
            Finding("that head attends to the referent of 'it', not to the other noun", f"in {looks:.0%} of the cases",
                    at_least(looks, 0.7, 0.55)),
        ]  # fmt: skip

    def headline(self, numbers: Numbers) -> str:
        chosen = numbers["chosen"]
        return (
            f"One head ({numbers['heads'][chosen]}) attends to the referent of 'it' in {numbers['looks'][chosen]:.0%} "
            f"of the cases and carries {numbers['lost'][chosen]:.0%} of the pronoun's margin"
        )

    def draw(self, figure: Figure, numbers: Numbers) -> None:
        axes, chosen = figure.subplots(), numbers["chosen"]
        lost = [100 * value for value in numbers["lost"]]
        looks = [100 * value for value in numbers["looks"]]
        colours = [RECURRENT if number == chosen else ATTENTION for number in range(len(lost))]
        axes.scatter(looks, lost, c=colours, s=[420 if number == chosen else 160 for number in range(len(lost))])
        side = ("left", 14) if looks[chosen] < 60 else ("right", -14)
        axes.annotate(numbers["heads"][chosen], (looks[chosen], lost[chosen]), (side[1], 0), ha=side[0], va="center",
                      textcoords="offset points", color=RECURRENT, fontweight="bold")  # fmt: skip
        axes.axvline(50, color=OTHER, linestyle="--", linewidth=2)
        axes.set(xlabel="prefers the referent of 'it' (% of the cases)", xlim=(0, 100))
        axes.set_ylabel("margin of the right pronoun\nlost without the head (%)")


@dataclass(frozen=True)
class _Encoded:
    """One case as token ids: the source, the German up to the pronoun, and the positions of the nouns."""

    source: list[int]
    target: list[int]
    pronoun: int
    """Which of PRONOUNS is right."""
    it: int
    referent: list[int]
    other: list[int]
    referent_in_german: list[int]
    other_in_german: list[int]


class _Cases:
    """A batch of sentences with 'it', each up to the German pronoun."""

    def __init__(self, examples: list[Example], source: Tokenizer, target: Tokenizer) -> None:
        self.examples = examples
        self.encoded = [_encode(example, source, target) for example in examples]
        self.choices = torch.tensor([target.encode(f"weil {word}")[-1] for word in PRONOUNS])
        self.right = torch.tensor([case.pronoun for case in self.encoded])
        self.arguments = (Sequences.padded([case.source for case in self.encoded]),
                          Sequences.padded([case.target for case in self.encoded]))  # fmt: skip
        self.last = self.arguments[1].layout.lengths - 1

    @torch.no_grad()
    def accuracy_and_margin(self, model: nn.Module) -> tuple[float, float]:
        """How often the right pronoun is the likeliest of the three, and its mean margin over the next (in logits)."""
        rows = torch.arange(len(self.last))
        logits = model(*self.arguments)[rows, self.last][:, self.choices]
        best_wrong = logits.scatter(1, self.right[:, None], -torch.inf).amax(1)
        margin = logits[rows, self.right] - best_wrong
        return float((margin > 0).float().mean()), float(margin.mean())

    def ablated(self, model: nn.Module, name: str, head: int) -> tuple[float, float]:
        """The same with one head's output set to zero."""
        with without_heads(model, [(name, head)]):
            return self.accuracy_and_margin(model)

    @torch.no_grad()
    def preference(self, model: nn.Module, heads: list[tuple[str, int]]) -> list[float]:
        """How often each head gives the referent more weight than the other noun."""
        with record_attention(model) as seen:
            model(*self.arguments)
        return [self._share(name, seen[name][0].weights[:, head]) for name, head in heads]

    def _share(self, name: str, weights: Tensor) -> float:
        """Of one head: in the encoder the query is 'it', in the decoder the last German word."""
        in_decoder, german = name.startswith("decoder"), name.startswith("decoder") and not name.endswith("cross")
        more = 0
        for row, case in enumerate(self.encoded):
            attended = weights[row, int(self.last[row]) if in_decoder else case.it]
            referent, other = (case.referent_in_german, case.other_in_german) if german else (case.referent, case.other)
            more += bool(attended[referent].sum() > attended[other].sum())
        return more / len(self.encoded)


def _heads(model: nn.Module) -> list[tuple[str, int]]:
    """Every head of every attention, by the module's name."""
    parts = ((name, part) for name, part in model.named_modules() if isinstance(part, Attention))
    return [(name, head) for name, part in parts for head in range(part.heads)]


def _label(name: str, head: int) -> str:
    """`decoder.blocks.0.cross`, 2 in words."""
    side, _, layer, part = name.split(".")
    return f"{head + 1} of layer {int(layer) + 1} ({'cross-attention' if part == 'cross' else side})"


def _encode(example: Example, source: Tokenizer, target: Tokenizer) -> _Encoded:
    coreference = example.coreference
    assert coreference is not None
    is_subject = coreference.referent == coreference.subject
    other = coreference.object if is_subject else coreference.subject
    nouns = [NOUNS[name] for name in (coreference.referent, other)]
    english, german = example.source.rstrip("."), example.target.partition(BEFORE)[0] + BEFORE
    return _Encoded(
        [*source.encode(example.source), EOS],
        [BOS, *target.encode(german)],
        PRONOUNS.index(coreference.pronoun),
        _token_positions(english, ("it",), source)[-1],
        *(_token_positions(english, (noun.english,), source) for noun in nouns),
        *(
            [1 + position for position in _token_positions(german, (noun.german, noun.german_oblique), target)]
            for noun in nouns
        ),
    )


def _token_positions(text: str, forms: tuple[str, ...], tokenizer: Tokenizer) -> list[int]:
    """The tokens of the last word with one of these forms, and of the article before it, which has its gender."""
    words = text.replace(",", " ,").split()
    index = max(number for number, word in enumerate(words) if word in forms)
    before, until = (" ".join(words[:count]).replace(" ,", ",") for count in (index - 1, index + 1))
    return list(range(len(tokenizer.encode(before)), len(tokenizer.encode(until))))
