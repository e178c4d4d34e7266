"""Articles and what stands in their place, with the endings they take and those they leave to an adjective.

German shows case and gender once: where the article does not ('ein'), the adjective does ('ein alter Mann').
"""

from dataclasses import dataclass
from typing import Literal

from regard.data.street.words import Case

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
