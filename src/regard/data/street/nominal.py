"""Families of sentences about nouns: cases, prepositions, comparisons, numbers."""

from dataclasses import replace

from regard.data.street import cast
from regard.data.street.adjectives import SUITING, qualities
from regard.data.street.clauses import Clause
from regard.data.street.determiners import THE, counting
from regard.data.street.draw import Draw
from regard.data.street.nouns import NOUNS, named, of_kind
from regard.data.street.numerals import cardinal
from regard.data.street.phrases import HER, HIM, THEM, Nominal, NounPhrase, Phrase, Preposition
from regard.data.street.tenses import BE, NARRATIVE, PRESENT
from regard.data.street.verbal import told
from regard.data.street.verbs import VERBS
from regard.data.street.words import Adjective

LANDMARKS = named("house tree church school hotel tower door car")
IN = Preposition("in", "in", "dative")
ON = Preposition("on", "auf", "dative")
SURFACES = named("table chair bed roof wall carpet bridge meadow")
SPOTS = (
    (IN, cast.ROOMS),
    (ON, SURFACES),
    (Preposition("under", "unter", "dative"), named("table chair bed tree bridge window")),
    (Preposition("behind", "hinter", "dative"), LANDMARKS),
    (Preposition("beside", "neben", "dative"), LANDMARKS),
    (Preposition("in front of", "vor", "dative"), LANDMARKS),
)
TARGETS = (
    (VERBS["laufen"], cast.INTO, cast.ROOMS),
    (VERBS["springen"], cast.ONTO, SURFACES),
    (VERBS["klettern"], cast.ONTO, of_kind("height")),
)
WITH_PREPOSITION = (
    (VERBS["warten"], Preposition("for", "auf", "accusative"), cast.PEOPLE + named("train bus")),
    (VERBS["lachen"], Preposition("at", "über", "accusative"), cast.PEOPLE + cast.ANIMALS),
    (VERBS["denken"], Preposition("of", "an", "accusative"), cast.PEOPLE + cast.EVENTS),
    (VERBS["träumen"], Preposition("of", "von", "dative"), cast.PEOPLE + cast.ANIMALS),
    (VERBS["erinnern"], Preposition("", "an", "accusative"), cast.PEOPLE + cast.EVENTS),
    (VERBS["fürchten"], Preposition("", "vor", "dative"), cast.PEOPLE + cast.ANIMALS),
    (VERBS["freuen"], Preposition("to", "auf", "accusative"), cast.EVENTS),
)
COMPARABLE = {
    "person": qualities("old young strong clever fast rich"),
    "animal": qualities("old young big small strong clever fast slow heavy"),
    "thing": qualities("old big small heavy beautiful expensive cheap"),
    "vehicle": qualities("old big small fast slow heavy expensive long wide high"),
}
WARES = tuple(noun for noun in cast.THINGS + cast.CLOTHES + cast.FOOD if noun.english_plural)
COUNTING = (
    *((VERBS[verb], WARES) for verb in ("kaufen", "verkaufen", "brauchen")),
    *((VERBS[verb], cast.ANIMALS) for verb in ("sehen", "finden")),
)
CHAMPIONS = tuple(noun for noun in cast.ANIMALS if noun is not NOUNS["animal"])
LYING = named("letter book picture pillow guitar") + cast.CLOTHES
GIVING = tuple(VERBS[verb] for verb in ("geben", "zeigen", "schicken", "leihen", "bringen", "anbieten"))
HELPING = tuple(VERBS[verb] for verb in ("helfen", "danken", "folgen"))
EUROS, YEARS_OLD = Phrase("euros", "Euro"), Phrase("years old", "Jahre alt")


def two_objects(draw: Draw) -> Phrase:
    """'The teacher gives the boy a book': German tells the two objects apart by case."""
    tense = cast.any_tense(draw)
    given = cast.phrase(draw, cast.THINGS + cast.CLOTHES)
    giver = cast.person(draw)
    clause = Clause(giver, draw.one(GIVING), tense, accusative=given, dative=_receiver(draw, giver))
    return told(draw, replace(clause, dative_with_to=draw.chance(0.3)))


def dative(draw: Draw) -> Phrase:
    """'Anna helps him': some verbs take a dative where English has a plain object."""
    tense = cast.any_tense(draw)
    helper = cast.person(draw)
    return told(draw, Clause(helper, draw.one(HELPING), tense, dative=_receiver(draw, helper)))


def _receiver(draw: Draw, giver: Nominal) -> Nominal:
    if draw.chance(0.3):
        return draw.one((HIM, HER, THEM))
    return cast.phrase(draw, cast.PEOPLE, besides=giver) if draw.chance(0.5) else cast.somebody(draw, giver)


def company(draw: Draw) -> Phrase:
    """'The boy dances without his sister', 'Anna buys a hat for me': prepositions of one case."""
    somebody, tense = cast.person(draw), draw.one(NARRATIVE)
    if draw.chance(0.5):
        verb = VERBS[draw.one(("arbeiten", "spielen", "tanzen", "warten"))]
        preposition = draw.one((cast.WITH, cast.WITHOUT))
        return told(draw, Clause(somebody, verb, tense, complement=preposition.before(_receiver(draw, somebody))))
    clause = cast.action(draw, somebody, tense, cast.MAKING)
    return told(draw, replace(clause, complement=cast.FOR.before(_receiver(draw, somebody))))


def prepositional(draw: Draw) -> Phrase:
    """'Anna remembers the teacher': objects that German attaches by a preposition, with some verbs beside 'sich'."""
    if draw.chance(0.15):
        verb = VERBS[draw.one(("ausruhen", "beeilen"))]
        return told(draw, Clause(cast.person(draw), verb, cast.any_tense(draw)))
    somebody = cast.person(draw)
    verb, preposition, nouns = draw.one(WITH_PREPOSITION)
    what = preposition.before(cast.phrase(draw, nouns, plurals=0, besides=somebody))
    return told(draw, Clause(somebody, verb, draw.one(NARRATIVE), complement=what))


def place(draw: Draw) -> Phrase:
    """'The cat sleeps on the table', 'The cat jumps onto the table': dative says where, accusative where to."""
    tense = draw.one(NARRATIVE)
    if draw.chance(0.15):
        thing, spot = cast.phrase(draw, LYING), ON.before(cast.phrase(draw, SURFACES, plurals=0))
        return told(draw, Clause(thing, VERBS["liegen"], tense, complement=spot))
    somebody = cast.phrase(draw, cast.ANIMALS) if draw.chance(0.5) else cast.person(draw)
    if draw.chance(0.4):
        verb, preposition, nouns = draw.one(TARGETS)
    else:
        verb = VERBS[draw.one(("schlafen", "sitzen", "stehen", "warten", "spielen"))]
        preposition, nouns = draw.one(SPOTS)
    return told(draw, Clause(somebody, verb, tense, complement=preposition.before(cast.phrase(draw, nouns, plurals=0))))


def comparison(draw: Draw) -> Phrase:
    """'The dog is bigger than the cat', 'as big as', 'the biggest animal': the three degrees."""
    if draw.chance(0.2):
        return _superlative(draw)
    (first, second), adjective = _comparable(draw)
    other = second.english("nominative"), second.german("nominative")
    tense, alike = draw.one(NARRATIVE), draw.chance(0.4)
    if alike:
        what = Phrase(f"as {adjective.english} as {other[0]}", f"so {adjective.german} wie {other[1]}")
        return told(draw, Clause(first, BE, tense, complement=what, negated=draw.chance(0.5)))
    what = Phrase(f"{adjective.english_comparative} than {other[0]}", f"{adjective.german_comparative} als {other[1]}")
    return told(draw, Clause(first, BE, tense, complement=what))


def _comparable(draw: Draw) -> tuple[tuple[Nominal, Nominal], Adjective]:
    if draw.chance(0.3):
        return draw.two(cast.NAMES), draw.one(COMPARABLE["person"])
    nouns = draw.one((cast.ADULTS, cast.ANIMALS, cast.THINGS, cast.VEHICLES))
    first, second = draw.two(nouns)
    plural = draw.chance(0.2)
    pair = NounPhrase(THE, first, plural=plural), NounPhrase(THE, second, plural=plural)
    return pair, draw.one(COMPARABLE[first.kind])


def _superlative(draw: Draw) -> Phrase:
    adjective = draw.one(COMPARABLE["animal"])
    most = replace(adjective, english=adjective.english_superlative, german_stem=adjective.german_superlative)
    champion = NounPhrase(THE, NOUNS["animal"], most)
    where = IN.before(NounPhrase(THE, draw.one(named("village forest city park garden"))))
    title = Phrase(
        f"{champion.english('nominative')} {where.english}", f"{champion.german('nominative')} {where.german}"
    )
    return told(draw, Clause(cast.the(draw, CHAMPIONS), BE, draw.one(NARRATIVE), complement=title))


def numbers(draw: Draw) -> Phrase:
    """'Anna buys twenty-one apples', 'The lamp costs thirty-two euros': German says the units first."""
    number = cardinal(draw.between(2, 12) if draw.chance(0.3) else draw.between(13, 99))
    if draw.chance(0.5):
        return _counted(draw, number)
    if draw.chance(0.4):
        somebody = draw.one(cast.NAMES) if draw.chance(0.5) else cast.the(draw, cast.ADULTS)
        return told(draw, Clause(somebody, BE, draw.one(NARRATIVE), complement=_of(number, YEARS_OLD)))
    if draw.chance(0.3):
        number = cardinal(draw.between(1, 9) * 100)
    goods = cast.the(draw, cast.THINGS + cast.CLOTHES)
    return told(draw, Clause(goods, VERBS["kosten"], PRESENT, complement=_of(number, EUROS)))


def _counted(draw: Draw, number: Phrase) -> Phrase:
    verb, nouns = draw.one(COUNTING)
    noun = draw.one(nouns)
    adjective = draw.one(SUITING[noun.kind]) if draw.chance(0.3) else None
    several = NounPhrase(counting(*number), noun, adjective, plural=True)
    return told(draw, Clause(cast.person(draw), verb, draw.one(NARRATIVE), accusative=several))


def _of(number: Phrase, unit: Phrase) -> Phrase:
    return Phrase(f"{number.english} {unit.english}", f"{number.german} {unit.german}")
