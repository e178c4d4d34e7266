"""Every family of sentences, and its share of the corpus."""

from collections.abc import Callable

from regard.data.street import compound, nominal, simple, talk, verbal
from regard.data.street.coreference import coreference
from regard.data.street.draw import Draw
from regard.data.street.phrases import Phrase

FAMILIES: dict[str, tuple[int, Callable[[Draw], Phrase]]] = {
    "coreference": (16, coreference),
    "intransitive": (5, simple.intransitive),
    "transitive": (9, simple.transitive),
    "quality": (4, simple.quality),
    "identity": (3, simple.identity),
    "joined": (3, simple.joined),
    "reason": (5, simple.reason),
    "yes_no_question": (9, talk.question),
    "open_question": (6, talk.open_question),
    "command": (4, talk.command),
    "answer": (4, talk.answer),
    "statement": (3, verbal.statement),
    "perfect": (1, verbal.perfect),
    "modal": (2, verbal.modal),
    "separable": (3, verbal.separable),
    "times": (2, verbal.times),
    "passive": (1, verbal.passive),
    "negation": (1, verbal.negation),
    "question": (1, verbal.question),
    "two_objects": (2, nominal.two_objects),
    "dative": (1, nominal.dative),
    "company": (1, nominal.company),
    "prepositional": (2, nominal.prepositional),
    "place": (2, nominal.place),
    "comparison": (1, nominal.comparison),
    "numbers": (2, nominal.numbers),
    "relative": (3, compound.relative),
    "subordinate": (2, compound.subordinate),
    "infinitive": (1, compound.infinitive),
    "coordination": (1, compound.coordination),
}
"""Each family's share in hundredths, and how to draw a sentence of it."""

SHARES = tuple(name for name, (share, _) in FAMILIES.items() for _ in range(share))
"""A hundred names, each as often as its family's share."""
