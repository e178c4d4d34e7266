"""Who and what the sentences are about: people, things and doings that go together."""

from dataclasses import dataclass

from regard.data.street.adjectives import SUITING
from regard.data.street.clauses import Clause
from regard.data.street.determiners import BARE, POSSESSIVES, THE, THESE, THIS, A, Determiner
from regard.data.street.draw import Draw
from regard.data.street.nouns import named, of_kind
from regard.data.street.phrases import HER, HIM, ME, THEM, US, Name, Nominal, NounPhrase, Phrase, Preposition
from regard.data.street.tenses import Tense
from regard.data.street.verbs import VERBS
from regard.data.street.words import Noun, Verb

NAMES = (
    *(Name(text, HER) for text in ("Anna", "Maria", "Julia", "Lena", "Clara", "Sophie")),
    *(Name(text, HIM) for text in ("Peter", "Paul", "Thomas", "Max", "Jonas", "Karl")),
)
CITIES = (
    *(Phrase(city, city) for city in ("Berlin", "Hamburg", "Paris", "London")),
    *(Phrase("Vienna", "Wien"), Phrase("Munich", "München"), Phrase("Cologne", "Köln"), Phrase("Rome", "Rom")),
)
PEOPLE, ANIMALS, THINGS, CLOTHES = map(of_kind, ("person", "animal", "thing", "clothing"))
FOOD, DRINKS, VEHICLES = map(of_kind, ("food", "drink", "vehicle"))
GOALS = named("garden forest park market store station school church village hotel museum")
ROOMS = named("garden forest park store station kitchen school church city village hotel museum room tent house")

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
        "vergessen": THINGS + CLOTHES,
        "essen": FOOD,
        "trinken": DRINKS,
    }
)
MEETING = _doings(
    {
        "sehen": PEOPLE + ANIMALS,
        "suchen": PEOPLE + ANIMALS,
        "besuchen": PEOPLE,
        "lieben": PEOPLE + ANIMALS,
        "kennen": PEOPLE,
        "hören": PEOPLE + ANIMALS,
    }
)
"""What one does to people, and to animals."""
DOINGS = (*MAKING, *HANDLING, *MEETING, Doing(VERBS["brauchen"], THINGS + CLOTHES))
SEPARABLE_DOINGS = _doings(
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
COMING_AND_GOING = tuple(VERBS[verb] for verb in ("ankommen", "zurückkommen", "aufstehen", "einschlafen"))


def person(draw: Draw, pronouns: bool = True) -> Nominal:
    """Somebody, to be the subject of a sentence."""
    if draw.chance(0.35):
        return draw.one(NAMES)
    if pronouns and draw.chance(0.3):
        return draw.one((ME, HIM, HER, US, THEM))
    return phrase(draw, PEOPLE)


def somebody(draw: Draw, other_than: Nominal | None = None) -> Nominal:
    """Somebody in few words: a name, or 'the' and a noun."""
    found = draw.one(NAMES) if draw.chance(0.5) else the(draw, PEOPLE, plurals=0.2)
    return somebody(draw, other_than) if found == other_than else found


def phrase(draw: Draw, nouns: tuple[Noun, ...]) -> NounPhrase:
    """Some noun phrase about one of these nouns."""
    noun = draw.one(nouns)
    plural = noun.english_plural is not None and draw.chance(0.2)
    adjective = draw.one(SUITING[noun.kind]) if draw.chance(0.25) else None
    return NounPhrase(_determiner(draw, noun, plural), noun, adjective, plural)


def the(draw: Draw, nouns: tuple[Noun, ...], plurals: float = 0.0) -> NounPhrase:
    """No more than 'the' and one of these nouns, in the plural this often."""
    noun = draw.one(nouns)
    return NounPhrase(THE, noun, plural=noun.english_plural is not None and draw.chance(plurals))


def _determiner(draw: Draw, noun: Noun, plural: bool) -> Determiner:
    if draw.chance(0.45):
        return THE
    if draw.chance(0.5):
        return BARE if plural or noun.english_plural is None else A
    if draw.chance(0.7):
        return draw.one(POSSESSIVES)
    return THESE if plural else THIS


def action(draw: Draw, subject: Nominal, tense: Tense, doings: tuple[Doing, ...] = DOINGS) -> Clause:
    """Somebody does something to something."""
    doing = draw.one(doings)
    return Clause(subject, doing.verb, tense, accusative=phrase(draw, doing.objects))


def motion(draw: Draw, subject: Nominal, tense: Tense) -> Clause:
    """Somebody goes somewhere; all these verbs build their perfect with 'sein'."""
    if draw.chance(0.3):
        city = draw.one(CITIES)
        return Clause(subject, VERBS["reisen"], tense, complement=Phrase(f"to {city.english}", f"nach {city.german}"))
    if draw.chance(0.5):
        return Clause(subject, VERBS["gehen"], tense, complement=TO.before(the(draw, GOALS)))
    return Clause(subject, VERBS["laufen"], tense, complement=INTO.before(the(draw, ROOMS)))
