"""What a sentence says, without how it is said: the dictionary forms of its content words."""

from collections.abc import Iterator
from functools import cache

from regard.data.street.adjectives import ADJECTIVES
from regard.data.street.cast import CITIES, NAMES
from regard.data.street.nouns import NOUNS
from regard.data.street.numerals import MONTHS, cardinal, ordinal
from regard.data.street.verbs import VERBS

AUXILIARY = ("be", "have", "want")
"""Verbs that tell the tense or the mood, but not what happens."""


def combination(source: str) -> str:
    """The content words of an English sentence, in their order: 'animal cross street tired'.

    Articles, pronouns, tense, number, negation, degree and the time of the week make no difference to it.
    """
    forms = _dictionary()
    words = source.lower().replace(",", "").rstrip(".?").split()
    return " ".join(forms[word] for word in words if word in forms)


@cache
def _dictionary() -> dict[str, str]:
    return {form.lower(): name for name, forms in _lexemes() for form in forms}


def _lexemes() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each English content word by its dictionary form, with all its forms."""
    for noun in NOUNS.values():
        yield noun.english, (noun.english, noun.in_english(plural=True))
    for verb in VERBS.values():
        if verb.english.base not in AUXILIARY:
            english = verb.english
            yield english.base, (english.base, english.third, english.past, english.participle)
    for adjective in ADJECTIVES.values():
        comparison = adjective.english_comparative, adjective.english_superlative
        yield adjective.english, (adjective.english, *comparison)
    for word in (*(name.text for name in NAMES), *(city.english for city in CITIES), *(m.english for m in MONTHS)):
        yield word.lower(), (word,)
    for number in range(2, 100):
        yield cardinal(number).english, (cardinal(number).english,)
    for number in range(1, 32):
        yield ordinal(number).english, (ordinal(number).english,)
