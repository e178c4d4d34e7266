"""Every family of sentences, and its share of the corpus."""

from collections.abc import Callable

from regard.data.street import compound, nominal, verbal
from regard.data.street.coreference import coreference
from regard.data.street.draw import Draw
from regard.data.street.phrases import Phrase

FAMILIES: dict[str, tuple[int, Callable[[Draw], Phrase]]] = {
    "coreference": (25, coreference),
    "statement": (8, verbal.statement),
    "perfect": (4, verbal.perfect),
    "modal": (4, verbal.modal),
    "separable": (5, verbal.separable),
    "times": (4, verbal.times),
    "passive": (2, verbal.passive),
    "negation": (4, verbal.negation),
    "question": (5, verbal.question),
    "two_objects": (4, nominal.two_objects),
    "dative": (2, nominal.dative),
    "pronouns": (1, nominal.pronouns),
    "company": (2, nominal.company),
    "prepositional": (3, nominal.prepositional),
    "place": (4, nominal.place),
    "comparison": (3, nominal.comparison),
    "numbers": (4, nominal.numbers),
    "relative": (6, compound.relative),
    "subordinate": (6, compound.subordinate),
    "infinitive": (2, compound.infinitive),
    "coordination": (2, compound.coordination),
}
"""Each family's share in hundredths, and how to draw a sentence of it."""

SHARES = tuple(name for name, (share, _) in FAMILIES.items() for _ in range(share))
"""A hundred names, each as often as its family's share."""
