r"""Dependency trees as brackets, and back, so that a model from text to text can parse.

    (root (nsubj (det The ) dog ) sleeps (punct . ) )

Each bracket opens with its word's relation; what hangs on a word stands before or after it as in the sentence, so that
the words without their brackets are the sentence. Where arcs cross, no nesting can show it: such a word stands in the
bracket of the nearest ancestor that can hold it, and its relation tells how many words away its head is (`obj@-5`).
A backslash protects what words and brackets share: `\(`, `\)`, `\@`, `\\`, and `\s` for a space.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

SPELT = {"\\": "\\\\", "(": "\\(", ")": "\\)", "@": "\\@", " ": "\\s"}
MEANT = {spelt[1]: character for character, spelt in SPELT.items()}
OPENING = re.compile(r"\((?P<relation>(?:[^@\\]|\\.)*)(?:@(?P<away>-?\d{1,9}))?.*", re.DOTALL)


@dataclass(frozen=True)
class Tree:
    """A sentence and what each word hangs on: words count from one, and the head of the root is 0."""

    words: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


def write_brackets(tree: Tree) -> str:
    """The tree as one line; `read_brackets` gives the same tree back."""
    nested = nesting_heads(tree.heads)
    lines = [[word, *_ancestors(nested, word)] for word in range(1, len(nested) + 1)]
    symbols: list[str] = []
    for position, chain in enumerate(lines, start=1):
        before, after = (
            set(lines[other - 1]) if 1 <= other <= len(lines) else () for other in (position - 1, position + 1)
        )
        symbols += [_opening(tree, nested, node) for node in reversed(chain) if node not in before]
        symbols.append(_spelt(tree.words[position - 1]))
        symbols += [")" for node in chain if node not in after]
    return " ".join(symbols)


def nesting_heads(heads: Sequence[int]) -> list[int]:
    """Heads without crossing arcs: a word whose arc crosses another hangs on its head's head instead, and so on."""
    nested = list(heads)
    words = range(1, len(nested) + 1)
    while (crossing := next((word for word in words if not _nests(nested, word)), None)) is not None:
        nested[crossing - 1] = nested[nested[crossing - 1] - 1]
    return nested


def _nests(heads: Sequence[int], word: int) -> bool:
    """Whether all that stands between a word and its head hangs on that head, near or far."""
    head = heads[word - 1]
    between = range(min(word, head) + 1, max(word, head))
    return head == 0 or all(head in _ancestors(heads, other) for other in between)


def _ancestors(heads: Sequence[int], word: int) -> list[int]:
    ancestors: list[int] = []
    while heads[word - 1]:
        word = heads[word - 1]
        ancestors.append(word)
    return ancestors


def _opening(tree: Tree, nested: Sequence[int], word: int) -> str:
    head, relation = tree.heads[word - 1], _spelt(tree.relations[word - 1])
    return f"({relation}" if nested[word - 1] == head else f"({relation}@{head - word}"


def _spelt(text: str) -> str:
    return "".join(SPELT.get(character, character) for character in text)


def _meant(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: MEANT.get(match[1], match[1]), text, flags=re.DOTALL)


@dataclass
class _Bracket:
    """A bracket while it is read: its relation, the word that came in it, and the bracket around it."""

    relation: str = ""
    away: int | None = None
    around: "_Bracket | None" = None
    word: int | None = None

    def nearest(self) -> int | None:
        """The word of this bracket, or else of the nearest one around it that has one."""
        bracket: _Bracket | None = self
        while bracket is not None and bracket.word is None:
            bracket = bracket.around
        return bracket.word if bracket else None


def read_brackets(text: str) -> Tree:
    """The tree that brackets describe: whatever they are, each word in them gets a head, and there is one root.

    What a model wrote may not be well formed. Brackets that are open at the end are closed, closing ones too many are
    passed over, a bracket without a word is as if it were not there, a second word in a bracket hangs on its first, a
    second root on the first, and a distance that leads nowhere or round in a circle does not count.
    """
    words, owners = _read_symbols(text)
    heads = [(owner.around.nearest() if owner.around else None) or 0 for owner in owners]
    roots = [word for word, head in enumerate(heads, start=1) if head == 0]
    for word in roots[1:]:
        heads[word - 1] = roots[0]
    for word, owner in enumerate(owners, start=1):
        head = word + (owner.away or 0)
        if owner.away and 1 <= head <= len(heads) and word not in [head, *_ancestors(heads, head)] and heads[word - 1]:
            heads[word - 1] = head
    return Tree(tuple(words), tuple(heads), tuple(owner.relation for owner in owners))


def _read_symbols(text: str) -> tuple[list[str], list[_Bracket]]:
    """The words, and the bracket that each stands in."""
    words: list[str] = []
    owners: list[_Bracket] = []
    current: _Bracket | None = None
    for symbol in filter(None, text.split(" ")):
        if symbol == ")":
            current = current.around if current else None
        elif match := OPENING.fullmatch(symbol):
            away = int(match["away"]) if match["away"] else None
            current = _Bracket(_meant(match["relation"]), away, current)
        else:
            words.append(_meant(symbol))
            if current is None or current.word is not None:
                owners.append(_Bracket(around=current))
            else:
                owners.append(current)
            owners[-1].word = len(words)
    return words, owners
