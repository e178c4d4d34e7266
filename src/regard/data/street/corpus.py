"""The corpus: an endless stream of sentences, cut into splits that share no combination of words.

All sentences of one combination belong to one split, chosen by a stable hash: 'The animal didn't cross the street
because it was very tired' goes where 'Today the animal cannot cross the street because it is too tired' goes. So no
sentence of one split occurs in another, whatever the size and seed.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from regard.data.street import compound, simple, single_clause, talk
from regard.data.street.coreference import Coreference, coreference, resolve
from regard.data.street.nouns import ADJECTIVES, NOUNS
from regard.data.street.phrases import DAYS, MONTHS, POSSESSIVES, Phrase, cardinal, ordinal
from regard.data.street.sampling import CITIES, NAMES, Draw
from regard.data.street.talk import IDIOMS
from regard.data.street.verbs import VERBS
from regard.errors import ConfigError, nearest

FAMILIES: dict[str, tuple[int, Callable[[Draw], Phrase]]] = {
    "coreference": (16, coreference),
    "intransitive": (5, simple.intransitive),
    "transitive": (9, simple.transitive),
    "quality": (4, simple.quality),
    "identity": (3, simple.identity),
    "joined": (3, simple.joined),
    "reason": (5, simple.reason),
    "yes_no_question": (9, talk.question),
    "open_question": (6, talk.open_question),
    "command": (4, talk.command),
    "answer": (4, talk.answer),
    "statement": (3, single_clause.statement),
    "perfect": (1, single_clause.perfect),
    "modal": (2, single_clause.modal),
    "separable": (3, single_clause.separable),
    "times": (2, single_clause.times),
    "passive": (1, single_clause.passive),
    "negation": (1, single_clause.negation),
    "question": (1, single_clause.question),
    "two_objects": (2, single_clause.two_objects),
    "dative": (1, single_clause.dative),
    "company": (1, single_clause.company),
    "prepositional": (2, single_clause.prepositional),
    "place": (2, single_clause.place),
    "comparison": (1, single_clause.comparison),
    "numbers": (2, single_clause.numbers),
    "relative": (3, compound.relative),
    "subordinate": (2, compound.subordinate),
    "infinitive": (1, compound.infinitive),
    "coordination": (1, compound.coordination),
}
"""Each family's share in hundredths, and how to draw a sentence of it."""

SHARES = tuple(name for name, (share, _) in FAMILIES.items() for _ in range(share))
"""A hundred names, each as often as its family's share."""

SHARE = 0.15
"""How many of all sentences are typed carelessly."""
_FIRST_PERSON = re.compile(r"\bI\b")


def as_typed(draw: Draw, pair: Phrase) -> Phrase:
    """The pair, its English sometimes written with less care."""
    if not draw.chance(SHARE):
        return pair
    source, target = pair
    if draw.chance(0.65):
        source = _uncapitalised(draw, source)
    if draw.chance(0.65):
        source, target = source[:-1], f"{target[:-1]}." if target.endswith("!") else target
    elif source.endswith(".") and draw.chance(0.3):
        source, target = f"{source[:-1]}!", f"{target[:-1]}!"
    if draw.chance(0.15):
        source = _spaced(draw, source)
    if draw.chance(0.3):
        source = source.replace("'", "’")
    return Phrase(source, target)


def _uncapitalised(draw: Draw, text: str) -> str:
    if draw.chance(0.4):
        return text.lower()
    text = text[0].lower() + text[1:]
    return _FIRST_PERSON.sub("i", text) if draw.chance(0.5) else text


def _spaced(draw: Draw, text: str) -> str:
    """A space too many: somewhere inside, or at the end."""
    words = text.split(" ")
    place = draw.between(1, len(words))
    return " ".join([*words[:place], "", *words[place:]])


AUXILIARY = ("be", "have", "want", "do")
"""Verbs that tell the tense or the mood, but not what happens."""
PRONOUNS = "i you he she it we they me him her us them my your his our their this that these those"
TELLING = frozenset(f"{PRONOUNS} who whom what where when why how yes no let".split())
"""The words that count in a sentence with one content word."""


def combination(source: str) -> str:
    """The content words of an English sentence, in their order: 'animal cross street tired'.

    Articles, pronouns, tense, number, negation, degree, days and months make no difference to it; but a sentence with
    fewer than two content words says little else, so its pronouns and question words count: 'they sleep', 'where dog'.
    One without any is the empty combination.
    """
    forms = _dictionary()
    words = re.findall(r"[a-z-]+", re.sub(r"['’]\w+", "", source.lower()))
    content = [forms[word] for word in words if word in forms]
    if len(content) == 1:
        content = [forms.get(word, word) for word in words if word in forms or word in TELLING]
    return " ".join(content)


@cache
def _dictionary() -> dict[str, str]:
    """Every form of a content word, with the form that stands for all of them."""
    return {form: forms[0] for forms in lexemes() for form in forms}


def lexemes() -> Iterator[tuple[str, ...]]:
    """The forms of each content word, the dictionary's first."""
    for noun in NOUNS.values():
        yield noun.english, noun.in_english(plural=True)
    for verb in VERBS.values():
        if verb.english.base not in AUXILIARY:
            english = verb.english
            yield english.base, english.third, english.past, english.participle, english.progressive
    for adjective in ADJECTIVES.values():
        yield adjective.english, adjective.english_comparative, adjective.english_superlative
    for number in range(1, 100):
        yield (cardinal(number).english,)
    for number in range(1, 32):
        yield (ordinal(number).english,)
    for proper in (*(name.text for name in NAMES), *(city.english for city in CITIES)):
        yield (proper.lower(),)


SIZES = {"train": 60_000, "valid": 1_000, "test": 2_000}
"""The default number of sentences of a split."""

LECTURE_SENTENCES = (
    (
        "The animal did not cross the street because it was too tired.",
        "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    ),
    (
        "The animal did not cross the street because it was too wide.",
        "Das Tier überquerte die Straße nicht, weil sie zu breit war.",
    ),
)
"""The lectures' example. Test begins with it; no other split holds its combinations."""

_SHUFFLE = b"weil"
"""Decides which combinations fall into which split, so changing it changes every split."""
_HELD_OUT = frozenset(combination(source) for source, _ in LECTURE_SENTENCES)
_TRAIN_ONLY = frozenset(combination(source) for source, _ in IDIOMS)
_PRONOUN = re.compile(r"\bweil\b.*?\b(er|sie|es)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Example:
    """A pair of sentences, the family it belongs to, and what *it* means where that is the question."""

    source: str
    target: str
    family: str
    coreference: Coreference | None = None


def pairs(split: str, size: int | None = None, seed: int = 1) -> Iterator[tuple[str, str]]:
    """The English and German sentences of a split; a smaller size is the beginning of a larger one."""
    return ((example.source, example.target) for example in examples(split, size, seed))


def pronoun_cases(split: str, size: int | None = None, seed: int = 1) -> Iterator[Example]:
    """Those examples of the same stream that ask what *it* means."""
    return (example for example in examples(split, size, seed) if example.coreference)


def examples(split: str, size: int | None = None, seed: int = 1) -> Iterator[Example]:
    """The sentences of a split, none of them twice."""
    if split not in SIZES:
        raise ConfigError("split", f"unknown split '{split}'; {nearest(split, SIZES)}")
    size = SIZES[split] if size is None else size
    if size < 0:
        raise ConfigError("size", f"expected a number of sentences, got {size}")
    return islice(_stream(split, seed), size)


def _stream(split: str, seed: int) -> Iterator[Example]:
    seen: set[str] = set()
    if split == "test":
        for example in _lecture_examples():
            seen.add(example.source)
            yield example
    draw = Draw(seed)
    while True:
        family = draw.one(SHARES)
        source, target = as_typed(draw, FAMILIES[family][1](draw))
        if source not in seen and split_of(source) == split:
            seen.add(source)
            yield Example(source, target, family, resolve(source) if family == "coreference" else None)


def _lecture_examples() -> Iterator[Example]:
    for shorten in (False, True):
        for source, target in LECTURE_SENTENCES:
            spoken = source.replace("did not", "didn't") if shorten else source
            yield Example(spoken, target, "coreference", resolve(spoken))


def split_of(source: str) -> str:
    """The split that an English sentence belongs to: five in a hundred are for validation, ten for the test.

    Sentences of less than two such words, 'Yes, I do' or 'Dance!', are for training: nothing else shows what they mean.
    """
    words = combination(source)
    if words in _HELD_OUT:
        return "test"
    if " " not in words or words in _TRAIN_ONLY:
        return "train"
    digest = hashlib.blake2b(words.encode(), digest_size=8, person=_SHUFFLE).digest()
    hundredth = int.from_bytes(digest, "big") % 100
    return "test" if hundredth < 10 else "valid" if hundredth < 15 else "train"


def pronoun_accuracy(sources: Iterable[str], hypotheses: Iterable[str]) -> tuple[int, int]:
    """How many translations have the right pronoun after 'weil', of how many sources of the coreference family."""
    right = total = 0
    for source, hypothesis in zip(sources, hypotheses, strict=True):
        if coreference := resolve(source):
            match = _PRONOUN.search(hypothesis)
            total += 1
            right += match is not None and match[1].lower() == coreference.pronoun
    return right, total


KINDS = {
    "people": "person child",
    "animals": "animal",
    "food and drink": "food drink",
    "things": "thing text container",
    "clothes": "clothing",
    "vehicles": "vehicle",
    "places": "way passage height place",
    "events": "event",
}
"""The nouns' kinds as people would group them."""
FUNCTION_WORDS = {
    "pronouns": "I me, you, he him, she her, it, we us, they them",
    "determiners": f"the, a, an, no, this, that, these, those, {', '.join(one.english for one in POSSESSIVES)}, Anna's",
    "auxiliaries": "be, have, do, will, going to, can, could, may, must, should, would like to, have to, let (let's)",
    "question words": "who, whom, what, which, where, when, why, how, how much, how old …",
    "prepositions": "in, on, under, behind, beside, in front of, into, onto, through, to, for, with, without, of, by",
    "conjunctions": "and, but, because, that, whether, if, when, while, although, than, as",
    "adverbs": "not, very, too, so, here, there, please, more, most",
    "times": "today, yesterday, tomorrow, in the morning, in the evening, in summer, in winter, last week, next week, "
    "at half past nine, at a quarter to two, at ten o'clock, on the first of May",
    "numbers": "two … ninety-nine, one hundred … nine hundred (euros, years old)",
}


def lexicon() -> dict[str, list[str]]:
    """The words by group; verbs, nouns and adjectives in their dictionary form, though all their forms are known."""
    groups: dict[str, list[str]] = {}
    for group, kinds in KINDS.items():
        groups[f"nouns: {group}"] = sorted(noun.english for noun in NOUNS.values() if noun.kind in kinds.split())
    verbs = {f"{verb.english.base} {verb.english.particle}".strip() for verb in VERBS.values()}
    groups["verbs"] = sorted(verbs)
    groups["adjectives"] = sorted(ADJECTIVES)
    groups["names"] = [name.text for name in NAMES]
    groups["cities"] = [city.english for city in CITIES]
    groups |= {group: words.split(", ") for group, words in FUNCTION_WORDS.items()}
    groups["days"] = [f"on {day.english}" for day in DAYS]
    groups["months"] = [month.english for month in MONTHS]
    groups["answers and greetings"] = list(dict.fromkeys(source for source, _ in IDIOMS))
    return groups
