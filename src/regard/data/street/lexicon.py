"""The words of the grammar: which content words a sentence combines, and all words in groups for readers."""

import re
from collections.abc import Iterator
from functools import cache

from regard.data.street.nouns import ADJECTIVES, NOUNS
from regard.data.street.numerals import DAYS, MONTHS, cardinal, ordinal
from regard.data.street.phrases import POSSESSIVES
from regard.data.street.sampling import CITIES, NAMES
from regard.data.street.talk import IDIOMS
from regard.data.street.verbs import VERBS

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
