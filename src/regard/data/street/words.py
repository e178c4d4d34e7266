"""The three kinds of word that change their form, each in both languages: nouns, verbs and adjectives.

A word is read from one line of a dictionary table, English on the left and German on the right:

    boy = der Junge/Jungen Jungen                      plural after the noun, accusative and dative after a slash
    call called called = an-rufen ruft rief gerufen    prefix, then infinitive, present, past, participle
    high = hoch/hoh höher höchst                       the stem that takes endings after a slash
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]
Agreement = Literal["first", "second", "third", "plural"]
"""What a verb agrees with: I; you, in German 'du'; he, she, it; we and they."""

GENDER_OF_ARTICLE: dict[str, Gender] = {"der": "m", "die": "f", "das": "n"}
DOUBLED = ("begin", "fit", "forget", "get", "run", "sit", "travel")
"""English verbs whose last consonant doubles before 'ing'."""
STEMS_WITH_E = ("d", "t", "er", "lg", "lieb", "dank", "reis")
"""How German stems end whose imperative needs an e: 'warte', 'klettere', 'folge'."""


class Phrase(NamedTuple):
    """The same words in both languages, for what never changes its form."""

    english: str
    german: str

    def then(self, other: "Phrase | Adjective") -> "Phrase":
        return Phrase(f"{self.english} {other.english}", f"{self.german} {other.german}")


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun; one without a plural is never counted, so it takes no 'a' either."""

    english: str
    english_plural: str | None
    german: str
    german_oblique: str
    german_plural: str
    gender: Gender
    kind: str

    @property
    def is_human(self) -> bool:
        """Whether English says 'who' of it, rather than 'that'."""
        return self.kind in ("person", "child")

    def in_english(self, plural: bool) -> str:
        return self.english_plural or self.english if plural else self.english

    def in_german(self, case: Case, plural: bool) -> str:
        """The declined form: weak nouns change in the singular, the dative plural ends in n."""
        if not plural:
            return self.german if case == "nominative" else self.german_oblique
        if case != "dative" or self.german_plural[-1] in "ns":
            return self.german_plural
        return self.german_plural + "n"


@dataclass(frozen=True, slots=True)
class EnglishVerb:
    """The forms of an English verb, and the particle of such verbs as 'look for'."""

    base: str
    third: str
    past: str
    participle: str
    particle: str

    def present(self, agreement: Agreement) -> str:
        return self.third if agreement == "third" else self.base

    @property
    def progressive(self) -> str:
        """Such as 'buying', 'writing', 'lying' or 'sitting'."""
        if self.base in DOUBLED:
            return f"{self.base}{self.base[-1]}ing"
        if self.base.endswith("ie"):
            return f"{self.base[:-2]}ying"
        silent_e = self.base.endswith("e") and not self.base.endswith(("ee", "be"))
        return f"{self.base.removesuffix('e') if silent_e else self.base}ing"


@dataclass(frozen=True, slots=True)
class GermanVerb:
    """The principal parts of a German verb, without its separable prefix."""

    stem_infinitive: str
    third: str
    stem_past: str
    stem_participle: str
    prefix: str
    auxiliary: Literal["haben", "sein"]
    reflexive: bool

    @property
    def infinitive(self) -> str:
        return self.prefix + self.stem_infinitive

    @property
    def infinitive_with_zu(self) -> str:
        """Such as 'zu kaufen', but 'anzurufen'."""
        return f"{self.prefix}zu{self.stem_infinitive}" if self.prefix else f"zu {self.stem_infinitive}"

    @property
    def participle(self) -> str:
        return self.prefix + self.stem_participle

    def present(self, agreement: Agreement) -> str:
        """Such as 'ruft'. Verbs like 'weiß', whose third person lacks the t, have it for the first person too."""
        if agreement == "plural":
            return self.stem_infinitive
        if agreement == "second":
            return _with_st(self.third.removesuffix("t"))
        if agreement == "third" or not self.third.endswith("t"):
            return self.third
        return f"{self.stem}e"

    def past(self, agreement: Agreement) -> str:
        """Such as 'rief', 'riefst', 'riefen' or 'kaufte', 'kauftest', 'kauften'."""
        if agreement == "second":
            return f"{self.stem_past}est" if self.stem_past.endswith(("d", "t")) else _with_st(self.stem_past)
        if agreement != "plural":
            return self.stem_past
        return self.stem_past + ("n" if self.stem_past.endswith("e") else "en")

    @property
    def stem(self) -> str:
        """The infinitive without its ending: 'kauf', 'kletter'."""
        return self.stem_infinitive.removesuffix("n").removesuffix("e")

    @property
    def imperative(self) -> str:
        """What one says to a friend: 'kauf', 'warte', and 'gib' where an e of the stem becomes i."""
        changed = self.third.removesuffix("t")
        if "e" in self.stem and "i" in changed and "i" not in self.stem:
            return changed
        return self.stem + ("e" if self.stem.endswith(STEMS_WITH_E) else "")


@dataclass(frozen=True, slots=True)
class Verb:
    english: EnglishVerb
    german: GermanVerb


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective; `german_stem` is what takes endings ('dunkel', but 'dunkle'). Only some can be compared."""

    english: str
    english_comparative: str
    english_superlative: str
    german: str
    german_stem: str
    german_comparative: str
    german_superlative: str

    @property
    def phrase(self) -> Phrase:
        return Phrase(self.english, self.german)


def read_noun(line: str, kind: str) -> Noun:
    """A noun from its line in the dictionary; a plural of '-' means none."""
    english, german = (side.split() for side in line.split("="))
    singular, _, irregular = english[0].partition("/")
    article, forms, plural = german
    nominative, _, oblique = forms.partition("/")
    english_plural = None if plural == "-" else irregular or with_s(singular)
    gender = GENDER_OF_ARTICLE[article]
    return Noun(singular, english_plural, nominative, oblique or nominative, plural, gender, kind)


def read_verb(line: str) -> Verb:
    """A verb from its line in the dictionary; 'sich' before it makes it reflexive, 'sein' after it is its auxiliary."""
    english, german = (side.split() for side in line.split("="))
    reflexive = german[0] == "sich"
    infinitive, third, past, participle, *auxiliary = german[reflexive:]
    prefix, _, stem = infinitive.rpartition("-")
    base, _, particle = english[0].partition("+")
    english_third = "has" if base == "have" else with_s(base)
    return Verb(
        EnglishVerb(base, english_third, english[1], english[2], particle.replace("+", " ")),
        GermanVerb(stem, third, past, participle, prefix, "sein" if auxiliary else "haben", reflexive),
    )


def read_adjective(line: str) -> Adjective:
    """An adjective from its line in the dictionary; '+' stands for a space, as in 'more+beautiful'."""
    english, german = (side.split() for side in line.split("="))
    comparative, superlative = (form.replace("+", " ") for form in english[1:] or ("", ""))
    form, _, stem = german[0].partition("/")
    german_comparative, german_superlative = german[1:] or ("", "")
    return Adjective(english[0], comparative, superlative, form, stem or form, german_comparative, german_superlative)


def _with_st(stem: str) -> str:
    """The ending of 'du': 'kaufst', but 'isst' and 'sitzt' after an s of the stem."""
    return stem + ("t" if stem.endswith(("s", "ß", "z")) else "st")


def with_s(word: str) -> str:
    """The English s of plurals and of the third person: dogs, foxes, cities, goes."""
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "o")) else "s")
