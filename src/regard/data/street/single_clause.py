"""Families of sentences of one clause: about the verb (position, tense, negation) and about objects and cases."""

from dataclasses import replace

from regard.data.street import sampling
from regard.data.street.clauses import Clause, sentence
from regard.data.street.nouns import NOUNS, SUITING, named, of_kind, qualities
from regard.data.street.numerals import cardinal
from regard.data.street.phrases import (
    HER,
    HIM,
    THE,
    THEM,
    WHICH,
    WHO,
    Nominal,
    NounPhrase,
    Phrase,
    Preposition,
    counting,
)
from regard.data.street.sampling import Draw, exact_time, some_time
from regard.data.street.verbs import (
    BE,
    CAN,
    COULD,
    FUTURE,
    MODALS,
    NARRATIVE,
    PASSIVE,
    PASSIVE_PAST,
    PAST,
    PERFECT,
    PRESENT,
    VERBS,
)
from regard.data.street.words import Adjective

SCHEDULED = named("train bus ship carriage")
TRAVELLING = (VERBS["ankommen"], VERBS["abfahren"])
BY = Preposition("by", "von", "dative")


def as_statement(draw: Draw, clause: Clause) -> Phrase:
    """The clause as a statement, which opens with the time as often as with the subject."""
    time_first = draw.chance(0.5)
    return sentence(clause.english(time_first), clause.german(time_first))


def statement(draw: Draw) -> Phrase:
    """'On Monday Anna bought a red car': the German verb stays second, whatever comes first."""
    tense = draw.one(NARRATIVE)
    if draw.chance(0.5):
        return as_statement(
            draw, sampling.action(draw, sampling.person(draw), tense, sampling.ACTIONS + sampling.STATES)
        )
    return as_statement(draw, replace(sampling.action(draw, sampling.person(draw), tense), time=some_time(draw, tense)))


def perfect(draw: Draw) -> Phrase:
    """'Anna has travelled to Vienna': the participle closes the clause, and motion takes 'sein'."""
    make = sampling.motion if draw.chance(0.4) else sampling.action
    return as_statement(draw, make(draw, sampling.person(draw), PERFECT))


def modal(draw: Draw) -> Phrase:
    """'Anna must buy the book': the infinitive closes the clause."""
    make = sampling.motion if draw.chance(0.2) else sampling.action
    return as_statement(draw, make(draw, sampling.person(draw), draw.one(MODALS)))


def separable(draw: Draw) -> Phrase:
    """'Anna calls the doctor': the prefix of 'anrufen' goes to the end, and in other tenses returns to its verb."""
    tense = draw.one((PRESENT, PRESENT, PAST, PAST, PERFECT, draw.one(MODALS)))
    if draw.chance(0.8):
        return as_statement(draw, sampling.action(draw, sampling.person(draw), tense, sampling.SEPARABLE))
    clause = Clause(sampling.person(draw), draw.one(sampling.COMING_AND_GOING), tense)
    return as_statement(draw, clause if tense is PERFECT else replace(clause, time=some_time(draw, tense)))


def times(draw: Draw) -> Phrase:
    """'The train arrives at half past nine': German counts half an hour towards the next one."""
    tense, when = draw.one((PRESENT, PAST, FUTURE)), exact_time(draw)
    if draw.chance(0.4):
        return as_statement(draw, Clause(sampling.person(draw), draw.one(sampling.COMING_AND_GOING), tense, time=when))
    if draw.chance(0.6):
        return as_statement(draw, Clause(sampling.the(draw, SCHEDULED), draw.one(TRAVELLING), tense, time=when))
    return as_statement(draw, Clause(sampling.the(draw, sampling.EVENTS), VERBS["anfangen"], tense, time=when))


def passive(draw: Draw) -> Phrase:
    """'The cake was baked by the chef': what is acted on becomes the subject."""
    doing = draw.one(sampling.MAKING + sampling.HANDLING)
    agent = sampling.person(draw, pronouns=False)
    tense = draw.one((PASSIVE, PASSIVE_PAST, PASSIVE_PAST))
    return as_statement(
        draw, Clause(sampling.the(draw, doing.objects, 0.2), doing.verb, tense, complement=BY.before(agent))
    )


def negation(draw: Draw) -> Phrase:
    """'Anna does not have a dog': German denies with 'nicht', but what is indefinite with 'kein'."""
    shortened, subject = draw.chance(0.3), sampling.person(draw)
    if draw.chance(0.3):
        owned = sampling.some(draw, sampling.ANIMALS + sampling.THINGS)
        clause = Clause(subject, VERBS["haben"], draw.one(NARRATIVE), accusative=owned)
    else:
        doings = draw.one((sampling.ACTIONS, sampling.ACTIONS, sampling.SEPARABLE))
        clause = sampling.action(draw, subject, draw.one((*NARRATIVE, PERFECT, CAN, COULD, FUTURE)), doings)
    return as_statement(draw, replace(clause, negated=True, shortened=shortened))


def question(draw: Draw) -> Phrase:
    """'When does the train arrive?': English asks with 'do', German by putting the verb first."""
    return draw.one((_yes_or_no, _yes_or_no, _who, _which, _why, _when, _how_much))(draw)


def _yes_or_no(draw: Draw) -> Phrase:
    somebody = sampling.somebody(draw)
    if draw.chance(0.4):
        return as_question(sampling.action(draw, somebody, PRESENT, sampling.HANDLING + sampling.ENCOUNTERS))
    tense = draw.one((PERFECT, draw.one(MODALS)))
    return as_question(sampling.action(draw, somebody, tense, draw.one((sampling.ACTIONS, sampling.SEPARABLE))))


def _who(draw: Draw) -> Phrase:
    clause = sampling.action(draw, WHO, draw.one((PRESENT, PAST, PERFECT)))
    return sentence(clause.english(), clause.german(), "?")


def _which(draw: Draw) -> Phrase:
    doing = draw.one(sampling.ACTIONS)
    which = NounPhrase(WHICH, draw.one(doing.objects))
    clause = Clause(sampling.person(draw), doing.verb, draw.one((PRESENT, PERFECT)))
    return as_question(clause, which.english("accusative"), which.german("accusative"))


def _why(draw: Draw) -> Phrase:
    return as_question(sampling.action(draw, sampling.person(draw), draw.one((PRESENT, PERFECT))), "why", "warum")


def _when(draw: Draw) -> Phrase:
    tense = draw.one(NARRATIVE)
    clause = Clause(sampling.the(draw, SCHEDULED), draw.one(TRAVELLING), tense)
    if draw.chance(0.5):
        clause = Clause(sampling.person(draw), draw.one(sampling.COMING_AND_GOING), tense)
    return as_question(clause, "when", "wann")


def _how_much(draw: Draw) -> Phrase:
    goods = sampling.phrase(draw, sampling.THINGS + sampling.CLOTHES + sampling.VEHICLES)
    return as_question(Clause(goods, VERBS["kosten"], PRESENT), "how much", "wie viel")


def as_question(clause: Clause, english: str = "", german: str = "") -> Phrase:
    """The clause as a question, after a question word if there is one."""
    return sentence(clause.english_question(english), clause.german_inverted(german), "?")


LANDMARKS = named("house tree church school hotel tower door car")
IN = Preposition("in", "in", "dative")
ON = Preposition("on", "auf", "dative")
SURFACES = named("table chair bed roof wall carpet bridge meadow")
SPOTS = (
    (IN, sampling.INTERIORS),
    (ON, SURFACES),
    (Preposition("under", "unter", "dative"), named("table chair bed tree bridge window")),
    (Preposition("behind", "hinter", "dative"), LANDMARKS),
    (Preposition("beside", "neben", "dative"), LANDMARKS),
    (Preposition("in front of", "vor", "dative"), LANDMARKS),
)
TARGETS = (
    (VERBS["laufen"], sampling.INTO, sampling.INTERIORS),
    (VERBS["springen"], sampling.ONTO, SURFACES),
    (VERBS["klettern"], sampling.ONTO, of_kind("height")),
)
WITH_PREPOSITION = (
    (VERBS["warten"], Preposition("for", "auf", "accusative"), sampling.PEOPLE + named("train bus")),
    (VERBS["lachen"], Preposition("at", "über", "accusative"), sampling.PEOPLE + sampling.ANIMALS),
    (VERBS["denken"], Preposition("of", "an", "accusative"), sampling.PEOPLE + sampling.EVENTS),
    (VERBS["träumen"], Preposition("of", "von", "dative"), sampling.PEOPLE + sampling.ANIMALS),
    (VERBS["erinnern"], Preposition("", "an", "accusative"), sampling.PEOPLE + sampling.EVENTS),
    (VERBS["fürchten"], Preposition("", "vor", "dative"), sampling.PEOPLE + sampling.ANIMALS),
    (VERBS["freuen"], Preposition("to", "auf", "accusative"), sampling.EVENTS),
)
COMPARABLE = {
    "person": qualities("old young strong clever fast rich"),
    "animal": qualities("old young big small strong clever fast slow heavy"),
    "thing": qualities("old big small heavy beautiful expensive cheap"),
    "vehicle": qualities("old big small fast slow heavy expensive long wide high"),
}
WARES = tuple(noun for noun in sampling.THINGS + sampling.CLOTHES + sampling.FOOD if noun.english_plural)
COUNTING = (
    *((VERBS[verb], WARES) for verb in ("kaufen", "verkaufen", "brauchen")),
    *((VERBS[verb], sampling.ANIMALS) for verb in ("sehen", "finden")),
)
CHAMPIONS = tuple(noun for noun in sampling.ANIMALS if noun is not NOUNS["animal"])
LYING = named("letter book picture pillow guitar") + sampling.CLOTHES
GIVING = tuple(VERBS[verb] for verb in ("geben", "zeigen", "schicken", "leihen", "bringen", "anbieten"))
HELPING = tuple(VERBS[verb] for verb in ("helfen", "danken", "folgen"))
EUROS, YEARS_OLD = Phrase("euros", "Euro"), Phrase("years old", "Jahre alt")


def two_objects(draw: Draw) -> Phrase:
    """'The teacher gives the boy a book': German tells the two objects apart by case."""
    tense = sampling.any_tense(draw)
    gift = sampling.phrase(draw, sampling.THINGS + sampling.CLOTHES)
    giver = sampling.person(draw)
    clause = Clause(giver, draw.one(GIVING), tense, accusative=gift, dative=_receiver(draw, giver))
    return as_statement(draw, replace(clause, dative_with_to=draw.chance(0.3)))


def dative(draw: Draw) -> Phrase:
    """'Anna helps him': some verbs take a dative where English has a plain object."""
    tense = sampling.any_tense(draw)
    helper = sampling.person(draw)
    return as_statement(draw, Clause(helper, draw.one(HELPING), tense, dative=_receiver(draw, helper)))


def _receiver(draw: Draw, giver: Nominal) -> Nominal:
    if draw.chance(0.3):
        return draw.one((HIM, HER, THEM))
    return sampling.phrase(draw, sampling.PEOPLE, besides=giver) if draw.chance(0.5) else sampling.somebody(draw, giver)


def company(draw: Draw) -> Phrase:
    """'The boy dances without his sister', 'Anna buys a hat for me': prepositions of one case."""
    somebody, tense = sampling.person(draw), draw.one(NARRATIVE)
    if draw.chance(0.5):
        verb = VERBS[draw.one(("arbeiten", "spielen", "tanzen", "warten"))]
        preposition = draw.one((sampling.WITH, sampling.WITHOUT))
        return as_statement(
            draw, Clause(somebody, verb, tense, complement=preposition.before(_receiver(draw, somebody)))
        )
    clause = sampling.action(draw, somebody, tense, sampling.MAKING)
    return as_statement(draw, replace(clause, complement=sampling.FOR.before(_receiver(draw, somebody))))


def prepositional(draw: Draw) -> Phrase:
    """'Anna remembers the teacher': objects that German attaches by a preposition, with some verbs beside 'sich'."""
    if draw.chance(0.15):
        verb = VERBS[draw.one(("ausruhen", "beeilen"))]
        return as_statement(draw, Clause(sampling.person(draw), verb, sampling.any_tense(draw)))
    somebody = sampling.person(draw)
    verb, preposition, nouns = draw.one(WITH_PREPOSITION)
    what = preposition.before(sampling.phrase(draw, nouns, plurals=0, besides=somebody))
    return as_statement(draw, Clause(somebody, verb, draw.one(NARRATIVE), complement=what))


def place(draw: Draw) -> Phrase:
    """'The cat sleeps on the table', 'The cat jumps onto the table': dative says where, accusative where to."""
    tense = draw.one(NARRATIVE)
    if draw.chance(0.15):
        thing, spot = sampling.phrase(draw, LYING), ON.before(sampling.phrase(draw, SURFACES, plurals=0))
        return as_statement(draw, Clause(thing, VERBS["liegen"], tense, complement=spot))
    somebody = sampling.phrase(draw, sampling.ANIMALS) if draw.chance(0.5) else sampling.person(draw)
    if draw.chance(0.4):
        verb, preposition, nouns = draw.one(TARGETS)
    else:
        verb = VERBS[draw.one(("schlafen", "sitzen", "stehen", "warten", "spielen"))]
        preposition, nouns = draw.one(SPOTS)
    return as_statement(
        draw, Clause(somebody, verb, tense, complement=preposition.before(sampling.phrase(draw, nouns, plurals=0)))
    )


def comparison(draw: Draw) -> Phrase:
    """'The dog is bigger than the cat', 'as big as', 'the biggest animal': the three degrees."""
    if draw.chance(0.2):
        return _superlative(draw)
    (first, second), adjective = _comparable(draw)
    other = second.english("nominative"), second.german("nominative")
    tense, alike = draw.one(NARRATIVE), draw.chance(0.4)
    if alike:
        what = Phrase(f"as {adjective.english} as {other[0]}", f"so {adjective.german} wie {other[1]}")
        return as_statement(draw, Clause(first, BE, tense, complement=what, negated=draw.chance(0.5)))
    what = Phrase(f"{adjective.english_comparative} than {other[0]}", f"{adjective.german_comparative} als {other[1]}")
    return as_statement(draw, Clause(first, BE, tense, complement=what))


def _comparable(draw: Draw) -> tuple[tuple[Nominal, Nominal], Adjective]:
    if draw.chance(0.3):
        return draw.two(sampling.NAMES), draw.one(COMPARABLE["person"])
    nouns = draw.one((sampling.ADULTS, sampling.ANIMALS, sampling.THINGS, sampling.VEHICLES))
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
    return as_statement(draw, Clause(sampling.the(draw, CHAMPIONS), BE, draw.one(NARRATIVE), complement=title))


def numbers(draw: Draw) -> Phrase:
    """'Anna buys twenty-one apples', 'The lamp costs thirty-two euros': German says the units first."""
    number = cardinal(draw.between(2, 12) if draw.chance(0.3) else draw.between(13, 99))
    if draw.chance(0.5):
        return _counted(draw, number)
    if draw.chance(0.4):
        somebody = draw.one(sampling.NAMES) if draw.chance(0.5) else sampling.the(draw, sampling.ADULTS)
        return as_statement(draw, Clause(somebody, BE, draw.one(NARRATIVE), complement=_of(number, YEARS_OLD)))
    if draw.chance(0.3):
        number = cardinal(draw.between(1, 9) * 100)
    goods = sampling.the(draw, sampling.THINGS + sampling.CLOTHES)
    return as_statement(draw, Clause(goods, VERBS["kosten"], PRESENT, complement=_of(number, EUROS)))


def _counted(draw: Draw, number: Phrase) -> Phrase:
    verb, nouns = draw.one(COUNTING)
    noun = draw.one(nouns)
    adjective = draw.one(SUITING[noun.kind]) if draw.chance(0.3) else None
    several = NounPhrase(counting(*number), noun, adjective, plural=True)
    return as_statement(draw, Clause(sampling.person(draw), verb, draw.one(NARRATIVE), accusative=several))


def _of(number: Phrase, unit: Phrase) -> Phrase:
    return Phrase(f"{number.english} {unit.english}", f"{number.german} {unit.german}")
