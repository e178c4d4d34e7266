"""Seeded random choices: who does what to whom, and when, such that subject, verb, object and time go together."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from regard.data.street.clauses import Clause
from regard.data.street.nouns import SUITING, named, of_kind
from regard.data.street.numerals import DAYS, DAYS_OF_MONTH, MINUTES, clock, date
from regard.data.street.phrases import (
    BARE,
    HER,
    HIM,
    ME,
    POSSESSIVES,
    THE,
    THEM,
    THESE,
    THIS,
    US,
    A,
    Determiner,
    Name,
    Nominal,
    NounPhrase,
    Phrase,
    Preposition,
)
from regard.data.street.verbs import COULD, FUTURE, HAD_TO, MODALS, PAST, PERFECT, PRESENT, VERBS, WANTED_TO, Tense
from regard.data.street.words import Noun, Verb

Item = TypeVar("Item")


class Draw:
    """A seeded random generator, the same on every machine: Python guarantees only `random()` never to change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def one(self, items: Sequence[Item]) -> Item:
        """One of the items, each equally often."""
        return items[int(self._random() * len(items))]

    def two(self, items: Sequence[Item]) -> tuple[Item, Item]:
        """Two different ones, in random order."""
        first = int(self._random() * len(items))
        step = 1 + int(self._random() * (len(items) - 1))
        return items[first], items[(first + step) % len(items)]

    def chance(self, probability: float) -> bool:
        """True this often."""
        return self._random() < probability

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self._random() * (high - low + 1))


AT_ANY_TIME = (
    Phrase("today", "heute"),
    Phrase("in the morning", "am Morgen"),
    Phrase("in the evening", "am Abend"),
    Phrase("in summer", "im Sommer"),
    Phrase("in winter", "im Winter"),
    *(Phrase(f"on {day.english}", f"am {day.german}") for day in DAYS),
)
IN_THE_PAST = (Phrase("yesterday", "gestern"), Phrase("last week", "letzte Woche"), *AT_ANY_TIME)
IN_THE_FUTURE = (Phrase("tomorrow", "morgen"), Phrase("next week", "nächste Woche"), *AT_ANY_TIME)


def some_time(draw: Draw, tense: Tense) -> Phrase:
    """A phrase that goes with the tense."""
    if tense in (PAST, COULD, HAD_TO, WANTED_TO):
        return draw.one(IN_THE_PAST)
    return draw.one(IN_THE_FUTURE if tense is FUTURE else AT_ANY_TIME)


def exact_time(draw: Draw) -> Phrase:
    """A time of the clock or a day of the year."""
    if draw.chance(0.5):
        return clock(draw.between(1, 12), draw.one((*MINUTES, 30, 30)))
    month = draw.between(1, 12)
    return date(draw.between(1, DAYS_OF_MONTH[month - 1]), month)


NAMES = (
    *(Name(text, HER) for text in ("Anna", "Maria", "Julia", "Lena", "Clara", "Sophie")),
    *(Name(text, HIM) for text in ("Peter", "Paul", "Thomas", "Max", "Jonas", "Karl")),
)
CITIES = (
    *(Phrase(city, city) for city in ("Berlin", "Hamburg", "Paris", "London")),
    *(Phrase("Vienna", "Wien"), Phrase("Munich", "München"), Phrase("Cologne", "Köln"), Phrase("Rome", "Rom")),
)
ADULTS, ANIMALS, THINGS, CLOTHES = map(of_kind, ("person", "animal", "thing", "clothing"))
FOOD, DRINKS, VEHICLES = map(of_kind, ("food", "drink", "vehicle"))
PEOPLE = ADULTS + of_kind("child")
EVENTS = named("film party concert")
GOALS = named("garden forest park market store station school church village hotel museum")
INTERIORS = named("garden forest park store station kitchen school church city village hotel museum room tent house")

PARENTS = named("mother father")
ONES_OWN = named("child friend teacher doctor neighbour student guest aunt uncle sister brother") + PARENTS
"""The people whom one may call 'my'."""

FOR = Preposition("for", "für", "accusative")
INTO = Preposition("into", "in", "accusative")
ONTO = Preposition("onto", "auf", "accusative")
TO = Preposition("to", "zu", "dative")
WITH = Preposition("with", "mit", "dative")
WITHOUT = Preposition("without", "ohne", "accusative")


@dataclass(frozen=True, slots=True)
class Doing:
    """A verb and what it can be done to."""

    verb: Verb
    objects: tuple[Noun, ...]


def _doings(table: dict[str, tuple[Noun, ...]]) -> tuple[Doing, ...]:
    return tuple(Doing(VERBS[verb], objects) for verb, objects in table.items())


MAKING = _doings(
    {
        "schreiben": named("letter book song"),
        "singen": named("song"),
        "malen": ANIMALS + named("picture tree house church bridge"),
        "reparieren": VEHICLES + named("clock lamp bicycle radio roof door"),
        "waschen": CLOTHES + named("car glass bicycle"),
        "backen": named("cake bread roll"),
        "kochen": named("potato egg fish meat carrot"),
        "kaufen": THINGS + CLOTHES + FOOD,
    }
)
"""What one can do for somebody."""
HANDLING = _doings(
    {
        "verkaufen": THINGS + CLOTHES + VEHICLES,
        "finden": ANIMALS + THINGS + CLOTHES,
        "essen": FOOD,
        "trinken": DRINKS,
    }
)
ENCOUNTERS = _doings(
    {
        "sehen": PEOPLE + ANIMALS,
        "suchen": PEOPLE + ANIMALS,
        "besuchen": PEOPLE,
        "hören": PEOPLE + ANIMALS,
    }
)
SEPARABLE = _doings(
    {
        "anrufen": PEOPLE,
        "einladen": PEOPLE,
        "abholen": PEOPLE,
        "aufmachen": named("door window gate box bag drawer cupboard suitcase"),
        "zumachen": named("door window gate box bag drawer cupboard suitcase"),
        "mitbringen": THINGS + FOOD,
        "wegwerfen": named("letter picture vase chair clock lamp pillow carpet hat coat"),
        "einschalten": named("lamp radio machine"),
        "ausschalten": named("lamp radio machine"),
        "anprobieren": CLOTHES,
    }
)
ACTIONS = MAKING + HANDLING + ENCOUNTERS + _doings({"vergessen": THINGS + CLOTHES})
STATES = _doings({"lieben": PEOPLE + ANIMALS, "kennen": PEOPLE, "brauchen": THINGS + CLOTHES})
"""What one does not do at a certain time, nor because one must."""
COMING_AND_GOING = tuple(VERBS[verb] for verb in ("ankommen", "zurückkommen", "aufstehen", "einschlafen"))


def any_tense(draw: Draw) -> Tense:
    """A simple tense, the perfect or a modal verb."""
    return draw.one((PRESENT, PAST, PERFECT, draw.one(MODALS)))


def person(draw: Draw, pronouns: bool = True) -> Nominal:
    """Somebody, to be the subject of a sentence."""
    if draw.chance(0.35):
        return draw.one(NAMES)
    if pronouns and draw.chance(0.3):
        return draw.one((ME, ME, ME, HIM, HER, US, THEM))
    return phrase(draw, PEOPLE)


def somebody(draw: Draw, other_than: Nominal | None = None) -> Nominal:
    """Somebody in few words: a name, or 'the' and a noun."""
    person = draw.one(NAMES) if draw.chance(0.5) else the(draw, PEOPLE, plurals=0.4)
    return somebody(draw, other_than) if person == other_than else person


def phrase(draw: Draw, nouns: tuple[Noun, ...], plurals: float = 0.3, besides: Nominal | None = None) -> NounPhrase:
    """Some noun phrase about one of these nouns, though not the one that `besides` is about."""
    noun = _noun(draw, nouns, besides)
    plural = noun.english_plural is not None and draw.chance(plurals)
    adjective = draw.one(SUITING[noun.kind]) if draw.chance(0.25) else None
    return NounPhrase(_determiner(draw, noun, plural), noun, adjective, plural)


def the(draw: Draw, nouns: tuple[Noun, ...], plurals: float = 0.0, besides: Nominal | None = None) -> NounPhrase:
    """No more than 'the' and one of these nouns."""
    noun = _noun(draw, nouns, besides)
    return NounPhrase(THE, noun, plural=noun.english_plural is not None and draw.chance(plurals))


def some(draw: Draw, nouns: tuple[Noun, ...]) -> NounPhrase:
    """Something indefinite, one or several."""
    noun, plural = draw.one(nouns), draw.chance(0.3)
    return NounPhrase(BARE if plural else A, noun, plural=plural)


def _noun(draw: Draw, nouns: tuple[Noun, ...], besides: Nominal | None) -> Noun:
    noun = draw.one(nouns)
    is_same = isinstance(besides, NounPhrase) and besides.noun is noun
    return _noun(draw, nouns, besides) if is_same else noun


def _determiner(draw: Draw, noun: Noun, plural: bool) -> Determiner:
    several_beings = plural and (noun.is_human or noun.kind == "animal")
    if draw.chance(0.45):
        return THE
    if draw.chance(0.5) and not several_beings:
        return BARE if plural or noun.english_plural is None else A
    if draw.chance(0.7) and _can_be_owned(noun, plural):
        return draw.one(POSSESSIVES)
    return THESE if plural else THIS


def _can_be_owned(noun: Noun, plural: bool) -> bool:
    if plural and noun in PARENTS:
        return False
    return noun in ONES_OWN or not noun.is_human


def action(draw: Draw, subject: Nominal, tense: Tense, doings: tuple[Doing, ...] = ACTIONS) -> Clause:
    """Somebody does something to something."""
    doing = draw.one(doings)
    return Clause(subject, doing.verb, tense, accusative=phrase(draw, doing.objects, besides=subject))


def motion(draw: Draw, subject: Nominal, tense: Tense) -> Clause:
    """Somebody goes somewhere; all these verbs build their perfect with 'sein'."""
    if draw.chance(0.3):
        city = draw.one(CITIES)
        return Clause(subject, VERBS["reisen"], tense, complement=Phrase(f"to {city.english}", f"nach {city.german}"))
    if draw.chance(0.5):
        return Clause(subject, VERBS["gehen"], tense, complement=TO.before(the(draw, GOALS)))
    return Clause(subject, VERBS["laufen"], tense, complement=INTO.before(the(draw, INTERIORS)))
