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
    "third": ("is", "ist"),
    "plural": ("are", "sind"),
}
BECOME_PRESENT: dict[Agreement, str] = {"first": "werde", "third": "wird", "plural": "werden"}


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
        finite = forms.past(agreement) if self.past else forms.present(agreement)
        return Bracket(finite, forms.prefix, joins=True)


@dataclass(frozen=True, slots=True)
class Perfect:
    """The present perfect, in German with 'haben' or 'sein' as the verb demands."""

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'has … bought'."""
        return EnglishGroup(VERBS["haben"].english.present(agreement), verb.english.participle)

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'hat … gekauft' or 'ist … gereist'."""
        by_being = verb.german.auxiliary == "sein"
        finite = _be(agreement, past=False)[1] if by_being else VERBS["haben"].german.present(agreement)
        return Bracket(finite, verb.german.participle)


@dataclass(frozen=True, slots=True)
class Passive:
    """The passive of an event, in German with 'werden'."""

    past: bool

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'was … bought'."""
        return EnglishGroup(_be(agreement, self.past)[0], verb.english.participle)

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'wurde … gekauft'."""
        past = "wurden" if agreement == "plural" else "wurde"
        return Bracket(past if self.past else BECOME_PRESENT[agreement], verb.german.participle)


@dataclass(frozen=True, slots=True)
class Modal:
    """A modal verb, or the future, which is built like one."""

    word: str
    german_forms: dict[Agreement, str]

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'can … buy'."""
        return EnglishGroup(self.word, verb.english.base)

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


def _be(agreement: Agreement, past: bool) -> tuple[str, str]:
    if not past:
        return BE_PRESENT[agreement]
    return ("were", "waren") if agreement == "plural" else ("was", "war")


def _do(agreement: Agreement, past: bool) -> str:
    if past:
        return "did"
    return "does" if agreement == "third" else "do"


def _alike(singular: str, plural: str) -> dict[Agreement, str]:
    return {"first": singular, "third": singular, "plural": plural}


PRESENT = Simple(past=False)
PAST = Simple(past=True)
PERFECT = Perfect()
PASSIVE = Passive(past=False)
PASSIVE_PAST = Passive(past=True)
FUTURE = Modal("will", BECOME_PRESENT)
CAN = Modal("can", _alike("kann", "können"))
COULD = Modal("could", _alike("konnte", "konnten"))
MUST = Modal("must", _alike("muss", "müssen"))
MAY = Modal("may", _alike("darf", "dürfen"))
SHOULD = Modal("should", _alike("sollte", "sollten"))
WANT = ModalWithTo(PRESENT, VERBS["wollen"])
WANTED = ModalWithTo(PAST, VERBS["wollen"])
HAD_TO = ModalWithTo(PAST, VERBS["müssen"])

MODALS: tuple[Tense, ...] = (CAN, COULD, MUST, MAY, SHOULD, WANT, WANTED, HAD_TO, FUTURE)
NARRATIVE = (PRESENT, PAST)
