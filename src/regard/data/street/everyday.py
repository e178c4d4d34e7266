"""What short sentences are about: subjects, verbs and objects that combine freely, in every tense and person.

The other families let only such words meet as make sense together; here a person should be able to say of nearly
anything that he sees, loves or needs it.
"""

from dataclasses import dataclass, replace

from regard.data.street.clauses import Clause
from regard.data.street.nouns import ADJECTIVES, NOUNS, SUITING, by_verb, named, of_kind, qualities
from regard.data.street.phrases import (
    BARE,
    HER,
    HIM,
    IT,
    ME,
    POSSESSIVES,
    THAT,
    THE,
    THEM,
    THESE,
    THIS,
    THOSE,
    US,
    YOU,
    A,
    Determiner,
    Name,
    Nominal,
    NounPhrase,
    Phrase,
    Pronoun,
    cardinal,
    counting,
    of_name,
)
from regard.data.street.sampling import (
    ANIMALS,
    CITIES,
    EVENTS,
    FOOD,
    GOALS,
    IN_CITY,
    NAMES,
    PEOPLE,
    TO,
    TO_CITY,
    WITH,
    Draw,
)
from regard.data.street.single_clause import SPOTS, TARGETS, WITH_PREPOSITION
from regard.data.street.verbs import (
    BE,
    FUTURE,
    MUST,
    MUST_NOT,
    PAST,
    PAST_PERFECT,
    PERFECT,
    PRESENT,
    SIMPLE_INSTEAD,
    STATIVE,
    TENSES,
    VERBS,
    Tense,
    verbs_named,
)
from regard.data.street.words import Adjective, Noun, Verb

EVERYTHING = tuple(NOUNS.values())
WARES = tuple(noun for noun in EVERYTHING if not noun.is_human and noun.kind not in ("way", "height", "place", "event"))
PRONOUNS = (ME, ME, YOU, YOU, HIM, HER, IT["n"], US, THEM)
"""Subjects, 'I' and 'you' more often than the rest."""
OBJECT_PRONOUNS = (ME, YOU, HIM, HER, IT["n"], US, THEM)
OWNERS = tuple(name for name in NAMES if name.text[-1] not in "sx")
"""Names with a German possessive in s."""

FEELING = frozenset(verbs_named("wollen lieben mögen kennen brauchen"))
OF_FEELINGS = (PRESENT, PAST, PERFECT, FUTURE, PAST_PERFECT)
"""Nobody must or can feel something."""


ANY_BEING = verbs_named(
    "schlafen schlafen essen trinken spielen warten träumen laufen springen klettern kommen gehen sitzen stehen liegen "
    "aufstehen einschlafen zurückkommen ausruhen beeilen folgen ankommen helfen"
)
"""Verbs that need no object."""
ANY_PERSON = ANY_BEING + verbs_named(
    "arbeiten lachen tanzen singen denken kochen backen malen schreiben lesen reisen warten spielen anfangen"
)
"""The same, with those that animals do not do."""
STAYING = verbs_named("schlafen spielen warten sitzen stehen liegen arbeiten tanzen singen lesen")
EVENT_VERBS = verbs_named("anfangen")
BY_THEMSELVES = (
    (named("[vehicle] train"), verbs_named("ankommen abfahren kommen warten")),
    (EVENTS, EVENT_VERBS),
    (of_kind("clothing"), verbs_named("passen")),
)
"""What things do, each group with its verbs."""

OBJECTS: dict[str, tuple[Noun, ...]] = {
    **{verb: EVERYTHING for verb in ("sehen", "finden", "suchen", "lieben", "mögen", "brauchen", "haben", "wollen")},
    **{verb: EVERYTHING for verb in ("malen", "kennen", "vergessen")},
    **{verb: WARES for verb in ("kaufen", "verkaufen", "mitbringen", "bringen")},
    **by_verb("""
hören [person] [child] [animal] song radio concert train car
besuchen [person] [child] [way] [height] [place]
schreiben letter book song
lesen letter book
singen song
reparieren [vehicle] [thing] roof door house window tower bridge
waschen [clothing] [vehicle] [food] [animal] glass bicycle window carpet child
backen cake bread roll potato
kochen [food] tea coffee
essen [food]
trinken [drink]
tragen [clothing] [thing] [container] [animal] child
ziehen [vehicle] [animal] suitcase cart sled
überqueren [way]
anrufen/einladen [person] [child]
abholen [person] [child] package suitcase book
fragen [person] [child]
aufmachen/zumachen door window gate box bag drawer cupboard suitcase book package letter
wegwerfen [thing] [clothing] [food] letter box bag glass
einschalten/ausschalten lamp radio machine
anprobieren [clothing]
"""),
}
"""What short sentences let be done to what."""
COMMON = "haben haben haben haben sehen lieben mögen kaufen essen trinken brauchen kennen"
TRANSITIVE = (*OBJECTS, *COMMON.split())
"""The verbs of these, some of which people use more often."""
OF_ANIMALS = ("sehen", "finden", "suchen", "lieben", "mögen", "brauchen", "hören", "tragen", "ziehen", "überqueren")
"""What animals do, too, beside eating and drinking."""
WITH_DATIVE = verbs_named("helfen helfen danken folgen glauben")
GIVING = verbs_named("geben zeigen schicken leihen bringen anbieten")

BEINGS = qualities(
    "old young big small strong clever fast slow friendly tired weak hungry scared sick lazy happy sad good"
)
OF_A_BEING = BEINGS + qualities("rich beautiful dangerous")
OF_AN_ANIMAL = BEINGS + qualities("wild black white heavy dangerous thick beautiful expensive")
OF_A_THING = qualities("old new big small heavy beautiful expensive cheap red blue black white good full long wide")
OF_A_WAY = qualities("long wide dark narrow icy muddy dangerous slippery dry beautiful old")
OF_FOOD = qualities("fresh cold hot tasty sweet sour salty bitter hard dry warm good cheap expensive")
OF_A_PLACE = qualities("old new big small beautiful dark cold warm full high low narrow dangerous expensive")
PREDICATES: dict[str, tuple[Adjective, ...]] = {
    "person": OF_A_BEING,
    "child": OF_A_BEING,
    "animal": OF_AN_ANIMAL,
    "way": OF_A_WAY,
    "food": OF_FOOD,
    "drink": OF_FOOD,
    "thing": OF_A_THING,
    "text": OF_A_THING,
    "clothing": OF_A_THING + qualities("warm dry thick dark"),
    "container": OF_A_THING + qualities("full dry narrow"),
    "vehicle": OF_A_THING + qualities("fast slow dangerous"),
    "passage": OF_A_PLACE + qualities("wide long"),
    "height": OF_A_PLACE + qualities("high icy slippery"),
    "place": OF_A_PLACE,
    "event": qualities("long beautiful good sad new old expensive"),
}
"""What may be said of a noun of each kind."""
TEMPERATURES = qualities("cold hot warm")
"""Not of people: 'I am cold' is 'Mir ist kalt'."""
DEGREES = (Phrase("very", "sehr"), Phrase("too", "zu"), Phrase("so", "so"))
TO_SCHOOL = Phrase("to school", "zur Schule")
HERE = (Phrase("here", "hier"), Phrase("there", "dort"))


@dataclass(frozen=True, slots=True)
class Verbal:
    """How a clause speaks of its verb: tense, negation, contraction."""

    tense: Tense
    negated: bool
    shortened: bool

    def clause(
        self,
        who: Nominal,
        verb: Verb,
        accusative: Nominal | None = None,
        dative: Nominal | None = None,
        complement: Phrase | None = None,
    ) -> Clause:
        negated, shortened = self.negated, self.shortened
        return Clause(who, verb, self.of(verb), accusative, dative, complement, negated=negated, shortened=shortened)

    def of(self, verb: Verb) -> Tense:
        """The tense that the verb takes: some have no progressive, and 'I read' is the present."""
        tense = SIMPLE_INSTEAD.get(self.tense, self.tense) if verb in STATIVE else self.tense
        if verb in FEELING and tense not in OF_FEELINGS:
            tense = PRESENT
        return PERFECT if tense is PAST and verb.english.past == verb.english.base else tense


def verbal(draw: Draw, tenses: tuple[Tense, ...] = TENSES, negations: float = 0.18) -> Verbal:
    """Some tense, sometimes negated; contractions are common."""
    tense, negated = draw.one(tenses), draw.chance(negations)
    return Verbal(MUST_NOT if negated and tense is MUST else tense, negated, draw.chance(0.5 if negated else 0.3))


def is_animal(subject: Nominal) -> bool:
    """Whether it 'frisst' rather than 'isst'."""
    return subject in IT.values() or (isinstance(subject, NounPhrase) and subject.noun.kind == "animal")


def subject(draw: Draw) -> Nominal:
    """Somebody: a pronoun, a name, a person or an animal."""
    if draw.chance(0.42):
        return draw.one(PRONOUNS)
    if draw.chance(0.25):
        return draw.one(NAMES)
    return phrase(draw, PEOPLE if draw.chance(0.55) else ANIMALS, plurals=0.25, adjectives=0.12)


def phrase(draw: Draw, nouns: tuple[Noun, ...], plurals: float = 0.2, adjectives: float = 0.12) -> NounPhrase:
    """One of these nouns, with any determiner."""
    noun = draw.one(nouns)
    plural = noun.english_plural is not None and draw.chance(plurals)
    adjective = draw.one(SUITING[noun.kind] + PREDICATES[noun.kind]) if draw.chance(adjectives) else None
    return NounPhrase(_determiner(draw, noun, plural), noun, adjective, plural)


def _determiner(draw: Draw, noun: Noun, plural: bool) -> Determiner:
    if draw.chance(0.45):
        return THE
    if plural and draw.chance(0.12):
        return counting(*cardinal(draw.between(2, 12)))
    if draw.chance(0.4):
        return BARE if plural or noun.english_plural is None else A
    if draw.chance(0.75):
        return of_name(draw.one(OWNERS).text) if draw.chance(0.1) else draw.one(POSSESSIVES)
    return draw.one((THESE, THESE, THOSE) if plural else (THIS, THIS, THAT))


def whom(draw: Draw, nouns: tuple[Noun, ...], besides: Nominal) -> Nominal:
    """An object among these nouns: a phrase, a pronoun or, where people are among them, a name."""
    people = any(noun.is_human for noun in nouns)
    if draw.chance(0.2):
        object_ = draw.one(OBJECT_PRONOUNS if people else (IT["n"], IT["n"], THEM))
    elif people and draw.chance(0.12):
        object_ = draw.one(NAMES)
    else:
        object_ = phrase(draw, nouns)
    return whom(draw, nouns, besides) if _same(object_, besides) else object_


def _same(one: Nominal, other: Nominal) -> bool:
    if isinstance(one, Pronoun):
        return (one in (ME, US) and other in (ME, US)) or (one is YOU and other is YOU)
    return one == other or (isinstance(one, NounPhrase) and isinstance(other, NounPhrase) and one.noun is other.noun)


def intransitive(draw: Draw, who: Nominal, how: Verbal) -> Clause:
    """Somebody does something, here and there with a place."""
    verb = draw.one(ANY_BEING if is_animal(who) else ANY_PERSON)
    if verb is VERBS["essen"] and is_animal(who):
        verb = VERBS["fressen"]
    at_spot = draw.chance(0.15) and verb in STAYING
    return how.clause(who, verb, complement=spot(draw) if at_spot else None)


def spot(draw: Draw) -> Phrase:
    if draw.chance(0.15):
        return draw.one(HERE)
    preposition, nouns = draw.one(SPOTS)
    if draw.chance(0.15):
        return IN_CITY.then(draw.one(CITIES))
    return preposition.before(phrase(draw, nouns, plurals=0, adjectives=0.08))


def transitive(draw: Draw, who: Nominal, how: Verbal) -> Clause:
    animal = is_animal(who)
    if not animal and draw.chance(0.02):
        return how.clause(who, VERBS["spielen"], complement=Phrase("the guitar", "Gitarre"))
    name = draw.one(OF_ANIMALS if animal else TRANSITIVE)
    if animal and draw.chance(0.3):
        name = draw.one(("fressen", "fressen", "trinken"))
    objects = FOOD + ANIMALS if name == "fressen" else OBJECTS[name]
    what = whom(draw, objects, who)
    if isinstance(what, NounPhrase) and what.determiner.indefinite and not how.negated and draw.chance(0.1):
        what = what.denied()  # 'I have no dog'
    return replace(how.clause(who, VERBS[name], what), particle_last=draw.chance(0.3))


def attached(draw: Draw, who: Nominal, how: Verbal) -> Clause:
    """Somebody waits for somebody, plays with somebody: objects behind a preposition."""
    if draw.chance(0.3):
        verb, preposition, nouns = draw.one(verbs_named("spielen tanzen arbeiten kommen")), WITH, PEOPLE
    else:
        verb, preposition, nouns = draw.one(WITH_PREPOSITION)
    what = whom(draw, nouns, who)
    if what is IT["n"] or (what is THEM and nouns is EVENTS):  # German says 'darauf', 'davon'
        return attached(draw, who, how)
    return how.clause(who, verb, complement=preposition.before(what))


def moving(draw: Draw, who: Nominal, how: Verbal) -> Clause:
    if draw.chance(0.25):
        goal, verb = TO_CITY.then(draw.one(CITIES)), draw.one(verbs_named("reisen gehen kommen"))
    elif draw.chance(0.6):
        verb = draw.one(verbs_named("gehen gehen laufen kommen"))
        goal = TO.before(phrase(draw, GOALS + EVENTS, plurals=0, adjectives=0.08))
        goal = draw.one((goal, goal, goal, goal, TO_SCHOOL))
    else:
        verb, preposition, nouns = draw.one(TARGETS)
        goal = preposition.before(phrase(draw, nouns, plurals=0, adjectives=0.08))
    return how.clause(who, verb, complement=goal)


def living(draw: Draw, who: Nominal, how: Verbal) -> Clause:
    """Somebody lives, sits or works somewhere."""
    verb = draw.one(verbs_named("wohnen wohnen schlafen spielen warten sitzen stehen liegen"))
    return how.clause(who, verb, complement=spot(draw))


def helping(draw: Draw, who: Nominal, how: Verbal) -> Clause:
    """Somebody helps somebody: a dative in German."""
    verb = draw.one(WITH_DATIVE)
    return how.clause(who, verb, dative=whom(draw, PEOPLE, who))


def giving(draw: Draw, who: Nominal, how: Verbal) -> Clause:
    verb, receiver = draw.one(GIVING), whom(draw, PEOPLE, who)
    what = draw.one((IT["n"], THEM)) if draw.chance(0.12) else phrase(draw, WARES)
    to = draw.chance(0.3) or isinstance(what, Pronoun)
    return replace(how.clause(who, verb, what, receiver), dative_with_to=to)


def quality_of(draw: Draw, kind: str) -> Phrase:
    """An adjective that may be said of a noun of this kind, sometimes with its degree; now and then any other."""
    people = kind in ("person", "child")
    adjective = draw.one(PREDICATES[kind])
    if draw.chance(0.12):
        adjective = draw.one(tuple(word for word in ADJECTIVES.values() if not people or word not in TEMPERATURES))
    return draw.one(DEGREES).then(adjective) if draw.chance(0.3) else adjective.phrase


def kind_of(nominal: Nominal) -> str:
    """The kind of noun that a phrase is about; names and pronouns mean people, 'it' an animal."""
    if isinstance(nominal, NounPhrase):
        return nominal.noun.kind
    return "animal" if nominal in IT.values() else "person"


def being(draw: Draw, who: Nominal, how: Verbal) -> Clause:
    """Somebody or something is so, or is somewhere."""
    what = spot(draw) if draw.chance(0.12) else quality_of(draw, kind_of(who))
    clause = how.clause(who, BE, complement=what)
    return clause if clause.tense in OF_FEELINGS else replace(clause, tense=PRESENT)


def anything(draw: Draw) -> Nominal:
    """What qualities are said of: any noun at all, or somebody."""
    return subject(draw) if draw.chance(0.45) else phrase(draw, EVERYTHING, plurals=0.25, adjectives=0.03)


def does(draw: Draw, who: Nominal, how: Verbal) -> Clause:
    return draw.one(DOES)(draw, who, how)


DOES = (*(intransitive,) * 4, *(transitive,) * 7, helping, helping, giving, attached, attached, moving, moving, living)
"""The kinds of clause, each as often as it stands here."""


def pronoun_for(nominal: Nominal) -> Pronoun:
    """The pronoun that takes up a phrase."""
    if isinstance(nominal, Pronoun):
        return nominal
    if isinstance(nominal, Name):
        return nominal.pronoun
    if not isinstance(nominal, NounPhrase) or nominal.plural:
        return THEM
    if nominal.noun.is_human and nominal.noun is not NOUNS["child"]:
        return HIM if nominal.noun.gender == "m" else HER
    return IT[nominal.noun.gender]
