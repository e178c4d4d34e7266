"""Phrases: names, pronouns, noun phrases, what prepositions make of them, and numbers, times and dates in words."""

from dataclasses import dataclass, replace
from typing import Literal, Protocol

from regard.data.street.words import Adjective, Agreement, Case, Gender, Noun, Phrase

CASES: tuple[Case, ...] = ("nominative", "accusative", "dative")
Endings = dict[Case, dict[str, str]]
Declension = Literal["weak", "mixed", "strong"]


def _phrases(table: str) -> tuple[Phrase, ...]:
    return tuple(Phrase(*entry.split()) for entry in table.split("|"))


def _endings(nominative: str, accusative: str, dative: str) -> Endings:
    """A paradigm from its three rows of four: masculine, feminine, neuter, plural; '-' is no ending."""
    return {
        case: {column: ending.strip("-") for column, ending in zip("mfnp", row.split(), strict=True)}
        for case, row in zip(CASES, (nominative, accusative, dative), strict=True)
    }


THE_FORMS = _endings("der die das die", "den die das die", "dem der dem den")
RELATIVE_FORMS = _endings("der die das die", "den die das die", "dem der dem denen")
THIS_ENDINGS = _endings("er e es e", "en e es e", "em er em en")
A_ENDINGS = _endings("- e - e", "en e - e", "em er em en")
NO_ENDINGS = _endings("- - - -", "- - - -", "- - - -")

ADJECTIVE_ENDINGS: dict[Declension, Endings] = {
    "weak": _endings("e e e en", "en e e en", "en en en en"),
    "mixed": _endings("er e es en", "en e es en", "en en en en"),
    "strong": _endings("er e es e", "en e es e", "em er em en"),
}


@dataclass(frozen=True, slots=True)
class Determiner:
    """An article or what stands in its place; `declension` is that of an adjective after it."""

    english: str
    stem: str
    endings: Endings
    declension: Declension
    indefinite: bool = False


THE = Determiner("the", "", THE_FORMS, "weak")
THIS, THESE, THAT, THOSE = (
    Determiner(word, "dies", THIS_ENDINGS, "weak") for word in ("this", "these", "that", "those")
)
WHICH = Determiner("which", "welch", THIS_ENDINGS, "weak")
A = Determiner("a", "ein", A_ENDINGS, "mixed", indefinite=True)
BARE = Determiner("", "", NO_ENDINGS, "strong", indefinite=True)
OCCUPATION = Determiner("a", "", NO_ENDINGS, "strong", indefinite=True)
"""English 'a' before what somebody is, where German has nothing: 'I am a teacher', 'Ich bin Lehrer'."""
KEIN = Determiner("no", "kein", A_ENDINGS, "mixed")
POSSESSIVES = tuple(
    Determiner(english, stem, A_ENDINGS, "mixed")
    for english, stem in _phrases("my mein | your dein | his sein | her ihr | our unser | their ihr")
)


def of_name(name: str) -> Determiner:
    """The possessive of a name: 'Anna's', 'Annas'."""
    return Determiner(f"{name}'s", f"{name}s", NO_ENDINGS, "strong")


def counting(english: str, german: str) -> Determiner:
    """A numeral before a plural."""
    return Determiner(english, german, NO_ENDINGS, "strong")


class Nominal(Protocol):
    """What can be a subject or an object."""

    @property
    def agreement(self) -> Agreement: ...

    @property
    def reflexive(self) -> str:
        """The German pronoun that refers back to it."""
        ...

    def english(self, case: Case) -> str: ...

    def german(self, case: Case) -> str: ...


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A pronoun; English has one form for subjects and one for objects, German one for each case."""

    english_forms: tuple[str, str]
    german_forms: dict[Case, str]
    agreement: Agreement = "third"
    reflexive: str = "sich"

    def english(self, case: Case) -> str:
        return self.english_forms[case != "nominative"]

    def german(self, case: Case) -> str:
        return self.german_forms[case]


def _pronoun(english: str, german: str, agreement: Agreement = "third", reflexive: str = "sich") -> Pronoun:
    subject, other = english.split()
    return Pronoun((subject, other), dict(zip(CASES, german.split(), strict=True)), agreement, reflexive)


ME = _pronoun("I me", "ich mich mir", "first", "mich")
YOU = _pronoun("you you", "du dich dir", "second", "dich")
HIM = _pronoun("he him", "er ihn ihm")
HER = _pronoun("she her", "sie sie ihr")
US = _pronoun("we us", "wir uns uns", "plural", "uns")
THEM = _pronoun("they them", "sie sie ihnen", "plural")
WHO = _pronoun("who whom", "wer wen wem")
IT: dict[Gender, Pronoun] = {
    "m": _pronoun("it it", "er ihn ihm"),
    "f": _pronoun("it it", "sie sie ihr"),
    "n": _pronoun("it it", "es es ihm"),
}


@dataclass(frozen=True, slots=True)
class Name:
    """A person's name: the same in both languages and in every case."""

    text: str
    pronoun: Pronoun
    agreement: Agreement = "third"
    reflexive: str = "sich"

    def english(self, case: Case) -> str:
        return self.text

    def german(self, case: Case) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A determiner, perhaps an adjective, and a noun: 'an old man', 'einen alten Mann'."""

    determiner: Determiner
    noun: Noun
    adjective: Adjective | None = None
    plural: bool = False
    reflexive: str = "sich"

    @property
    def agreement(self) -> Agreement:
        return "plural" if self.plural else "third"

    @property
    def column(self) -> str:
        """The column of a paradigm: a gender, or p for every plural."""
        return "p" if self.plural else self.noun.gender

    def english(self, case: Case) -> str:
        words = self.noun.in_english(self.plural)
        if self.adjective:
            words = f"{self.adjective.english} {words}"
        if self.determiner.english == "a" and words[0] in "aeiou":
            return f"an {words}"
        return f"{self.determiner.english} {words}".lstrip()

    def german(self, case: Case) -> str:
        column, determiner = self.column, self.determiner
        words = self.noun.in_german(case, self.plural)
        if self.adjective:
            words = f"{self.adjective.german_stem}{ADJECTIVE_ENDINGS[determiner.declension][case][column]} {words}"
        return f"{determiner.stem}{determiner.endings[case][column]} {words}".lstrip()

    def denied(self) -> "NounPhrase":
        """The same with 'kein', which in German carries the negation of an indefinite phrase."""
        return replace(self, determiner=KEIN)


@dataclass(frozen=True, slots=True)
class Both:
    """Two joined by 'and': 'Anna and Peter'."""

    first: Nominal
    second: Nominal
    agreement: Agreement = "plural"
    reflexive: str = "sich"

    def english(self, case: Case) -> str:
        return f"{self.first.english(case)} and {self.second.english(case)}"

    def german(self, case: Case) -> str:
        return f"{self.first.german(case)} und {self.second.german(case)}"


@dataclass(frozen=True, slots=True)
class WithRelative:
    """A noun phrase and the relative clause about it: 'the chef who went', in German 'der Koch, der ging,'."""

    head: NounPhrase
    clause: Phrase
    reflexive: str = "sich"

    @property
    def agreement(self) -> Agreement:
        return self.head.agreement

    def english(self, case: Case) -> str:
        return f"{self.head.english(case)} {self.clause.english}"

    def german(self, case: Case) -> str:
        return f"{self.head.german(case)}, {self.clause.german},"


def relative_pronoun(head: NounPhrase) -> Pronoun:
    """The pronoun that opens a relative clause about `head`."""
    english = ("who", "whom") if head.noun.is_human else ("that", "that")
    german: dict[Case, str] = {case: row[head.column] for case, row in RELATIVE_FORMS.items()}
    return Pronoun(english, german, head.agreement)


@dataclass(frozen=True, slots=True)
class Preposition:
    """A preposition and the case it takes in German."""

    english: str
    german: str
    case: Case

    def before(self, nominal: Nominal) -> Phrase:
        """The prepositional phrase; German joins some prepositions with the article, as in 'im' and 'zur'."""
        preposition, words = self.german, nominal.german(self.case)
        article, _, rest = words.partition(" ")
        if joined := JOINED.get((preposition, article)):
            preposition, words = joined, rest
        return Phrase(f"{self.english} {nominal.english(self.case)}".lstrip(), f"{preposition} {words}")


JOINED = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}


SMALL = _phrases("""
zero null | one eins | two zwei | three drei | four vier | five fünf | six sechs | seven sieben | eight acht |
nine neun | ten zehn | eleven elf | twelve zwölf | thirteen dreizehn | fourteen vierzehn | fifteen fünfzehn |
sixteen sechzehn | seventeen siebzehn | eighteen achtzehn | nineteen neunzehn
""")
TENS = _phrases("""
twenty zwanzig | thirty dreißig | forty vierzig | fifty fünfzig | sixty sechzig | seventy siebzig | eighty achtzig |
ninety neunzig
""")
MONTHS = _phrases("""
January Januar | February Februar | March März | April April | May Mai | June Juni | July Juli | August August |
September September | October Oktober | November November | December Dezember
""")
DAYS = _phrases("""
Monday Montag | Tuesday Dienstag | Wednesday Mittwoch | Thursday Donnerstag | Friday Freitag | Saturday Samstag |
Sunday Sonntag
""")

_IRREGULAR = _phrases("""
first ersten | second zweiten | third dritten | fifth fünften | seventh siebten | eighth achten | ninth neunten |
twelfth zwölften
""")
IRREGULAR_ORDINALS: dict[int, Phrase] = dict(zip((1, 2, 3, 5, 7, 8, 9, 12), _IRREGULAR, strict=True))


def cardinal(number: int) -> Phrase:
    """A number from 0 to 99, or a whole hundred below a thousand."""
    if number < 20:
        return SMALL[number]
    if number >= 100:
        hundreds = SMALL[number // 100]
        return Phrase(f"{hundreds.english} hundred", f"{_inside(hundreds)}hundert")
    tens, units = TENS[number // 10 - 2], SMALL[number % 10]
    if number % 10 == 0:
        return tens
    return Phrase(f"{tens.english}-{units.english}", f"{_inside(units)}und{tens.german}")


def _inside(number: Phrase) -> str:
    """How a number reads before more words: 'ein Uhr', 'einundzwanzig'."""
    return "ein" if number.german == "eins" else number.german


def ordinal(number: int) -> Phrase:
    """A number of order from 1 to 31, in German with the ending it has after 'am'."""
    if number < 20:
        plain = SMALL[number]
        return IRREGULAR_ORDINALS.get(number) or Phrase(f"{plain.english}th", f"{plain.german}ten")
    english, german = cardinal(number)
    tens, dash, units = english.rpartition("-")
    last = ordinal(number % 10).english if dash else units[:-1] + "ieth"
    return Phrase(tens + dash + last, f"{german}sten")


MINUTES = {
    0: Phrase("{hour} o'clock", "{hour} Uhr"),
    5: Phrase("five past {hour}", "fünf nach {hour}"),
    10: Phrase("ten past {hour}", "zehn nach {hour}"),
    15: Phrase("a quarter past {hour}", "Viertel nach {hour}"),
    20: Phrase("twenty past {hour}", "zwanzig nach {hour}"),
    30: Phrase("half past {hour}", "halb {hour}"),
    40: Phrase("twenty to {hour}", "zwanzig vor {hour}"),
    45: Phrase("a quarter to {hour}", "Viertel vor {hour}"),
    50: Phrase("ten to {hour}", "zehn vor {hour}"),
    55: Phrase("five to {hour}", "fünf vor {hour}"),
}
"""How the clock is read, by the minutes past the full hour."""


def clock(hour: int, minutes: int) -> Phrase:
    """A time of day on a clock of twelve hours; German counts 'halb' towards the next hour."""
    english, german = MINUTES[minutes]
    following = hour % 12 + 1
    english_hour = cardinal(following if minutes > 30 else hour).english
    german_number = cardinal(following if minutes >= 30 else hour)
    german_hour = german_number.german if minutes else _inside(german_number)
    return Phrase(f"at {english.format(hour=english_hour)}", f"um {german.format(hour=german_hour)}")


def date(day: int, month: int) -> Phrase:
    """A day of the year: 'on the third of May'."""
    number, name = ordinal(day), MONTHS[month - 1]
    return Phrase(f"on the {number.english} of {name.english}", f"am {number.german} {name.german}")


DAYS_OF_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
