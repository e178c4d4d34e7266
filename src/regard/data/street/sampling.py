"""Seeded random choices: who does what to whom, and when, such that subject, verb, object and time go together."""

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from regard.data.street.clauses import Clause, sentence
from regard.data.street.nouns import SUITING, by_verb, named, of_kind
from regard.data.street.phrases import (
    BARE,
    DAYS,
    DAYS_OF_MONTH,
    HER,
    HIM,
    ME,
    MINUTES,
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
    clock,
    date,
)
from regard.data.street.verbs import (
    COULD,
    FUTURE,
    HAD_TO,
    MODALS,
    PAST,
    PERFECT,
    PRESENT,
    VERBS,
    WANTED_TO,
    Tense,
    verbs_named,
)
from regard.data.street.words import Noun, Verb

Item = TypeVar("Item")

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

IN_CITY, TO_CITY = Phrase("in", "in"), Phrase("to", "nach")
FOR = Preposition("for", "für", "accusative")
INTO = Preposition("into", "in", "accusative")
ONTO = Preposition("onto", "auf", "accusative")
TO = Preposition("to", "zu", "dative")
WITH = Preposition("with", "mit", "dative")
WITHOUT = Preposition("without", "ohne", "accusative")


class Doing(NamedTuple):
    """A verb and what it can be done to."""

    verb: Verb
    objects: tuple[Noun, ...]


def _doings(table: str) -> tuple[Doing, ...]:
    return tuple(Doing(VERBS[verb], objects) for verb, objects in by_verb(table).items())


MAKING = _doings("""
schreiben letter book song
singen song
malen [animal] picture tree house church bridge
reparieren [vehicle] clock lamp bicycle radio roof door
waschen [clothing] car glass bicycle
backen cake bread roll
kochen potato egg fish meat carrot
kaufen [thing] [clothing] [food]
""")
"""What one can do for somebody."""
HANDLING = _doings("""
verkaufen [thing] [clothing] [vehicle]
finden [animal] [thing] [clothing]
essen [food]
trinken [drink]
""")
ENCOUNTERS = _doings("""
sehen/suchen [person] [child] [animal]
besuchen [person] [child]
hören [person] [child] [animal]
""")
SEPARABLE = _doings("""
anrufen/einladen/abholen [person] [child]
aufmachen/zumachen door window gate box bag drawer cupboard suitcase
mitbringen [thing] [food]
wegwerfen letter picture vase chair clock lamp pillow carpet hat coat
einschalten/ausschalten lamp radio machine
anprobieren [clothing]
""")
ACTIONS = MAKING + HANDLING + ENCOUNTERS + _doings("vergessen [thing] [clothing]")
STATES = _doings("""
lieben [person] [child] [animal]
kennen [person] [child]
brauchen [thing] [clothing]
""")
"""What one does not do at a certain time, nor because one must."""
COMING_AND_GOING = verbs_named("ankommen zurückkommen aufstehen einschlafen")


class Draw:
    """A seeded random generator, the same on every machine: Python guarantees only `random()` never to change."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def one(self, items: Sequence[Item]) -> Item:
        return items[int(self._random() * len(items))]

    def two(self, items: Sequence[Item]) -> tuple[Item, Item]:
        first = int(self._random() * len(items))
        step = 1 + int(self._random() * (len(items) - 1))
        return items[first], items[(first + step) % len(items)]

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self._random() * (high - low + 1))

    def statement(self, clause: Clause) -> Phrase:
        """The clause as a statement, which opens with the time as often as with the subject."""
        time_first = self.chance(0.5)
        return sentence(clause.english(time_first), clause.german(time_first))

    def some_time(self, tense: Tense) -> Phrase:
        """A phrase that goes with the tense."""
        if tense in (PAST, COULD, HAD_TO, WANTED_TO):
            return self.one(IN_THE_PAST)
        return self.one(IN_THE_FUTURE if tense is FUTURE else AT_ANY_TIME)

    def exact_time(self) -> Phrase:
        """A time of the clock or a day of the year."""
        if self.chance(0.5):
            return clock(self.between(1, 12), self.one((*MINUTES, 30, 30)))
        month = self.between(1, 12)
        return date(self.between(1, DAYS_OF_MONTH[month - 1]), month)

    def any_tense(self) -> Tense:
        """A simple tense, the perfect or a modal verb."""
        return self.one((PRESENT, PAST, PERFECT, self.one(MODALS)))

    def person(self, pronouns: bool = True) -> Nominal:
        """Somebody, to be the subject of a sentence."""
        if self.chance(0.35):
            return self.one(NAMES)
        if pronouns and self.chance(0.3):
            return self.one((ME, ME, ME, HIM, HER, US, THEM))
        return self.phrase(PEOPLE)

    def somebody(self, other_than: Nominal | None = None) -> Nominal:
        """Somebody in few words: a name, or 'the' and a noun."""
        person = self.one(NAMES) if self.chance(0.5) else self.the(PEOPLE, plurals=0.4)
        return self.somebody(other_than) if person == other_than else person

    def phrase(self, nouns: tuple[Noun, ...], plurals: float = 0.3, besides: Nominal | None = None) -> NounPhrase:
        """Some noun phrase about one of these nouns, though not the one that `besides` is about."""
        noun = self._noun(nouns, besides)
        plural = noun.english_plural is not None and self.chance(plurals)
        adjective = self.one(SUITING[noun.kind]) if self.chance(0.25) else None
        return NounPhrase(self._determiner(noun, plural), noun, adjective, plural)

    def the(self, nouns: tuple[Noun, ...], plurals: float = 0.0, besides: Nominal | None = None) -> NounPhrase:
        """No more than 'the' and one of these nouns."""
        noun = self._noun(nouns, besides)
        return NounPhrase(THE, noun, plural=noun.english_plural is not None and self.chance(plurals))

    def some(self, nouns: tuple[Noun, ...]) -> NounPhrase:
        """Something indefinite, one or several."""
        noun, plural = self.one(nouns), self.chance(0.3)
        return NounPhrase(BARE if plural else A, noun, plural=plural)

    def _noun(self, nouns: tuple[Noun, ...], besides: Nominal | None) -> Noun:
        noun = self.one(nouns)
        is_same = isinstance(besides, NounPhrase) and besides.noun is noun
        return self._noun(nouns, besides) if is_same else noun

    def _determiner(self, noun: Noun, plural: bool) -> Determiner:
        several_beings = plural and (noun.is_human or noun.kind == "animal")
        if self.chance(0.45):
            return THE
        if self.chance(0.5) and not several_beings:
            return BARE if plural or noun.english_plural is None else A
        if self.chance(0.7) and _can_be_owned(noun, plural):
            return self.one(POSSESSIVES)
        return THESE if plural else THIS

    def action(self, subject: Nominal, tense: Tense, doings: tuple[Doing, ...] = ACTIONS) -> Clause:
        doing = self.one(doings)
        return Clause(subject, doing.verb, tense, accusative=self.phrase(doing.objects, besides=subject))

    def motion(self, subject: Nominal, tense: Tense) -> Clause:
        """Somebody goes somewhere; all these verbs build their perfect with 'sein'."""
        if self.chance(0.3):
            return Clause(subject, VERBS["reisen"], tense, complement=TO_CITY.then(self.one(CITIES)))
        if self.chance(0.5):
            return Clause(subject, VERBS["gehen"], tense, complement=TO.before(self.the(GOALS)))
        return Clause(subject, VERBS["laufen"], tense, complement=INTO.before(self.the(INTERIORS)))


def _can_be_owned(noun: Noun, plural: bool) -> bool:
    if plural and noun in PARENTS:
        return False
    return noun in ONES_OWN or not noun.is_human


def stated(family: Callable[[Draw], Clause]) -> Callable[[Draw], Phrase]:
    """A family of clauses as one of statements."""
    return lambda draw: draw.statement(family(draw))
