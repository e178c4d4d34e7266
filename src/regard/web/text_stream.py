"""One text being generated after a prompt: decodes tokens as they come and stops at stop strings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from regard.text.special_tokens import SPECIAL_TOKENS
from regard.text.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"  # what decoding yields for an incomplete UTF-8 character
MAX_CHARACTER_TOKENS = 4  # a character has at most four bytes, and a token at least one
FIRST_TEXT_ID = len(SPECIAL_TOKENS)

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Token:
    """A token with its log-probability and the likeliest alternatives."""

    id: int
    logprob: float | None
    """None for the first token of a prompt, which nothing predicts."""
    alternatives: Sequence[tuple[int, float]] = ()
    ended: bool = False
    """Whether it is the end-of-sequence token, which is not part of the text."""
    last: bool = False
    """Whether the length limit is reached with it."""


@dataclass(frozen=True)
class Chunk:
    """Text that was added to a stream; the chunks of a stream in a row are its text."""

    index: int
    """Which stream of the request."""
    text: str
    start: int
    """The first of the tokens that came with it …"""
    stop: int
    """… and the one after the last."""
    finish: FinishReason | None = None


@dataclass(eq=False)
class TextStream:
    """The text generated after one prompt; `on_chunk` is called for every chunk, on the generating thread."""

    tokenizer: Tokenizer
    prompt: list[int]
    max_tokens: int
    seed: int = 1
    sample: int = 0
    """Which of several samples after the same prompt."""
    index: int = 0
    stop: Sequence[str] = ()
    """The text ends before any of these strings."""
    echo: bool = False
    """Whether the prompt's own tokens are returned too."""
    on_chunk: Callable[[Chunk], None] | None = None
    text: str = field(default="", init=False)
    tokens: list[Token] = field(default_factory=list, init=False)
    offsets: list[int] = field(default_factory=list, init=False)
    """Where each token begins in the text."""
    prompt_tokens: list[Token] = field(default_factory=list, init=False)
    finish: FinishReason | None = field(default=None, init=False)
    _ids: list[int] = field(default_factory=list, init=False)
    _context: int = field(default=0, init=False)
    """Decoding starts here: the ids before `_decoded` are context."""
    _decoded: int = field(default=0, init=False)
    _sent_text: int = field(default=0, init=False)
    _sent_tokens: int = field(default=0, init=False)
    _cancelled: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._ids = _prompt_tail(self.tokenizer, self.prompt)
        self._decoded = len(self._ids)
        if not self.max_tokens:
            self.finish = "length"

    @property
    def open(self) -> bool:
        """Whether more tokens are to be generated."""
        return self.finish is None and not self._cancelled

    def cancel(self) -> None:
        """Stops generation, since the client has disconnected; may be called from any thread."""
        self._cancelled = True

    def append(self, token: Token) -> None:
        """Adds a token; the end token, the length limit or a stop string finishes the stream."""
        self.finish = "stop" if token.ended else "length" if token.last else None
        if not token.ended:
            self.tokens.append(token)
            self.offsets.append(len(self.text))
            self._ids.append(token.id)
        self._decode()
        matches = [offset for offset in map(self.text.find, self.stop) if offset >= 0]
        if matches:
            self.text, self.finish = self.text[: min(matches)], "stop"
        if self.on_chunk:
            self.on_chunk(self._next_chunk())

    def _decode(self) -> None:
        """Adds the complete characters to the text; an incomplete one waits for its other bytes.

        Only the last few tokens are decoded, with those before `_decoded` as context, so that each token costs the same
        and text never changes once it is added.
        """
        before = self.tokenizer.decode(self._ids[self._context : self._decoded])
        text = self.tokenizer.decode(self._ids[self._context :])
        incomplete = text.endswith(REPLACEMENT) and not self.finish
        if incomplete and len(self._ids) - self._decoded < MAX_CHARACTER_TOKENS:
            return
        self.text += text[_common_prefix(before, text) :]
        self._context, self._decoded = self._decoded, len(self._ids)

    def _next_chunk(self) -> Chunk:
        """The text that is certain by now: what may become a stop string is held back."""
        end = len(self.text) if self.finish else len(self.text) - self._possible_stop()
        end = max(end, self._sent_text)
        chunk = Chunk(self.index, self.text[self._sent_text : end], self._sent_tokens, len(self.tokens), self.finish)
        self._sent_text, self._sent_tokens = end, len(self.tokens)
        return chunk

    def _possible_stop(self) -> int:
        """Length of the longest suffix of the text that is a prefix of a stop string."""
        longest = max(map(len, self.stop), default=0)
        sizes = range(min(longest, len(self.text)), 0, -1)
        return next((size for size in sizes if any(stop.startswith(self.text[-size:]) for stop in self.stop)), 0)


def _common_prefix(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _prompt_tail(tokenizer: Tokenizer, prompt: list[int]) -> list[int]:
    """The last tokens of a prompt, from the start of a character."""
    size = MAX_CHARACTER_TOKENS
    while size < len(prompt) and tokenizer.decode(prompt[-size:]).startswith(REPLACEMENT):
        size += MAX_CHARACTER_TOKENS - 1  # not a multiple of a character's bytes, or every start could be inside one
    return prompt[-size:]


def spelling(tokenizer: Tokenizer, id: int) -> str:
    """The text that a token adds inside a text, spaces included; an incomplete character by its bytes."""
    if id < len(SPECIAL_TOKENS):
        return SPECIAL_TOKENS[id]
    before = tokenizer.decode([FIRST_TEXT_ID])  # decoding strips the space before a text's first token
    text = tokenizer.decode([FIRST_TEXT_ID, id]).removeprefix(before)
    return tokenizer.tokens([id])[0] if REPLACEMENT in text else text
