"""What *it* refers to: 'The animal did not cross the street because it was too tired', or 'too wide'.

English says *it* of both nouns; German says er, sie or es by the gender of the noun that is meant. Only the adjective
tells which: animals are tired, streets are wide. And what an adjective is said of depends on the situation: 'wide' is
the street in 'cross', the suitcase in 'fit into'. The two nouns always differ in gender, every pair of genders is drawn
equally often, and each noun is meant equally often: no guess is right more than half the time.
"""

from dataclasses import dataclass
from itertools import permutations

from regard.data.street.clauses import Clause, sentence
from regard.data.street.nouns import ADJECTIVES, NOUNS, named, of_kind, qualities
from regard.data.street.phrases import IT, THE, NounPhrase, Phrase, Preposition
from regard.data.street.sampling import Draw
from regard.data.street.verbs import BE, CAN, COULD, PAST, PRESENT, VERBS, Simple, Tense
from regard.data.street.words import Adjective, Gender, Noun, Verb

GENDERS: tuple[Gender, ...] = ("m", "f", "n")
GENDER_PAIRS = tuple(permutations(GENDERS, 2))
LOADS = named("sack basket suitcase box bag vase package barrel glass")
ITEMS = named("suitcase mirror table carpet chair lamp guitar vase clock picture bicycle pillow book")
CONTAINERS = named("cupboard sack basket box bag drawer car room tent")
ONTO = Preposition("onto", "auf", "accusative")
TOO, SO, VERY = Phrase("too", "zu"), Phrase("so", "so"), Phrase("very", "sehr")
DEGREES = (TOO, TOO, SO, VERY)
ABLE_OR_NOT: tuple[tuple[Tense, Simple], ...] = (
    (PAST, PAST),
    (PAST, PAST),
    (PRESENT, PRESENT),
    (COULD, PAST),
    (CAN, PRESENT),
)
PLAIN: tuple[tuple[Tense, Simple], ...] = ((PAST, PAST), (PRESENT, PRESENT))


@dataclass(frozen=True, slots=True)
class Coreference:
    """The two nouns that *it* could mean, the one that it does mean (all in English), and its German pronoun."""

    subject: str
    object: str
    referent: str
    pronoun: str


@dataclass(frozen=True, slots=True)
class Situation:
    """A verb, the nouns around it, and the reasons for which it does not come about."""

    verb: Verb
    preposition: Preposition | None
    subjects: dict[Gender, tuple[Noun, ...]]
    objects: dict[Gender, tuple[Noun, ...]]
    about_subject: tuple[Adjective, ...]
    about_object: tuple[Adjective, ...]
    tenses: tuple[tuple[Tense, Simple], ...]
    """Those of the event, each with that of its reason."""

    def describes(self, words: list[str], subject: Noun, other: Noun) -> bool:
        """Whether an event in these words is of this kind."""
        matches = self.verb.english.base in words and (not self.preposition or self.preposition.english in words)
        return matches and subject in self.subjects[subject.gender] and other in self.objects[other.gender]

    def referent(self, quality: Adjective, subject: Noun, other: Noun) -> Noun | None:
        """Of which of the two nouns the quality is said here."""
        if quality in self.about_subject:
            return subject
        return other if quality in self.about_object else None


def _by_gender(nouns: tuple[Noun, ...]) -> dict[Gender, tuple[Noun, ...]]:
    return {gender: tuple(noun for noun in nouns if noun.gender == gender) for gender in GENDERS}


def _with_animal(
    verb: str, objects: tuple[Noun, ...], qualities_of_both: str, preposition: Preposition | None = None
) -> Situation:
    about_animal, about_object = map(qualities, qualities_of_both.split("|"))
    animals = _by_gender(of_kind("animal"))
    return Situation(VERBS[verb], preposition, animals, _by_gender(objects), about_animal, about_object, ABLE_OR_NOT)


def _fitting(english: str, german: str, items: tuple[Noun, ...], openings: tuple[Noun, ...], sizes: str) -> Situation:
    too_large, too_small = map(qualities, sizes.split("|"))
    preposition = Preposition(english, german, "accusative")
    return Situation(VERBS["passen"], preposition, _by_gender(items), _by_gender(openings), too_large, too_small, PLAIN)


SITUATIONS = (
    _with_animal("überqueren", of_kind("way"), "tired weak hungry scared sick | wide long icy dark muddy dangerous"),
    _with_animal("ziehen", of_kind("vehicle"), "tired weak hungry sick lazy | heavy big wide long"),
    _with_animal("tragen", LOADS, "tired weak hungry sick lazy | heavy big wide full"),
    _with_animal("fressen", of_kind("food"), "tired weak scared sick lazy | hard dry bitter salty"),
    _with_animal("trinken", of_kind("drink"), "tired weak scared sick lazy | bitter salty sour sweet"),
    _with_animal("klettern", of_kind("height"), "tired weak hungry scared sick | high icy slippery dangerous", ONTO),
    _fitting("into", "in", ITEMS, CONTAINERS, "big wide long thick | small narrow full"),
    _fitting("through", "durch", of_kind("vehicle"), of_kind("passage"), "big wide high long | small narrow low"),
)


def coreference(draw: Draw) -> Phrase:
    situation = draw.one(SITUATIONS)
    subject_gender, object_gender = draw.one(GENDER_PAIRS)
    subject = draw.one(situation.subjects[subject_gender])
    other = draw.one(situation.objects[object_gender])
    about_subject = draw.chance(0.5)
    adjective = draw.one(situation.about_subject if about_subject else situation.about_object)
    event_tense, reason_tense = draw.one(situation.tenses)
    event = _event(draw, situation, event_tense, NounPhrase(THE, subject), NounPhrase(THE, other))
    degree, pronoun = draw.one(DEGREES), IT[subject_gender if about_subject else object_gender]
    reason = Clause(pronoun, BE, reason_tense, complement=degree.then(adjective))
    return sentence(
        f"{event.english(time_first=True)} because {reason.english()}",
        f"{event.german(time_first=True)}, {reason.german_final('weil')}",
    )


def _event(draw: Draw, situation: Situation, tense: Tense, subject: NounPhrase, other: NounPhrase) -> Clause:
    time = draw.some_time(tense) if draw.chance(0.2) else None
    preposition = situation.preposition
    return Clause(
        subject,
        situation.verb,
        tense,
        accusative=None if preposition else other,
        complement=preposition.before(other) if preposition else None,
        time=time,
        negated=True,
        shortened=draw.chance(0.3),
    )


def resolve(source: str) -> Coreference | None:
    """What *it* means in an English sentence of this family; None for any other sentence."""
    event, _, reason = " ".join(source.lower().split()).rstrip(".!").partition(" because it ")
    words = event.split()
    nouns = [NOUNS[word] for word in words if word in NOUNS]
    quality = ADJECTIVES.get(reason.rpartition(" ")[2])
    if len(nouns) != 2 or not quality:
        return None
    subject, other = nouns
    for situation in SITUATIONS:
        if situation.describes(words, subject, other) and (referent := situation.referent(quality, subject, other)):
            return Coreference(
                subject.english, other.english, referent.english, IT[referent.gender].german("nominative")
            )
    return None
