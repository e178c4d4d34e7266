"""What a sentence says, without how it is said: the dictionary forms of its content words."""

import re
from collections.abc import Iterator
from functools import cache

from regard.data.street.adjectives import ADJECTIVES
from regard.data.street.cast import CITIES, NAMES
from regard.data.street.nouns import NOUNS
from regard.data.street.numerals import cardinal, ordinal
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
