"""One request for completions: its passages, and how OpenAI's clients are told about them."""

import json
import secrets
import time
from typing import Any

from regard.config.search_options import SHARED
from regard.decode import BeamConfig, GreedyConfig, SampleConfig
from regard.decode.search import search_with
from regard.run import Run
from regard.text.special_tokens import BOS
from regard.web.completion_shapes import CompletionRequest
from regard.web.errors import Refusal
from regard.web.jobs import Job, Writing
from regard.web.registry import Served
from regard.web.settings import CHARACTERS, CHOICES, TOKENS_TO_WRITE
from regard.web.text_stream import Passage, Piece, Token, spelling


class CompletionWork:
    """What a request asks of a run, and its answer in OpenAI's words."""

    def __init__(self, asked: CompletionRequest, served: Served) -> None:
        self.asked, self.served, self.tokenizer = asked, served, served.tokenizer
        self.id, self.created = f"cmpl-{secrets.token_hex(12)}", int(time.time())
        if asked.stream_options is not None and not asked.stream:
            raise Refusal(400, "stream_options: says how to stream; set stream, or leave it out")
        _check_amounts(asked)
        self.prompts = [served.prompt(prompt, asked.max_tokens) for prompt in asked.prompts]
        seed = secrets.randbits(48) if asked.seed is None else asked.seed
        self.passages = [
            self._passage(prompt, seed, sample, place * asked.n + sample)
            for place, prompt in enumerate(self.prompts)
            for sample in range(asked.n)
        ]
        self.job = Job(
            Writing(search_for(served.run, asked), asked.logprobs),
            self.passages,
            longest=max(map(len, self.prompts)) + asked.max_tokens,
        )

    def _passage(self, prompt: list[int], seed: int, sample: int, index: int) -> Passage:
        asked = self.asked
        return Passage(self.tokenizer, prompt, asked.max_tokens, seed, sample, index, asked.stops, asked.echo)

    def choice(self, passage: Passage) -> dict[str, Any]:
        """A whole text."""
        return self._told(passage, passage.text, 0, len(passage.tokens), passage.finish)

    def part(self, piece: Piece) -> dict[str, Any]:
        """A piece of a text; the first one has the echoed prompt before it."""
        return self._told(self.passages[piece.index], piece.text, piece.start, piece.stop, piece.finish)

    def _told(self, passage: Passage, text: str, start: int, stop: int, finish: str | None) -> dict[str, Any]:
        """Text that came with the tokens from `start` to `stop`."""
        echo = self.tokenizer.decode(passage.prompt) if self.asked.echo else ""
        tree = {"text": text if start else echo + text, "index": passage.index, "finish_reason": finish}
        if self.asked.logprobs is None:
            return {**tree, "logprobs": None}
        placed = [] if start else self._prompt_places(passage)
        placed += [(passage.tokens[at], len(echo) + passage.places[at]) for at in range(start, stop)]
        return {**tree, "logprobs": self._logprobs(placed)}

    def _prompt_places(self, passage: Passage) -> list[tuple[Token, int]]:
        """The prompt's tokens where they are echoed, and where they begin; the begin token is no text."""
        places = enumerate(passage.prompt_tokens)
        decode = self.tokenizer.decode
        return [(token, len(decode(passage.prompt[:at]))) for at, token in places if token.id != BOS]

    def _logprobs(self, placed: list[tuple[Token, int]]) -> dict[str, Any]:
        return {
            "tokens": [spelling(self.tokenizer, token.id) for token, _ in placed],
            "token_logprobs": [token.logprob for token, _ in placed],
            "top_logprobs": [self._likely(token) for token, _ in placed],
            "text_offset": [place for _, place in placed],
        }

    def _likely(self, token: Token) -> dict[str, float] | None:
        """The likeliest tokens at a place, the one that stands there among them."""
        if token.logprob is None or not self.asked.logprobs:
            return None
        return {spelling(self.tokenizer, id): logprob for id, logprob in [*token.likely, (token.id, token.logprob)]}

    def usage(self) -> dict[str, int]:
        """Tokens read, each prompt once, and written."""
        read, written = sum(map(len, self.prompts)), sum(len(passage.tokens) for passage in self.passages)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    def tree(self, choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> dict[str, Any]:
        """The object around choices."""
        head = {"id": self.id, "object": "text_completion", "created": self.created, "model": self.served.name}
        return {**head, "choices": choices, "usage": usage}

    def event(self, choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> str:
        """The same as a server-sent event."""
        return f"data: {json.dumps(self.tree(choices, usage), ensure_ascii=False, allow_nan=False)}\n\n"


def search_for(run: Run, asked: CompletionRequest) -> SampleConfig | BeamConfig:
    """The run's own search with what a request asks for on top; seeds and lengths are its passages'."""
    top_p = None if asked.temperature == 0 else asked.top_p  # OpenAI's clients send it all the same
    options = {"max_length": asked.max_tokens or None, "temperature": asked.temperature, "top_p": top_p}
    search = run.search_with(options, {"max_length": "max_tokens"})
    if isinstance(search, BeamConfig):
        search = search_with(search, {"n_best": asked.n})
    else:
        search = (
            search.but(samples=1, seed=1)
            if isinstance(search, SampleConfig)
            else SampleConfig(temperature=0.0, **{name: getattr(search, name) for name in SHARED})
        )
    assert not isinstance(search, GreedyConfig)
    return search.but(max_length=max(TOKENS_TO_WRITE, search.min_length + 1))


def _check_amounts(asked: CompletionRequest) -> None:
    """Refuses more than one request may ask for."""
    rows, given = len(asked.prompts) * asked.n, sum(map(len, asked.prompts))
    if rows > CHOICES:
        raise Refusal(413, f"{rows} texts to write; this server writes at most {CHOICES} at once")
    if given > CHARACTERS:
        raise Refusal(413, f"prompts of length {given:,}; this server takes at most {CHARACTERS:,} at once")
