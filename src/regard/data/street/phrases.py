"""Phrases: names, pronouns, noun phrases, and what prepositions make of them."""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

from regard.data.street.words import Adjective, Agreement, Case, Gender, Noun

Endings = dict[Case, dict[str, str]]
Declension = Literal["weak", "mixed", "strong"]


def _endings(nominative: str, accusative: str, dative: str) -> Endings:
    """A paradigm from its three rows of four: masculine, feminine, neuter, plural; '-' is no ending."""
    rows: dict[Case, str] = {"nominative": nominative, "accusative": accusative, "dative": dative}
    return {
        case: {column: ending.strip("-") for column, ending in zip("mfnp", row.split(), strict=True)}
        for case, row in rows.items()
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
THIS = Determiner("this", "dies", THIS_ENDINGS, "weak")
THESE = Determiner("these", "dies", THIS_ENDINGS, "weak")
THAT = Determiner("that", "dies", THIS_ENDINGS, "weak")
THOSE = Determiner("those", "dies", THIS_ENDINGS, "weak")
WHICH = Determiner("which", "welch", THIS_ENDINGS, "weak")
A = Determiner("a", "ein", A_ENDINGS, "mixed", indefinite=True)
BARE = Determiner("", "", NO_ENDINGS, "strong", indefinite=True)
OCCUPATION = Determiner("a", "", NO_ENDINGS, "strong", indefinite=True)
"""English 'a' before what somebody is, where German has nothing: 'I am a teacher', 'Ich bin Lehrer'."""
KEIN = Determiner("no", "kein", A_ENDINGS, "mixed")
POSSESSIVES = tuple(
    Determiner(english, stem, A_ENDINGS, "mixed")
    for english, stem in (
        *(("my", "mein"), ("your", "dein"), ("his", "sein"), ("her", "ihr"), ("our", "unser"), ("their", "ihr")),
    )
)


def of_name(name: str) -> Determiner:
    """The possessive of a name: 'Anna's', 'Annas'."""
    return Determiner(f"{name}'s", f"{name}s", NO_ENDINGS, "strong")


def counting(english: str, german: str) -> Determiner:
    """A numeral before a plural."""
    return Determiner(english, german, NO_ENDINGS, "strong")


class Phrase(NamedTuple):
    """The same words in both languages, for what never changes its form."""

    english: str
    german: str


class Nominal(Protocol):
    """What can be a subject or an object."""

    @property
    def agreement(self) -> Agreement:
        """How a verb agrees with it."""
        ...

    @property
    def reflexive(self) -> str:
        """The German pronoun that refers back to it."""
        ...

    def english(self, case: Case) -> str:
        """The English words."""
        ...

    def german(self, case: Case) -> str:
        """The German words."""
        ...


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A pronoun; English has one form for subjects and one for objects, German one for each case."""

    english_forms: tuple[str, str]
    german_forms: dict[Case, str]
    agreement: Agreement = "third"
    reflexive: str = "sich"

    def english(self, case: Case) -> str:
        """Such as 'he' or 'him'."""
        return self.english_forms[case != "nominative"]

    def german(self, case: Case) -> str:
        """Such as 'er', 'ihn' or 'ihm'."""
        return self.german_forms[case]


def _pronoun(english: str, german: str, agreement: Agreement = "third", reflexive: str = "sich") -> Pronoun:
    subject, other = english.split()
    nominative, accusative, dative = german.split()
    forms: dict[Case, str] = {"nominative": nominative, "accusative": accusative, "dative": dative}
    return Pronoun((subject, other), forms, agreement, reflexive)


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
        """The name."""
        return self.text

    def german(self, case: Case) -> str:
        """The name."""
        return self.text


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A determiner, perhaps an adjective, and a noun."""

    determiner: Determiner
    noun: Noun
    adjective: Adjective | None = None
    plural: bool = False
    reflexive: str = "sich"

    @property
    def agreement(self) -> Agreement:
        """Third person, singular or plural."""
        return "plural" if self.plural else "third"

    @property
    def column(self) -> str:
        """The column of a paradigm: a gender, or p for every plural."""
        return "p" if self.plural else self.noun.gender

    def english(self, case: Case) -> str:
        """Such as 'an old man'."""
        words = self.noun.in_english(self.plural)
        if self.adjective:
            words = f"{self.adjective.english} {words}"
        if self.determiner.english == "a" and words[0] in "aeiou":
            return f"an {words}"
        return f"{self.determiner.english} {words}".lstrip()

    def german(self, case: Case) -> str:
        """Such as 'einen alten Mann'."""
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
    """Two joined by 'and'."""

    first: Nominal
    second: Nominal
    agreement: Agreement = "plural"
    reflexive: str = "sich"

    def english(self, case: Case) -> str:
        """Such as 'Anna and Peter'."""
        return f"{self.first.english(case)} and {self.second.english(case)}"

    def german(self, case: Case) -> str:
        """Such as 'Anna und Peter'."""
        return f"{self.first.german(case)} und {self.second.german(case)}"


@dataclass(frozen=True, slots=True)
class WithRelative:
    """A noun phrase and the relative clause about it, which German sets between commas."""

    head: NounPhrase
    clause: Phrase
    reflexive: str = "sich"

    @property
    def agreement(self) -> Agreement:
        """That of the head, however far the verb."""
        return self.head.agreement

    def english(self, case: Case) -> str:
        """Such as 'the chef who went to the store'."""
        return f"{self.head.english(case)} {self.clause.english}"

    def german(self, case: Case) -> str:
        """Such as 'der Koch, der zum Laden ging,'."""
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
