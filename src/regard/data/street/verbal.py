"""Families of sentences about the verb: its place, its tenses, its bracket, its negation."""

from dataclasses import replace

from regard.data.street import cast
from regard.data.street.clauses import Clause, sentence
from regard.data.street.determiners import WHICH
from regard.data.street.draw import Draw
from regard.data.street.nouns import named
from regard.data.street.phrases import WHO, NounPhrase, Phrase, Preposition
from regard.data.street.tenses import (
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
)
from regard.data.street.times import exact_time, some_time
from regard.data.street.verbs import VERBS

SCHEDULED = named("train bus ship carriage")
TRAVELLING = (VERBS["ankommen"], VERBS["abfahren"])
BY = Preposition("by", "von", "dative")


def told(draw: Draw, clause: Clause) -> Phrase:
    """The clause as a statement, which opens with the time as often as with the subject."""
    time_first = draw.chance(0.5)
    return sentence(clause.english(time_first), clause.german(time_first))


def statement(draw: Draw) -> Phrase:
    """'On Monday Anna bought a red car': the German verb stays second, whatever comes first."""
    tense = draw.one(NARRATIVE)
    if draw.chance(0.5):
        return told(draw, cast.action(draw, cast.person(draw), tense, cast.ACTIONS + cast.STATES))
    return told(draw, replace(cast.action(draw, cast.person(draw), tense), time=some_time(draw, tense)))


def perfect(draw: Draw) -> Phrase:
    """'Anna has travelled to Vienna': the participle closes the clause, and motion takes 'sein'."""
    make = cast.motion if draw.chance(0.4) else cast.action
    return told(draw, make(draw, cast.person(draw), PERFECT))


def modal(draw: Draw) -> Phrase:
    """'Anna must buy the book': the infinitive closes the clause."""
    make = cast.motion if draw.chance(0.2) else cast.action
    return told(draw, make(draw, cast.person(draw), draw.one(MODALS)))


def separable(draw: Draw) -> Phrase:
    """'Anna calls the doctor': the prefix of 'anrufen' goes to the end, and in other tenses returns to its verb."""
    tense = draw.one((PRESENT, PRESENT, PAST, PAST, PERFECT, draw.one(MODALS)))
    if draw.chance(0.8):
        return told(draw, cast.action(draw, cast.person(draw), tense, cast.SEPARABLE))
    clause = Clause(cast.person(draw), draw.one(cast.COMING_AND_GOING), tense)
    return told(draw, clause if tense is PERFECT else replace(clause, time=some_time(draw, tense)))


def times(draw: Draw) -> Phrase:
    """'The train arrives at half past nine': German counts half an hour towards the next one."""
    tense, when = draw.one((PRESENT, PAST, FUTURE)), exact_time(draw)
    if draw.chance(0.4):
        return told(draw, Clause(cast.person(draw), draw.one(cast.COMING_AND_GOING), tense, time=when))
    if draw.chance(0.6):
        return told(draw, Clause(cast.the(draw, SCHEDULED), draw.one(TRAVELLING), tense, time=when))
    return told(draw, Clause(cast.the(draw, cast.EVENTS), VERBS["anfangen"], tense, time=when))


def passive(draw: Draw) -> Phrase:
    """'The cake was baked by the chef': what is acted on becomes the subject."""
    doing = draw.one(cast.MAKING + cast.HANDLING)
    agent = cast.person(draw, pronouns=False)
    tense = draw.one((PASSIVE, PASSIVE_PAST, PASSIVE_PAST))
    return told(draw, Clause(cast.the(draw, doing.objects, 0.2), doing.verb, tense, complement=BY.before(agent)))


def negation(draw: Draw) -> Phrase:
    """'Anna does not have a dog': German denies with 'nicht', but what is indefinite with 'kein'."""
    shortened, subject = draw.chance(0.3), cast.person(draw)
    if draw.chance(0.3):
        owned = cast.some(draw, cast.ANIMALS + cast.THINGS)
        clause = Clause(subject, VERBS["haben"], draw.one(NARRATIVE), accusative=owned)
    else:
        doings = draw.one((cast.ACTIONS, cast.ACTIONS, cast.SEPARABLE))
        clause = cast.action(draw, subject, draw.one((*NARRATIVE, PERFECT, CAN, COULD, FUTURE)), doings)
    return told(draw, replace(clause, negated=True, shortened=shortened))


def question(draw: Draw) -> Phrase:
    """'When does the train arrive?': English asks with 'do', German by putting the verb first."""
    return draw.one((_yes_or_no, _yes_or_no, _who, _which, _why, _when, _how_much))(draw)


def _yes_or_no(draw: Draw) -> Phrase:
    somebody = cast.somebody(draw)
    if draw.chance(0.4):
        return asked(cast.action(draw, somebody, PRESENT, cast.HANDLING + cast.MEETING))
    tense = draw.one((PERFECT, draw.one(MODALS)))
    return asked(cast.action(draw, somebody, tense, draw.one((cast.ACTIONS, cast.SEPARABLE))))


def _who(draw: Draw) -> Phrase:
    clause = cast.action(draw, WHO, draw.one((PRESENT, PAST, PERFECT)))
    return sentence(clause.english(), clause.german(), "?")


def _which(draw: Draw) -> Phrase:
    doing = draw.one(cast.ACTIONS)
    wanted = NounPhrase(WHICH, draw.one(doing.objects))
    clause = Clause(cast.person(draw), doing.verb, draw.one((PRESENT, PERFECT)))
    return asked(clause, wanted.english("accusative"), wanted.german("accusative"))


def _why(draw: Draw) -> Phrase:
    return asked(cast.action(draw, cast.person(draw), draw.one((PRESENT, PERFECT))), "why", "warum")


def _when(draw: Draw) -> Phrase:
    tense = draw.one(NARRATIVE)
    clause = Clause(cast.the(draw, SCHEDULED), draw.one(TRAVELLING), tense)
    if draw.chance(0.5):
        clause = Clause(cast.person(draw), draw.one(cast.COMING_AND_GOING), tense)
    return asked(clause, "when", "wann")


def _how_much(draw: Draw) -> Phrase:
    goods = cast.phrase(draw, cast.THINGS + cast.CLOTHES + cast.VEHICLES)
    return asked(Clause(goods, VERBS["kosten"], PRESENT), "how much", "wie viel")


def asked(clause: Clause, english: str = "", german: str = "") -> Phrase:
    """The clause as a question, after a question word if there is one."""
    return sentence(clause.english_question(english), clause.german_inverted(german), "?")
