"""Families of sentences of more than one clause: relative and subordinate clauses, infinitives, coordination."""

from regard.data.street import sampling
from regard.data.street.clauses import BECAUSE, Clause, sentence, with_clause
from regard.data.street.nouns import SUITING
from regard.data.street.phrases import Both, Nominal, NounPhrase, Phrase, WithRelative, relative_pronoun
from regard.data.street.sampling import Draw, stated
from regard.data.street.verbs import BE, NARRATIVE, PAST, PERFECT, PRESENT, VERBS, Tense, verbs_named
from regard.data.street.words import Case, Verb

REPORTING = verbs_named("sagen glauben wissen hoffen")
PLANNING = verbs_named("versuchen hoffen vergessen")
HELPING = verbs_named("helfen danken")
SEEING = verbs_named("sehen suchen besuchen hören kennen lieben")
ACTIONS = sampling.ACTIONS + sampling.SEPARABLE
DOINGS = ACTIONS + sampling.STATES
ERRANDS = sampling.HANDLING + sampling.ENCOUNTERS


@stated
def relative(draw: Draw) -> Clause:
    """'The chef who went to the store ate the cake': the verb agrees with a subject far away."""
    return draw.one((_who_acts, _who_acts, _to_whom_acts, _acted_on, _helped))(draw)


def _who_acts(draw: Draw) -> Clause:
    """The head of the relative clause is the subject of both verbs."""
    head, tense = draw.the(sampling.PEOPLE, plurals=0.4), draw.one(NARRATIVE)
    subject = WithRelative(head, _acting(draw, head, tense))
    if draw.chance(0.4):
        return Clause(subject, BE, tense, complement=_quality(draw, head))
    doing = draw.one(DOINGS)
    return Clause(subject, doing.verb, tense, accusative=draw.the(doing.objects, besides=head))


def _to_whom_acts(draw: Draw) -> Clause:
    """The head is the object of the main verb: 'Anna knows the man who lives in Vienna'."""
    head, tense = draw.the(sampling.PEOPLE, plurals=0.3), draw.one(NARRATIVE)
    whom = WithRelative(head, _acting(draw, head, tense))
    return Clause(draw.person(), draw.one(SEEING), tense, accusative=whom)


def _acting(draw: Draw, head: NounPhrase, tense: Tense) -> Phrase:
    """A relative clause whose subject is the head: 'who went to the store'."""
    subject = relative_pronoun(head)
    if draw.chance(0.3):
        clause = draw.motion(subject, tense)
    elif draw.chance(0.3):
        city = sampling.IN_CITY.then(draw.one(sampling.CITIES))
        clause = Clause(subject, VERBS["wohnen"], tense, complement=city)
    else:
        clause = _short_action(draw, subject, tense)
    return Phrase(clause.english(), clause.german_final())


def _acted_on(draw: Draw) -> Clause:
    """The head is the relative clause's object: 'The cake that the chef baked was sweet'."""
    doing = draw.one(DOINGS)
    return _undergoing(draw, draw.the(doing.objects, plurals=0.3), doing.verb, "accusative")


def _helped(draw: Draw) -> Clause:
    """The same in the dative: 'The woman whom the boy helped was old'."""
    return _undergoing(draw, draw.the(sampling.PEOPLE, plurals=0.3), draw.one(HELPING), "dative")


def _undergoing(draw: Draw, head: NounPhrase, verb: Verb, case: Case) -> Clause:
    pronoun = relative_pronoun(head)
    clause = Clause(draw.somebody(head), verb, PAST)
    about = Phrase(f"{pronoun.english(case)} {clause.english()}", clause.german_final(pronoun.german(case)))
    tense, quality = draw.one(NARRATIVE), _quality(draw, head)
    return Clause(WithRelative(head, about), BE, tense, complement=quality)


def _quality(draw: Draw, head: NounPhrase) -> Phrase:
    return draw.one(SUITING[head.noun.kind]).phrase


def subordinate(draw: Draw) -> Phrase:
    """'Anna says that Peter has bought the car': a conjunction sends the German verb to the end."""
    return draw.one((_reported, _reported, _whether, _because, _although, _while, _when))(draw)


def _reported(draw: Draw) -> Phrase:
    return _object_clause(draw, draw.one(REPORTING), Phrase("that", "dass"))


def _whether(draw: Draw) -> Phrase:
    return _object_clause(draw, VERBS["fragen"], Phrase("whether", "ob"))


def _object_clause(draw: Draw, verb: Verb, conjunction: Phrase) -> Phrase:
    speaker = draw.person()
    content = _short_action(draw, draw.somebody(speaker), draw.one((PRESENT, PAST, PERFECT)))
    return with_clause(Clause(speaker, verb, PRESENT), conjunction, content)


def _because(draw: Draw) -> Phrase:
    """A reason with 'he' or 'she', which unlike 'it' leave no doubt."""
    name, tense = draw.one(sampling.NAMES), draw.one(NARRATIVE)
    main, reason = _short_action(draw, name, tense), _state(draw, name.pronoun, tense)
    return with_clause(main, BECAUSE, reason)


def _although(draw: Draw) -> Phrase:
    name, tense = draw.one(sampling.NAMES), draw.one(NARRATIVE)
    main = _short_action(draw, name.pronoun, tense)
    return _after_clause(Phrase("although", "obwohl"), _state(draw, name, tense), main)


def _while(draw: Draw) -> Phrase:
    aside, main = _two_actions(draw)
    return _after_clause(Phrase("while", "während"), aside, main)


def _when(draw: Draw) -> Phrase:
    """'When' in the past is 'als'."""
    tense, somebody = draw.one(NARRATIVE), draw.somebody()
    conjunction = Phrase("when", "als") if tense is PAST else Phrase("if", "wenn")
    main = _short_action(draw, draw.somebody(somebody), tense)
    return _after_clause(conjunction, Clause(somebody, draw.one(sampling.COMING_AND_GOING), tense), main)


def _state(draw: Draw, who: Nominal, tense: Tense) -> Clause:
    return Clause(who, BE, tense, complement=draw.one(SUITING["person"]).phrase)


def _short_action(draw: Draw, subject: Nominal, tense: Tense) -> Clause:
    doing = draw.one(ACTIONS)
    return Clause(subject, doing.verb, tense, accusative=draw.the(doing.objects, plurals=0.15, besides=subject))


def _two_actions(draw: Draw) -> tuple[Clause, Clause]:
    tense, somebody = draw.one(NARRATIVE), draw.somebody()
    return _short_action(draw, somebody, tense), _short_action(draw, draw.somebody(somebody), tense)


def _after_clause(conjunction: Phrase, opening: Clause, main: Clause) -> Phrase:
    """The subordinate clause takes the first place, so the main verb comes before its subject."""
    return sentence(
        f"{conjunction.english} {opening.english()}, {main.english()}",
        f"{opening.german_final(conjunction.german)}, {main.german_inverted()}",
    )


def infinitive(draw: Draw) -> Phrase:
    """'Anna tries to open the door': 'zu' stands before the verb, or inside a separable one."""
    somebody, tense = draw.person(), draw.one(NARRATIVE)
    if draw.chance(0.3):
        goal = sampling.TO.before(draw.the(sampling.GOALS))
        main, aims, opener = Clause(somebody, VERBS["gehen"], tense, complement=goal), ERRANDS, "um "
    else:
        main, aims, opener = Clause(somebody, draw.one(PLANNING), tense), sampling.MAKING + sampling.SEPARABLE, ""
    aim = draw.action(somebody, tense, aims)
    english, german = main.english(), main.german()
    return sentence(f"{english} {aim.english_infinitive()}", f"{german}, {opener}{aim.german_infinitive()}")


def coordination(draw: Draw) -> Phrase:
    """'Anna drinks coffee, but Peter drinks tea': both halves keep the order of a statement."""
    if draw.chance(0.3):
        return draw.statement(draw.action(Both(*draw.two(sampling.NAMES)), draw.one(NARRATIVE), DOINGS))
    if draw.chance(0.4):
        doing = draw.one(sampling.ENCOUNTERS + sampling.SEPARABLE)
        first, second = draw.two(doing.objects)
        both = Both(draw.phrase((first,)), draw.phrase((second,)))
        return draw.statement(Clause(draw.person(), doing.verb, draw.one(NARRATIVE), accusative=both))
    first, second = _two_actions(draw)
    english, german = draw.one((Phrase(" and ", " und "), Phrase(", but ", ", aber ")))
    return sentence(f"{first.english()}{english}{second.english()}", f"{first.german()}{german}{second.german()}")
