"""One text being written after a prompt: it turns tokens into text as they come, and knows when it has enough."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from regard.text.special_tokens import SPECIAL_TOKENS
from regard.text.tokenizer import Tokenizer

HALF = "\ufffd"  # what decoding shows for half a character
CHARACTER = 4  # most tokens of one character: its bytes


@dataclass(frozen=True)
class Token:
    """A token at its place, and what else was likely there."""

    id: int
    logprob: float | None
    """None at the very beginning, which nothing predicts."""
    likely: Sequence[tuple[int, float]] = ()
    ended: bool = False
    """Whether it is the end token, which belongs to no text."""
    last: bool = False
    """Whether the length limit allows nothing after it."""


@dataclass(frozen=True)
class Piece:
    """What was added to a passage's text: pieces in a row are the text."""

    index: int
    """Which passage."""
    text: str
    start: int
    """It came with the passage's tokens from here …"""
    stop: int
    """… to here."""
    finish: Literal["stop", "length"] | None = None


@dataclass(eq=False)
class Passage:
    """What is to be written after one prompt; `listen` hears every piece, on the thread that writes."""

    tokenizer: Tokenizer
    prompt: list[int]
    limit: int
    """Most tokens to write; none are written where it is zero."""
    seed: int = 1
    sample: int = 0
    """Which of several texts after the same prompt, each with random numbers of its own."""
    index: int = 0
    stops: Sequence[str] = ()
    """The text ends before any of these."""
    echo: bool = False
    """Whether the prompt's own tokens are wanted too."""
    listen: Callable[[Piece], None] | None = None
    text: str = field(default="", init=False)
    tokens: list[Token] = field(default_factory=list, init=False)
    places: list[int] = field(default_factory=list, init=False)
    """Where each token begins in the text."""
    prompt_tokens: list[Token] = field(default_factory=list, init=False)
    finish: Literal["stop", "length"] | None = field(default=None, init=False)
    _ids: list[int] = field(default_factory=list, init=False)
    _from: int = field(default=0, init=False)
    _read: int = field(default=0, init=False)
    _shown: int = field(default=0, init=False)
    _told: int = field(default=0, init=False)
    _left: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._ids = _tail(self.tokenizer, self.prompt)
        self._read = len(self._ids)
        if not self.limit:
            self.finish = "length"

    @property
    def open(self) -> bool:
        """Whether more is to be written."""
        return self.finish is None and not self._left

    def leave(self) -> None:
        """Nobody waits for it any more; may be called from any thread."""
        self._left = True

    def take(self, token: Token) -> None:
        """Adds a token; the end token, the limit or a stop ends the passage."""
        self.finish = "stop" if token.ended else "length" if token.last else None
        if not token.ended:
            self.tokens.append(token)
            self.places.append(len(self.text))
            self._ids.append(token.id)
        self._decode()
        self._stop()
        if self.listen:
            self.listen(self._piece())

    def _decode(self) -> None:
        """Adds to the text what is whole: half a character waits for its other bytes, as long as they can come.

        Only the last few tokens are decoded, those before `_read` for what they do to their neighbours. So each token
        costs the same, and text once written never changes.
        """
        before = self.tokenizer.decode(self._ids[self._from : self._read])
        text = self.tokenizer.decode(self._ids[self._from :])
        if text.endswith(HALF) and not self.finish and len(self._ids) - self._read < CHARACTER:
            return
        self.text += text[_shared(before, text) :]
        self._from, self._read = self._read, len(self._ids)

    def _stop(self) -> None:
        found = [place for place in map(self.text.find, self.stops) if place >= 0]
        if found:
            self.text, self.finish = self.text[: min(found)], "stop"

    def _piece(self) -> Piece:
        """What is certain by now: what may become a stop waits for what follows."""
        sure = len(self.text) if self.finish else len(self.text) - self._held()
        sure = max(sure, self._shown)
        piece = Piece(self.index, self.text[self._shown : sure], self._told, len(self.tokens), self.finish)
        self._shown, self._told = sure, len(self.tokens)
        return piece

    def _held(self) -> int:
        """How long the end of the text is that could be the beginning of a stop."""
        longest = max(map(len, self.stops), default=0)
        ends = (size for size in range(min(longest, len(self.text)), 0, -1))
        return next((size for size in ends if any(stop.startswith(self.text[-size:]) for stop in self.stops)), 0)


def _shared(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _tail(tokenizer: Tokenizer, prompt: list[int]) -> list[int]:
    """The last tokens of a prompt, from where a character begins."""
    size = CHARACTER
    while size < len(prompt) and tokenizer.decode(prompt[-size:]).startswith(HALF):
        size += CHARACTER - 1  # no multiple of a character's bytes, or every start could be within one
    return prompt[-size:]


def spelling(tokenizer: Tokenizer, id: int) -> str:
    """The text that a token adds inside a text, spaces included; half a character by its bytes."""
    if id < len(SPECIAL_TOKENS):
        return SPECIAL_TOKENS[id]
    before = tokenizer.decode([ANCHOR])
    text = tokenizer.decode([ANCHOR, id]).removeprefix(before)
    return tokenizer.tokens([id])[0] if HALF in text else text


ANCHOR = len(SPECIAL_TOKENS)  # the first token that is text: decoding strips the space before a text's first token
