"""How each tense builds its verb: English with an auxiliary or without, German as a bracket.

A German main clause opens the bracket with the finite verb and closes it at the very end with what is left of the verb:
'Anna ruft den Arzt an', 'Anna hat den Arzt angerufen', 'Anna muss den Arzt anrufen'.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from regard.data.street.verbs import VERBS
from regard.data.street.words import Agreement, Verb

BE = VERBS["sein"]
BE_PRESENT: dict[Agreement, tuple[str, str]] = {
    "first": ("am", "bin"),
    "second": ("are", "bist"),
    "third": ("is", "ist"),
    "plural": ("are", "sind"),
}
BE_PAST: dict[Agreement, tuple[str, str]] = {
    "first": ("was", "war"),
    "second": ("were", "warst"),
    "third": ("was", "war"),
    "plural": ("were", "waren"),
}
BECOME_PRESENT: dict[Agreement, str] = {"first": "werde", "second": "wirst", "third": "wird", "plural": "werden"}
BECOME_PAST: dict[Agreement, str] = {"first": "wurde", "second": "wurdest", "third": "wurde", "plural": "wurden"}


PAST_OF_DU = ("haben", "wollen", "müssen", "mögen", "kennen", "wissen")
"""Verbs whose simple past one says to a friend; of others one says the perfect: 'du hast gerufen', not 'du riefst'."""


class EnglishGroup(NamedTuple):
    """An auxiliary, perhaps none, and the rest: 'not' and a question's subject go between them."""

    auxiliary: str
    rest: str


class Bracket(NamedTuple):
    """The finite verb and what closes the clause; `joins` when a verb-final clause writes the two as one word."""

    finite: str
    closing: str
    joins: bool = False


class Tense(Protocol):
    """A tense, a modal verb or the passive: what turns a verb into its forms."""

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """The English group; `helped` asks for an auxiliary in any case, as negation and questions do."""
        ...

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """The German bracket."""
        ...


@dataclass(frozen=True, slots=True)
class Simple:
    """Present or past, in one word."""

    past: bool

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'buys', or 'does … buy'; the verb 'be' helps itself."""
        if verb is BE:
            return EnglishGroup(_be(agreement, self.past)[0], "")
        forms = verb.english
        if helped:
            return EnglishGroup(_do(agreement, self.past), forms.base)
        return EnglishGroup("", forms.past if self.past else forms.present(agreement))

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'ruft … an'."""
        if verb is BE:
            return Bracket(_be(agreement, self.past)[1], "")
        forms = verb.german
        if self.past and agreement == "second" and forms.infinitive not in PAST_OF_DU:
            return PERFECT.german(verb, agreement)
        finite = forms.past(agreement) if self.past else forms.present(agreement)
        return Bracket(finite, forms.prefix, joins=True)


@dataclass(frozen=True, slots=True)
class Progressive:
    """What goes on at a time: English says it with 'be' and 'ing', German with the simple tense."""

    past: bool

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'is … buying'."""
        return EnglishGroup(_be(agreement, self.past)[0], verb.english.progressive)

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'ruft … an'."""
        return Simple(self.past).german(verb, agreement)


@dataclass(frozen=True, slots=True)
class Perfect:
    """The present or the past perfect, in German with 'haben' or 'sein' as the verb demands."""

    past: bool

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'has … bought'."""
        have = VERBS["haben"].english
        return EnglishGroup(have.past if self.past else have.present(agreement), verb.english.participle)

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'hat … gekauft' or 'ist … gereist'."""
        auxiliary = BE if verb.german.auxiliary == "sein" else VERBS["haben"]
        return Bracket(Simple(self.past).german(auxiliary, agreement).finite, verb.german.participle)


@dataclass(frozen=True, slots=True)
class Passive:
    """The passive of an event, in German with 'werden'."""

    past: bool

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'was … bought'."""
        return EnglishGroup(_be(agreement, self.past)[0], verb.english.participle)

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'wurde … gekauft'."""
        return Bracket((BECOME_PAST if self.past else BECOME_PRESENT)[agreement], verb.german.participle)


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A modal verb, or the future, which is built like one."""

    word: str
    german_forms: dict[Agreement, str]
    link: str = ""
    """What English puts before the infinitive: 'would like to buy'."""

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'can … buy'."""
        return EnglishGroup(self.word, self.link + verb.english.base)

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'kann … kaufen'."""
        return Bracket(self.german_forms[agreement], verb.german.infinitive)


@dataclass(frozen=True, slots=True)
class ModalWithTo:
    """What English says with a full verb and 'to', and German with a modal verb."""

    tense: Simple
    modal: Verb

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'wants to buy'."""
        auxiliary, rest = self.tense.english(self.modal, agreement, helped)
        return EnglishGroup(auxiliary, f"{rest} to {verb.english.base}")

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'will … kaufen'."""
        return Bracket(self.tense.german(self.modal, agreement).finite, verb.german.infinitive)


@dataclass(frozen=True, slots=True)
class GoingTo:
    """What somebody intends: English 'is going to', in German the future."""

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'is … going to buy'."""
        return EnglishGroup(_be(agreement, past=False)[0], f"going to {verb.english.base}")

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'wird … kaufen'."""
        return FUTURE.german(verb, agreement)


def _be(agreement: Agreement, past: bool) -> tuple[str, str]:
    return (BE_PAST if past else BE_PRESENT)[agreement]


def _do(agreement: Agreement, past: bool) -> str:
    if past:
        return "did"
    return "does" if agreement == "third" else "do"


def _forms(singular: str, second: str, plural: str) -> dict[Agreement, str]:
    return {"first": singular, "second": second, "third": singular, "plural": plural}


PRESENT = Simple(past=False)
PAST = Simple(past=True)
PROGRESSIVE = Progressive(past=False)
PAST_PROGRESSIVE = Progressive(past=True)
PERFECT = Perfect(past=False)
PAST_PERFECT = Perfect(past=True)
PASSIVE = Passive(past=False)
PASSIVE_PAST = Passive(past=True)
FUTURE = Modal("will", BECOME_PRESENT)
GOING_TO = GoingTo()
CAN = Modal("can", _forms("kann", "kannst", "können"))
COULD = Modal("could", _forms("konnte", "konntest", "konnten"))
MUST = Modal("must", _forms("muss", "musst", "müssen"))
MAY = Modal("may", _forms("darf", "darfst", "dürfen"))
MUST_NOT = Modal("must", MAY.german_forms)
"""For negated clauses: what one must not do, one 'darf' not do."""
SHOULD = Modal("should", _forms("sollte", "solltest", "sollten"))
WOULD_LIKE = Modal("would", _forms("möchte", "möchtest", "möchten"), "like to ")
WANT = ModalWithTo(PRESENT, VERBS["wollen"])
WANTED = ModalWithTo(PAST, VERBS["wollen"])
HAVE_TO = ModalWithTo(PRESENT, VERBS["müssen"])
HAD_TO = ModalWithTo(PAST, VERBS["müssen"])

MODALS: tuple[Tense, ...] = (CAN, COULD, MUST, MAY, SHOULD, WANT, WANTED, HAVE_TO, HAD_TO, FUTURE)
NARRATIVE = (PRESENT, PAST)
