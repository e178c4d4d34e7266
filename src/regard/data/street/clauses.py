"""A clause in both languages: one meaning, the word order of each.

English keeps subject, verb and objects in this order. German orders by the kind of clause: the finite verb is second in
a statement ('Heute kauft Anna das Buch'), first in a question ('Kauft Anna das Buch?'), last in a subordinate clause
('weil Anna das Buch kauft'); the rest of the verb closes the clause.
"""

from dataclasses import dataclass

from regard.data.street.phrases import Nominal, NounPhrase, Phrase, Pronoun
from regard.data.street.verbs import Bracket, EnglishGroup, Tense
from regard.data.street.words import Verb

SHORTENED = {"can not": "can't", "will not": "won't", "may not": "may not"}
ATTACHED = {"am": "'m", "are": "'re", "is": "'s", "have": "'ve", "has": "'s", "had": "'d", "will": "'ll", "would": "'d"}
"""How an English auxiliary is written after a pronoun: 'it's', 'we'll'."""

ATTACHING = ("I", "you", "he", "she", "it", "we", "they", "that", "who")
"""The words after which English shortens an auxiliary."""
PARTICLES = ("along", "away", "off", "on", "up")
"""Those that may follow the object, and must follow a pronoun: 'threw it away'."""


@dataclass(frozen=True, slots=True)
class Clause:
    """Who does what to whom; `complement` is what stands closest to the verb's end: a place, a goal, a quality."""

    subject: Nominal
    verb: Verb
    tense: Tense
    accusative: Nominal | None = None
    dative: Nominal | None = None
    complement: Phrase | None = None
    time: Phrase | None = None
    predicate: NounPhrase | None = None
    """What the subject is: 'My dog is a big animal'."""
    negated: bool = False
    shortened: bool = False
    """English 'didn't' for 'did not', and 'it's' for 'it is'."""
    particle_last: bool = False
    """English 'turns the lamp on' for 'turns on the lamp'."""
    dative_with_to: bool = False
    """English 'gives a book to the boy' for 'gives the boy a book'."""

    def english(self, time_first: bool = False) -> str:
        """The statement, also the subordinate clause: English orders both alike."""
        words = _join(self._english_opening(), self._english_objects())
        if not self.time:
            return words
        return f"{self.time.english} {words}" if time_first else f"{words} {self.time.english}"

    def english_question(self, opener: str = "") -> str:
        """The question, after a question word if there is one."""
        auxiliary, rest = self._english_group(helped=True)
        subject, time = self.subject.english("nominative"), self.time.english if self.time else ""
        if self.negated and self.shortened and auxiliary != "am":
            auxiliary = self._denied(auxiliary)
        elif self.negated:
            subject += " not"
        return _join(opener, auxiliary, subject, rest, self._english_objects(), time)

    def english_command(self) -> str:
        """'Open the door', 'Do not laugh'."""
        no = self._denied("do") if self.negated else ""
        return _join(no, self.verb.english.base, self._english_objects(), self.time.english if self.time else "")

    def german_command(self) -> str:
        """'Mach die Tür auf': the prefix at the end."""
        return _join(self.verb.german.imperative, self._middle(), self.verb.german.prefix)

    def english_answer(self) -> str:
        """The subject and its auxiliary alone, as in 'he doesn't'."""
        return _join(self._english_opening(helped=True).removesuffix(f" {self._english_group(helped=True).rest}"))

    def english_infinitive(self, opener: str = "to") -> str:
        """Without its subject, as in 'to open the door'."""
        return _join(opener, self.verb.english.base, self._english_objects())

    def german(self, time_first: bool = False) -> str:
        """The statement: the finite verb is second, whatever is first."""
        finite, closing, _ = self._bracket()
        subject = self.subject.german("nominative")
        if self.time and time_first:
            return _join(self.time.german, finite, subject, self._middle(with_time=False), closing)
        return _join(subject, finite, self._middle(), closing)

    def german_inverted(self, opener: str = "") -> str:
        """The finite verb before its subject: a question, or a statement after a subordinate clause."""
        finite, closing, _ = self._bracket()
        return _join(opener, finite, self.subject.german("nominative"), self._middle(), closing)

    def german_final(self, opener: str = "") -> str:
        """The finite verb last: a subordinate clause after its conjunction, or a relative clause."""
        finite, closing, joins = self._bracket()
        end = closing + finite if joins else _join(closing, finite)
        return _join(opener, self.subject.german("nominative"), self._middle(), end)

    def german_infinitive(self, with_zu: bool = True) -> str:
        """Without its subject, as in 'die Tür aufzumachen'."""
        verb = self.verb.german
        return _join(self._middle(), verb.infinitive_with_zu if with_zu else verb.infinitive)

    def _english_opening(self, helped: bool = False) -> str:
        auxiliary, rest = self._english_group(helped=helped or self.negated)
        subject = self.subject.english("nominative")
        attached = ATTACHED.get(auxiliary, "") if self.shortened and subject in ATTACHING else ""
        if attached and (auxiliary == "am" or not self.negated):
            return _join(subject + attached, "not" if self.negated else "", rest)
        return _join(subject, self._denied(auxiliary), rest)

    def _english_group(self, helped: bool) -> EnglishGroup:
        return self.tense.english(self.verb, self.subject.agreement, helped)

    def _bracket(self) -> Bracket:
        return self.tense.german(self.verb, self.subject.agreement)

    def _denied(self, auxiliary: str) -> str:
        if not self.negated:
            return auxiliary
        full = f"{auxiliary} not"
        if self.shortened:
            return SHORTENED.get(full, f"{auxiliary}n't")
        return "cannot" if auxiliary == "can" else full

    def _english_objects(self) -> str:
        particle = self.verb.english.particle
        accusative = self.accusative.english("accusative") if self.accusative else ""
        complement = self.complement.english if self.complement else ""
        if self.predicate:
            accusative = self.predicate.english("nominative")
        if particle in PARTICLES and (self.particle_last or isinstance(self.accusative, Pronoun)):
            return _join(accusative, particle, complement)
        if not self.dative:
            return _join(particle, accusative, complement)
        dative = self.dative.english("dative")
        if self.dative_with_to:
            return _join(particle, accusative, "to", dative, complement)
        return _join(particle, dative, accusative, complement)

    def _middle(self, with_time: bool = True) -> str:
        """What stands inside the bracket: pronouns first, then time, objects, 'nicht' and the complement."""
        accusative, predicate, no = self.accusative, self.predicate, "nicht" if self.negated else ""
        if self.negated and isinstance(accusative, NounPhrase) and accusative.determiner.indefinite:
            accusative, no = accusative.denied(), ""
        if self.negated and predicate and predicate.determiner.indefinite:
            predicate, no = predicate.denied(), ""
        words = [self.subject.reflexive if self.verb.german.reflexive else ""]
        late = [self.time.german if self.time and with_time else ""]
        if isinstance(accusative, Pronoun):
            words.append(accusative.german("accusative"))
        if self.dative:
            (words if isinstance(self.dative, Pronoun) else late).append(self.dative.german("dative"))
        if accusative and not isinstance(accusative, Pronoun):
            late.append(accusative.german("accusative"))
        named = predicate.german("nominative") if predicate else ""
        return _join(*words, *late, no, named, self.complement.german if self.complement else "")


def _join(*parts: str) -> str:
    return " ".join(filter(None, parts))


def sentence(english: str, german: str, mark: str = ".") -> Phrase:
    """Both sides with their capital and full stop; a comma before another mark goes."""
    german = german.rstrip(",").replace(",,", ",")
    return Phrase(english[0].upper() + english[1:] + mark, german[0].upper() + german[1:] + mark)


def as_question(clause: Clause, english: str = "", german: str = "") -> Phrase:
    """The clause as a question, after a question word if there is one."""
    return sentence(clause.english_question(english), clause.german_inverted(german), "?")


def with_clause(main: Clause, conjunction: Phrase, content: Clause) -> Phrase:
    """A subordinate clause after the main clause."""
    return sentence(
        f"{main.english()} {conjunction.english} {content.english()}",
        f"{main.german()}, {content.german_final(conjunction.german)}",
    )


BECAUSE = Phrase("because", "weil")
