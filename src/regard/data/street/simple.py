"""Families of short statements, such as a person tries first: one clause, or two joined by a word."""

from dataclasses import replace

from regard.data.street import everyday, sampling
from regard.data.street.clauses import BECAUSE, Clause, sentence, with_clause
from regard.data.street.everyday import EVERYTHING, Verbal, pronoun_for, verbal
from regard.data.street.nouns import named, qualities
from regard.data.street.phrases import (
    BARE,
    HER,
    HIM,
    IT,
    ME,
    OCCUPATION,
    POSSESSIVES,
    THE,
    YOU,
    A,
    Nominal,
    NounPhrase,
    Phrase,
    Pronoun,
)
from regard.data.street.sampling import Draw, stated
from regard.data.street.single_clause import IN
from regard.data.street.verbs import (
    BE,
    FUTURE,
    GOING_TO,
    PAST,
    PAST_PERFECT,
    PAST_PROGRESSIVE,
    PERFECT,
    PRESENT,
    PROGRESSIVE,
    TENSES,
    VERBS,
    Simple,
    Tense,
)
from regard.data.street.words import Agreement, Noun

FEMININE = {"teacher": "Lehrerin", "doctor": "Ärztin", "chef": "Köchin", "student": "Studentin", "farmer": "Bäuerin"}
"""What women are called who work as such."""
OCCUPATIONS = named(" ".join(FEMININE))
MEN = named("friend guest king neighbour uncle father brother")
COUNTABLE = tuple(noun for noun in EVERYTHING if noun.english_plural)


def _pointing(word: str, agreement: Agreement) -> Pronoun:
    return Pronoun((word, word), {"nominative": "das", "accusative": "das", "dative": "dem"}, agreement)


THIS_IS = (
    *(_pointing("this", "third"), _pointing("that", "third")),
    *(_pointing("these", "plural"), _pointing("those", "plural")),
)
"""What points at something: German has 'das' for one and for several."""
REASON_TENSES: dict[Tense, tuple[Tense, ...]] = {
    PRESENT: (PRESENT, PRESENT, PROGRESSIVE, PERFECT),
    PROGRESSIVE: (PRESENT, PRESENT, PROGRESSIVE, PERFECT),
    PAST: (PAST, PAST, PAST_PROGRESSIVE, PAST_PERFECT),
    PAST_PROGRESSIVE: (PAST, PAST, PAST_PERFECT),
    PERFECT: (PRESENT, PAST),
    FUTURE: (PRESENT, PROGRESSIVE),
    GOING_TO: (PRESENT, PROGRESSIVE),
}
"""The tenses of an event that a reason follows, with those of the reason."""
TIMED_LIKE: dict[Tense, Tense] = {PAST_PROGRESSIVE: PAST, GOING_TO: FUTURE}
MAIN_TENSES = (PRESENT, PRESENT, PRESENT, PROGRESSIVE, PAST, PAST, PAST_PROGRESSIVE, PERFECT, FUTURE, GOING_TO)
TASTES = {"animal": "hungry", "food": "tasty fresh good sweet warm"}


@stated
def intransitive(draw: Draw) -> Clause:
    """'The dog is sleeping': a subject and a verb, perhaps with a time."""
    clause = scheduled(draw) if draw.chance(0.12) else None
    return _timed(draw, clause or everyday.intransitive(draw, everyday.subject(draw), verbal(draw)))


def scheduled(draw: Draw) -> Clause:
    """'The bus is coming', 'The film has begun', 'The coat fits': what things do by themselves."""
    nouns, verbs = draw.one(everyday.BY_THEMSELVES)
    verb, who, how = draw.one(verbs), everyday.phrase(draw, nouns), verbal(draw, MAIN_TENSES)
    return how.clause(who, verb)


def _timed(draw: Draw, clause: Clause) -> Clause:
    if clause.negated or clause.tense in (PERFECT, PAST_PERFECT) or draw.chance(0.88):
        return clause
    return replace(clause, time=draw.some_time(TIMED_LIKE.get(clause.tense, clause.tense)))


@stated
def transitive(draw: Draw) -> Clause:
    """'I love my dog', 'Wait for me': subject, verb and what goes with it."""
    return _timed(draw, everyday.does(draw, everyday.subject(draw), verbal(draw)))


@stated
def quality(draw: Draw) -> Clause:
    """'My house is very old', 'It's cold'."""
    how = verbal(draw, (PRESENT, PRESENT, PRESENT, PAST, PAST, FUTURE, PERFECT))
    return everyday.being(draw, everyday.anything(draw), how)


def identity(draw: Draw) -> Phrase:
    """'That is my book', 'She is a doctor': what something or somebody is."""
    clause = identified(draw, verbal(draw, (PRESENT, PRESENT, PRESENT, PAST)))
    if draw.chance(0.1):
        return _there_is(draw)
    return draw.statement(clause)


def identified(draw: Draw, how: Verbal) -> Clause:
    if draw.chance(0.55):
        who = draw.one(THIS_IS)
        plural = who.agreement == "plural"
        what = everyday.phrase(draw, COUNTABLE if plural else EVERYTHING, plurals=float(plural))
    elif draw.chance(0.7):
        who, noun = draw.one((ME, YOU, HIM, HER, *sampling.NAMES)), draw.one(OCCUPATIONS)
        what = NounPhrase(OCCUPATION, _feminine(noun) if pronoun_for(who) is HER else noun)
    else:
        who = draw.one((HIM, *(name for name in sampling.NAMES if name.pronoun is HIM), *(IT["n"],) * 4))
        if who is IT["n"]:
            what = everyday.phrase(draw, EVERYTHING, plurals=0)
        else:
            what = NounPhrase(draw.one((THE, *POSSESSIVES)), draw.one(MEN))
    return replace(how.clause(who, BE), predicate=what)


def _feminine(noun: Noun) -> Noun:
    german = FEMININE[noun.english]
    return replace(noun, german=german, german_oblique=german, german_plural=f"{german}nen", gender="f")


def _there_is(draw: Draw) -> Phrase:
    """'There is a dog in the garden': 'Es gibt einen Hund im Garten'."""
    noun = draw.one(everyday.WARES + sampling.PEOPLE)
    plural = noun.english_plural is not None and draw.chance(0.3)
    what = NounPhrase(BARE if plural or noun.english_plural is None else A, noun, plural=plural)
    past = draw.chance(0.3)
    verb = ("were" if plural else "was") if past else ("are" if plural else "is")
    where = IN.before(draw.the(sampling.INTERIORS))
    german = f"{'Es gab' if past else 'Es gibt'} {what.german('accusative')} {where.german}"
    return sentence(f"there {verb} {what.english('nominative')} {where.english}", german)


def short_clause(draw: Draw, tenses: tuple[Tense, ...] = MAIN_TENSES, negations: float = 0.12) -> Clause:
    """Any short clause, to be joined with another."""
    if draw.chance(0.06):
        return scheduled(draw)
    how = verbal(draw, tenses, negations)
    make = draw.one((everyday.intransitive, everyday.intransitive, everyday.does, everyday.being))
    return make(draw, everyday.subject(draw), how)


def joined(draw: Draw) -> Phrase:
    """'I am tired, but I work': two clauses, both in the order of a statement."""
    if draw.chance(0.15):
        return _one_subject(draw)
    tenses = draw.one(((PRESENT, PROGRESSIVE), (PAST, PAST_PROGRESSIVE), TENSES))
    first = short_clause(draw, tenses)
    second = _about_the_same(draw, first) if draw.chance(0.35) else _apart_from(draw, first, tenses)
    comma = "," if draw.chance(0.5) else ""
    if draw.chance(0.5):
        return sentence(f"{first.english()}{comma} and {second.english()}", f"{first.german()} und {second.german()}")
    return sentence(f"{first.english()}{comma} but {second.english()}", f"{first.german()}, aber {second.german()}")


def _one_subject(draw: Draw) -> Phrase:
    """'The boy sings and dances': two verbs of one subject."""
    who, tense = everyday.subject(draw), draw.one((PRESENT, PAST))
    first, second = (Clause(who, verb, tense) for verb in draw.two(everyday.ANY_PERSON))
    if first.verb.english.base == second.verb.english.base or any(_unjoinable(c) for c in (first, second)):
        return _one_subject(draw)
    _, english = second.tense.english(second.verb, who.agreement, helped=False)
    english = f"{english} {second.verb.english.particle}".rstrip()
    finite, prefix, _ = second.tense.german(second.verb, who.agreement)
    german = f"{finite} {prefix}".rstrip()
    return sentence(f"{first.english()} and {english}", f"{first.german()} und {german}")


def _unjoinable(clause: Clause) -> bool:
    verb = clause.verb
    eats = verb is VERBS["essen"] and everyday.is_animal(clause.subject)
    return eats or verb.german.reflexive or verb.english.past == verb.english.base


def _about_the_same(draw: Draw, clause: Clause) -> Clause:
    """A second clause whose pronoun takes up the subject of the first."""
    how = verbal(draw, REASON_TENSES.get(clause.tense, (PRESENT,)), negations=0.12)
    who, kind = clause.subject, everyday.kind_of(clause.subject)
    if kind in ("person", "child", "animal") and draw.chance(0.4):
        return everyday.intransitive(draw, pronoun_for(who), how)
    return replace(everyday.being(draw, pronoun_for(who), how), complement=everyday.quality_of(draw, kind))


def _apart_from(draw: Draw, first: Clause, tenses: tuple[Tense, ...]) -> Clause:
    """A second clause that has no 'it' which might mean a noun of the first."""
    second = short_clause(draw, tenses)
    named_before = isinstance(first.subject, NounPhrase) or first.accusative or first.complement or first.dative
    says_it = any(word in ("it", "it's") for word in second.english().split())
    return _apart_from(draw, first, tenses) if named_before and says_it else second


def reason(draw: Draw) -> Phrase:
    """'The dog sleeps because it is tired': short clauses with 'because', whose pronoun has one meaning only."""
    if draw.chance(0.15):
        return _meal(draw)
    if draw.chance(0.2):
        how = verbal(draw, (PRESENT, PRESENT, PAST), 0.15)
        main = everyday.being(draw, everyday.anything(draw), how)
    else:
        main = short_clause(draw)
    what = main.accusative
    tenses = REASON_TENSES.get(main.tense, (PAST,))
    if isinstance(what, NounPhrase) and not _takes_it(main.subject) and draw.chance(0.6):
        state = everyday.quality_of(draw, what.noun.kind)
        how = verbal(draw, tuple(tense for tense in tenses if isinstance(tense, Simple)), 0.1)
        cause = how.clause(pronoun_for(what), BE, complement=state)
    elif draw.chance(0.75) and not (_takes_it(main.subject) and (isinstance(what, NounPhrase) or main.dative)):
        cause = _about_the_same(draw, main)
    else:
        cause = _apart_from(draw, main, tenses)
    return with_clause(main, BECAUSE, cause)


def _takes_it(who: Nominal) -> bool:
    """Whether 'it' may mean the subject."""
    return pronoun_for(who) in IT.values()


def _meal(draw: Draw) -> Phrase:
    """'The cat eats the fish because it is hungry', or because it is fresh."""
    tense = draw.one((PRESENT, PROGRESSIVE, PAST))
    who, what = draw.the(sampling.ANIMALS), draw.the(sampling.FOOD)
    meant = draw.one((who, what))
    quality = draw.one(qualities(TASTES[meant.noun.kind]))
    simple = PAST if tense is PAST else PRESENT
    cause = Clause(pronoun_for(meant), BE, simple, complement=quality.phrase, shortened=draw.chance(0.3))
    return with_clause(Clause(who, VERBS["fressen"], tense, accusative=what), BECAUSE, cause)
