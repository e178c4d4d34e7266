"""The English words of the grammar in groups, for people to read."""

from regard.data.street.adjectives import ADJECTIVES
from regard.data.street.cast import CITIES, NAMES
from regard.data.street.determiners import POSSESSIVES
from regard.data.street.nouns import NOUNS
from regard.data.street.numerals import DAYS, MONTHS
from regard.data.street.talk import IDIOMS
from regard.data.street.verbs import VERBS

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
