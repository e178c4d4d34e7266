"""Families of sentences of one clause: about the verb (position, tense, negation) and about objects and cases."""

from dataclasses import replace

from regard.data.street import sampling
from regard.data.street.clauses import Clause, as_question, sentence
from regard.data.street.nouns import NOUNS, SUITING, named, of_kind, qualities
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
    cardinal,
    counting,
)
from regard.data.street.sampling import Draw, stated
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
    verbs_named,
)
from regard.data.street.words import Adjective

SCHEDULED = named("train bus ship carriage")
TRAVELLING = verbs_named("ankommen abfahren")
BY = Preposition("by", "von", "dative")


@stated
def statement(draw: Draw) -> Clause:
    """'On Monday Anna bought a red car': the German verb stays second, whatever comes first."""
    tense = draw.one(NARRATIVE)
    if draw.chance(0.5):
        return draw.action(draw.person(), tense, sampling.ACTIONS + sampling.STATES)
    return replace(draw.action(draw.person(), tense), time=draw.some_time(tense))


@stated
def perfect(draw: Draw) -> Clause:
    """'Anna has travelled to Vienna': the participle closes the clause, and motion takes 'sein'."""
    make = draw.motion if draw.chance(0.4) else draw.action
    return make(draw.person(), PERFECT)


@stated
def modal(draw: Draw) -> Clause:
    """'Anna must buy the book': the infinitive closes the clause."""
    make = draw.motion if draw.chance(0.2) else draw.action
    return make(draw.person(), draw.one(MODALS))


@stated
def separable(draw: Draw) -> Clause:
    """'Anna calls the doctor': the prefix of 'anrufen' goes to the end, and in other tenses returns to its verb."""
    tense = draw.one((PRESENT, PRESENT, PAST, PAST, PERFECT, draw.one(MODALS)))
    if draw.chance(0.8):
        return draw.action(draw.person(), tense, sampling.SEPARABLE)
    clause = Clause(draw.person(), draw.one(sampling.COMING_AND_GOING), tense)
    return clause if tense is PERFECT else replace(clause, time=draw.some_time(tense))


@stated
def times(draw: Draw) -> Clause:
    """'The train arrives at half past nine': German counts half an hour towards the next one."""
    tense, when = draw.one((PRESENT, PAST, FUTURE)), draw.exact_time()
    if draw.chance(0.4):
        return Clause(draw.person(), draw.one(sampling.COMING_AND_GOING), tense, time=when)
    if draw.chance(0.6):
        return Clause(draw.the(SCHEDULED), draw.one(TRAVELLING), tense, time=when)
    return Clause(draw.the(sampling.EVENTS), VERBS["anfangen"], tense, time=when)


@stated
def passive(draw: Draw) -> Clause:
    """'The cake was baked by the chef': what is acted on becomes the subject."""
    doing = draw.one(sampling.MAKING + sampling.HANDLING)
    agent = draw.person(pronouns=False)
    tense = draw.one((PASSIVE, PASSIVE_PAST, PASSIVE_PAST))
    return Clause(draw.the(doing.objects, 0.2), doing.verb, tense, complement=BY.before(agent))


@stated
def negation(draw: Draw) -> Clause:
    """'Anna does not have a dog': German denies with 'nicht', but what is indefinite with 'kein'."""
    shortened, subject = draw.chance(0.3), draw.person()
    if draw.chance(0.3):
        owned = draw.some(sampling.ANIMALS + sampling.THINGS)
        clause = Clause(subject, VERBS["haben"], draw.one(NARRATIVE), accusative=owned)
    else:
        doings = draw.one((sampling.ACTIONS, sampling.ACTIONS, sampling.SEPARABLE))
        clause = draw.action(subject, draw.one((*NARRATIVE, PERFECT, CAN, COULD, FUTURE)), doings)
    return replace(clause, negated=True, shortened=shortened)


def question(draw: Draw) -> Phrase:
    """'When does the train arrive?': English asks with 'do', German by putting the verb first."""
    return draw.one((_yes_or_no, _yes_or_no, _who, _which, _why, _when, _how_much))(draw)


def _yes_or_no(draw: Draw) -> Phrase:
    somebody = draw.somebody()
    if draw.chance(0.4):
        return as_question(draw.action(somebody, PRESENT, sampling.HANDLING + sampling.ENCOUNTERS))
    tense = draw.one((PERFECT, draw.one(MODALS)))
    return as_question(draw.action(somebody, tense, draw.one((sampling.ACTIONS, sampling.SEPARABLE))))


def _who(draw: Draw) -> Phrase:
    clause = draw.action(WHO, draw.one((PRESENT, PAST, PERFECT)))
    return sentence(clause.english(), clause.german(), "?")


def _which(draw: Draw) -> Phrase:
    doing = draw.one(sampling.ACTIONS)
    which = NounPhrase(WHICH, draw.one(doing.objects))
    clause = Clause(draw.person(), doing.verb, draw.one((PRESENT, PERFECT)))
    return as_question(clause, which.english("accusative"), which.german("accusative"))


def _why(draw: Draw) -> Phrase:
    return as_question(draw.action(draw.person(), draw.one((PRESENT, PERFECT))), "why", "warum")


def _when(draw: Draw) -> Phrase:
    tense = draw.one(NARRATIVE)
    clause = Clause(draw.the(SCHEDULED), draw.one(TRAVELLING), tense)
    if draw.chance(0.5):
        clause = Clause(draw.person(), draw.one(sampling.COMING_AND_GOING), tense)
    return as_question(clause, "when", "wann")


def _how_much(draw: Draw) -> Phrase:
    goods = draw.phrase(sampling.THINGS + sampling.CLOTHES + sampling.VEHICLES)
    return as_question(Clause(goods, VERBS["kosten"], PRESENT), "how much", "wie viel")


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
    *((verb, WARES) for verb in verbs_named("kaufen verkaufen brauchen")),
    *((verb, sampling.ANIMALS) for verb in verbs_named("sehen finden")),
)
CHAMPIONS = tuple(noun for noun in sampling.ANIMALS if noun is not NOUNS["animal"])
LYING = named("letter book picture pillow guitar") + sampling.CLOTHES
GIVING = verbs_named("geben zeigen schicken leihen bringen anbieten")
HELPING = verbs_named("helfen danken folgen")
EUROS, YEARS_OLD = Phrase("euros", "Euro"), Phrase("years old", "Jahre alt")


@stated
def two_objects(draw: Draw) -> Clause:
    """'The teacher gives the boy a book': German tells the two objects apart by case."""
    tense = draw.any_tense()
    gift = draw.phrase(sampling.THINGS + sampling.CLOTHES)
    giver = draw.person()
    clause = Clause(giver, draw.one(GIVING), tense, accusative=gift, dative=_receiver(draw, giver))
    return replace(clause, dative_with_to=draw.chance(0.3))


@stated
def dative(draw: Draw) -> Clause:
    """'Anna helps him': some verbs take a dative where English has a plain object."""
    tense = draw.any_tense()
    helper = draw.person()
    return Clause(helper, draw.one(HELPING), tense, dative=_receiver(draw, helper))


def _receiver(draw: Draw, giver: Nominal) -> Nominal:
    if draw.chance(0.3):
        return draw.one((HIM, HER, THEM))
    return draw.phrase(sampling.PEOPLE, besides=giver) if draw.chance(0.5) else draw.somebody(giver)


@stated
def company(draw: Draw) -> Clause:
    """'The boy dances without his sister', 'Anna buys a hat for me': prepositions of one case."""
    somebody, tense = draw.person(), draw.one(NARRATIVE)
    if draw.chance(0.5):
        verb = draw.one(verbs_named("arbeiten spielen tanzen warten"))
        preposition = draw.one((sampling.WITH, sampling.WITHOUT))
        return Clause(somebody, verb, tense, complement=preposition.before(_receiver(draw, somebody)))
    clause = draw.action(somebody, tense, sampling.MAKING)
    return replace(clause, complement=sampling.FOR.before(_receiver(draw, somebody)))


@stated
def prepositional(draw: Draw) -> Clause:
    """'Anna remembers the teacher': objects that German attaches by a preposition, with some verbs beside 'sich'."""
    if draw.chance(0.15):
        verb = draw.one(verbs_named("ausruhen beeilen"))
        return Clause(draw.person(), verb, draw.any_tense())
    somebody = draw.person()
    verb, preposition, nouns = draw.one(WITH_PREPOSITION)
    what = preposition.before(draw.phrase(nouns, plurals=0, besides=somebody))
    return Clause(somebody, verb, draw.one(NARRATIVE), complement=what)


@stated
def place(draw: Draw) -> Clause:
    """'The cat sleeps on the table', 'The cat jumps onto the table': dative says where, accusative where to."""
    tense = draw.one(NARRATIVE)
    if draw.chance(0.15):
        thing, spot = draw.phrase(LYING), ON.before(draw.phrase(SURFACES, plurals=0))
        return Clause(thing, VERBS["liegen"], tense, complement=spot)
    somebody = draw.phrase(sampling.ANIMALS) if draw.chance(0.5) else draw.person()
    if draw.chance(0.4):
        verb, preposition, nouns = draw.one(TARGETS)
    else:
        verb = draw.one(verbs_named("schlafen sitzen stehen warten spielen"))
        preposition, nouns = draw.one(SPOTS)
    return Clause(somebody, verb, tense, complement=preposition.before(draw.phrase(nouns, plurals=0)))


@stated
def comparison(draw: Draw) -> Clause:
    """'The dog is bigger than the cat', 'as big as', 'the biggest animal': the three degrees."""
    if draw.chance(0.2):
        return _superlative(draw)
    (first, second), adjective = _comparable(draw)
    other = Phrase(second.english("nominative"), second.german("nominative"))
    tense, alike = draw.one(NARRATIVE), draw.chance(0.4)
    if alike:
        what = Phrase("as", "so").then(adjective).then(Phrase("as", "wie")).then(other)
        return Clause(first, BE, tense, complement=what, negated=draw.chance(0.5))
    more = Phrase(adjective.english_comparative, adjective.german_comparative)
    return Clause(first, BE, tense, complement=more.then(Phrase("than", "als")).then(other))


def _comparable(draw: Draw) -> tuple[tuple[Nominal, Nominal], Adjective]:
    if draw.chance(0.3):
        return draw.two(sampling.NAMES), draw.one(COMPARABLE["person"])
    nouns = draw.one((sampling.ADULTS, sampling.ANIMALS, sampling.THINGS, sampling.VEHICLES))
    first, second = draw.two(nouns)
    plural = draw.chance(0.2)
    pair = NounPhrase(THE, first, plural=plural), NounPhrase(THE, second, plural=plural)
    return pair, draw.one(COMPARABLE[first.kind])


def _superlative(draw: Draw) -> Clause:
    adjective = draw.one(COMPARABLE["animal"])
    most = replace(adjective, english=adjective.english_superlative, german_stem=adjective.german_superlative)
    champion = NounPhrase(THE, NOUNS["animal"], most)
    where = IN.before(NounPhrase(THE, draw.one(named("village forest city park garden"))))
    title = Phrase(champion.english("nominative"), champion.german("nominative")).then(where)
    return Clause(draw.the(CHAMPIONS), BE, draw.one(NARRATIVE), complement=title)


@stated
def numbers(draw: Draw) -> Clause:
    """'Anna buys twenty-one apples', 'The lamp costs thirty-two euros': German says the units first."""
    number = cardinal(draw.between(2, 12) if draw.chance(0.3) else draw.between(13, 99))
    if draw.chance(0.5):
        return _counted(draw, number)
    if draw.chance(0.4):
        somebody = draw.one(sampling.NAMES) if draw.chance(0.5) else draw.the(sampling.ADULTS)
        return Clause(somebody, BE, draw.one(NARRATIVE), complement=number.then(YEARS_OLD))
    if draw.chance(0.3):
        number = cardinal(draw.between(1, 9) * 100)
    goods = draw.the(sampling.THINGS + sampling.CLOTHES)
    return Clause(goods, VERBS["kosten"], PRESENT, complement=number.then(EUROS))


def _counted(draw: Draw, number: Phrase) -> Clause:
    verb, nouns = draw.one(COUNTING)
    noun = draw.one(nouns)
    adjective = draw.one(SUITING[noun.kind]) if draw.chance(0.3) else None
    several = NounPhrase(counting(*number), noun, adjective, plural=True)
    return Clause(draw.person(), verb, draw.one(NARRATIVE), accusative=several)
