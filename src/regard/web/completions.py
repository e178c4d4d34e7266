"""Completions for OpenAI's clients: POST /v1/completions, GET /v1/models."""

import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from regard.config.search_options import SHARED
from regard.decode import BeamConfig, GreedyConfig, SampleConfig
from regard.decode.search import search_with
from regard.run import Run
from regard.text.special_tokens import BOS
from regard.web.engine import Engine
from regard.web.prometheus import ServerMetrics
from regard.web.registry import ModelRegistry, ServedRun
from regard.web.requests import INTEGER, PLAIN, OpenAIProblem, OrNull, RequestError, documented, error_response
from regard.web.settings import CHARACTERS, CHOICES, MAX_TOKENS, PROMPT_TOKENS, STOPS, TEXTS, TOP_LOGPROBS
from regard.web.text_stream import Chunk, TextStream, Token, spelling
from regard.web.worker import Job, chunks_of, results_of

Text = Annotated[str, Field(max_length=CHARACTERS), PLAIN]
TokenId = Annotated[int, Field(ge=0), INTEGER]
TokenIds = Annotated[list[TokenId], Field(min_length=1, max_length=PROMPT_TOKENS)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
Stop = Annotated[str, Field(min_length=1, max_length=100)]
Flag = Annotated[bool, OrNull(False)]
Zero = Annotated[float, Field(ge=0, le=0), OrNull(0.0)]
LARGEST_SEED = 2**53
"""JSON's integers are exact up to here in every client; larger ones may be rounded to doubles."""


class StreamOptions(BaseModel):
    """Options of streaming."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    include_usage: Flag = False
    """Send the token counts in a last event."""


class CompletionRequest(BaseModel):
    """A prompt, or several, to complete."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        json_schema_extra={
            "example": {"model": "demo", "prompt": "The dog", "max_tokens": 20, "temperature": 0.8},
            "task": "language_model",
        },
    )

    model: str
    """The run that generates."""
    prompt: Annotated[
        Text | Texts | TokenIds | Annotated[list[TokenIds], Field(min_length=1, max_length=TEXTS)], OrNull("")
    ]
    """A text, several texts, token ids, or several lists of token ids; null starts a new text."""
    max_tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS), INTEGER, OrNull(16)] = 16
    """Most tokens to generate."""
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    """Below one prefers likely tokens more; 0 is greedy; the run's own search when left out."""
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    """Sample from the fewest likeliest tokens whose probabilities reach this; ignored at temperature 0."""
    n: Annotated[int, Field(ge=1, le=CHOICES), INTEGER, OrNull(1)] = 1
    """Completions of each prompt."""
    stop: Stop | Annotated[list[Stop], Field(max_length=STOPS)] | None = None
    """The text ends before any of these strings."""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED), INTEGER] | None = None
    """The same seed samples the same text; random when left out. Ignored where nothing is sampled."""
    stream: Flag = False
    """Send the text as it is generated, as server-sent events."""
    stream_options: StreamOptions | None = None
    """Options of streaming; only with `stream`."""
    logprobs: Annotated[int, Field(ge=0, le=TOP_LOGPROBS), INTEGER] | None = None
    """Return the log-probability of each token, and of this many likeliest alternatives."""
    echo: Flag = False
    """Return the prompt before its completion."""
    best_of: Annotated[int, Field(ge=1, le=1), INTEGER] | None = None
    """Only 1 is supported."""
    frequency_penalty: Zero = 0
    """Only 0 is supported."""
    presence_penalty: Zero = 0
    """Only 0 is supported."""
    logit_bias: dict[str, float] | None = Field(None, max_length=0)
    """Not supported; leave it out or empty."""
    suffix: Literal[""] | None = None
    """Not supported; leave it out or empty."""
    user: str | None = None
    """Accepted and ignored."""

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [[token for token in self.prompt if isinstance(token, int)]]
        return self.prompt  # type: ignore[return-value]

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class Logprobs(BaseModel):
    """The tokens of a text and their log-probabilities."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class Choice(BaseModel):
    """One generated text."""

    text: str
    index: int
    logprobs: Logprobs | None
    finish_reason: Literal["stop", "length"] | None


class Usage(BaseModel):
    """Token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    """The generated texts, or a chunk of them while streaming."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None


class Model(BaseModel):
    """A run that is served."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class Models(BaseModel):
    """The runs that are served."""

    object: Literal["list"]
    data: list[Model]


EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
EVENTS = {"text/event-stream": {"schema": EVENT}}


def routes(registry: ModelRegistry, metrics: ServerMetrics) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["completions"])

    @router.post(
        "/completions",
        response_model=Completion,
        responses={
            200: {"content": EVENTS, "description": "The completion, or with `stream` its chunks as events."},
            **documented(OpenAIProblem, 404, 422, 500, 503),
        },
    )
    async def completions(body: CompletionRequest, request: Request) -> StreamingResponse | dict[str, object]:
        """Complete a prompt."""
        work = CompletionWork(body, registry.named(body.model, "language_model"))
        if body.stream:
            chunks = chunks_of(work.served.worker, work.job)
            return StreamingResponse(_events(work, chunks, metrics), media_type="text/event-stream")
        await results_of(request, work.served.worker, work.job)
        _count_tokens(work, metrics)
        return work.completion([work.choice(stream) for stream in work.streams], work.usage())

    @router.get("/models", response_model=Models, responses=documented(OpenAIProblem))
    async def models() -> dict[str, object]:
        """The runs that are served."""
        return {"object": "list", "data": [_model(served) for served in registry.by_name.values()]}

    @router.get("/models/{name}", response_model=Model, responses=documented(OpenAIProblem, 404, 422))
    async def model(name: str) -> dict[str, object]:
        """One of the runs that are served."""
        return _model(registry.any(name))

    return router


def _model(served: ServedRun) -> dict[str, object]:
    return {"id": served.name, "object": "model", "created": served.created, "owned_by": "regard"}


async def _events(work: "CompletionWork", chunks: AsyncIterator[Chunk], metrics: ServerMetrics) -> AsyncIterator[str]:
    """Server-sent events: the chunks, the token counts if requested, and [DONE]."""
    try:
        async for chunk in chunks:
            if chunk.text or chunk.finish or work.body.logprobs is not None:
                yield work.event([work.chunk_choice(chunk)])
        for stream in work.streams:
            if not stream.max_tokens:  # nothing was generated, so there was no chunk
                yield work.event([work.choice(stream)])
    except RequestError as error:  # the status is sent already; OpenAI's clients look for the error in the stream
        yield f"data: {bytes(error_response('/v1/', error.status, str(error)).body).decode()}\n\n"
        return
    finally:
        _count_tokens(work, metrics)
    if work.body.stream_options is not None and work.body.stream_options.include_usage:
        yield work.event([], work.usage())
    yield "data: [DONE]\n\n"


def _count_tokens(work: "CompletionWork", metrics: ServerMetrics) -> None:
    labels = {"model": work.served.name}
    metrics.count("regard_tokens_written_total", labels, work.usage()["completion_tokens"])


@dataclass(frozen=True)
class Generation:
    """Requests with the same search share a batch, whatever their seeds and lengths."""

    search: SampleConfig | BeamConfig
    top_logprobs: int | None = None
    repeatable: ClassVar[bool] = False  # some chunks are sent already

    def run(self, engine: Engine, items: Sequence[TextStream]) -> Sequence[TextStream]:
        engine.generate(items, self.search, self.top_logprobs)
        return items


class CompletionWork:
    """The streams and the job of one request, and its response."""

    def __init__(self, body: CompletionRequest, served: ServedRun) -> None:
        self.body, self.served, self.tokenizer = body, served, served.tokenizer
        self.id, self.created = f"cmpl-{secrets.token_hex(12)}", int(time.time())
        if body.stream_options is not None and not body.stream:
            raise RequestError(400, "stream_options: only with stream; set stream, or leave it out")
        _check_amounts(body)
        self.prompts = [served.prompt_ids(prompt, body.max_tokens) for prompt in body.prompts]
        seed = secrets.randbits(48) if body.seed is None else body.seed
        self.streams = [
            TextStream(
                self.tokenizer, prompt, body.max_tokens, seed, sample, number * body.n + sample, body.stops, body.echo
            )
            for number, prompt in enumerate(self.prompts)
            for sample in range(body.n)
        ]
        longest = max(map(len, self.prompts)) + body.max_tokens
        self.job = Job(Generation(search_for(served.run, body), body.logprobs), self.streams, longest)

    def choice(self, stream: TextStream) -> dict[str, object]:
        return self._choice(stream, stream.text, 0, len(stream.tokens), stream.finish)

    def chunk_choice(self, chunk: Chunk) -> dict[str, object]:
        return self._choice(self.streams[chunk.index], chunk.text, chunk.start, chunk.stop, chunk.finish)

    def _choice(self, stream: TextStream, text: str, start: int, stop: int, finish: str | None) -> dict[str, object]:
        """The text of the tokens from `start` to `stop`; an echoed prompt precedes the first."""
        echo = self.tokenizer.decode(stream.prompt) if self.body.echo else ""
        choice = {"text": text if start else echo + text, "index": stream.index, "finish_reason": finish}
        if self.body.logprobs is None:
            return {**choice, "logprobs": None}
        tokens = [] if start else self._prompt_offsets(stream)
        tokens += [(stream.tokens[at], len(echo) + stream.offsets[at]) for at in range(start, stop)]
        return {**choice, "logprobs": self._logprobs(tokens)}

    def _prompt_offsets(self, stream: TextStream) -> list[tuple[Token, int]]:
        """The tokens of an echoed prompt with their offsets in its text; BOS is not text."""
        tokens, decode = enumerate(stream.prompt_tokens), self.tokenizer.decode
        return [(token, len(decode(stream.prompt[:at]))) for at, token in tokens if token.id != BOS]

    def _logprobs(self, tokens: list[tuple[Token, int]]) -> dict[str, object]:
        return {
            "tokens": [spelling(self.tokenizer, token.id) for token, _ in tokens],
            "token_logprobs": [token.logprob for token, _ in tokens],
            "top_logprobs": [self._top_logprobs(token) for token, _ in tokens],
            "text_offset": [offset for _, offset in tokens],
        }

    def _top_logprobs(self, token: Token) -> dict[str, float] | None:
        """The likeliest tokens and the chosen one."""
        if token.logprob is None or not self.body.logprobs:
            return None
        pairs = [*token.alternatives, (token.id, token.logprob)]
        return {spelling(self.tokenizer, id): logprob for id, logprob in pairs}

    def usage(self) -> dict[str, int]:
        """Token counts; each prompt counts once."""
        prompt, generated = sum(map(len, self.prompts)), sum(len(stream.tokens) for stream in self.streams)
        return {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}

    def completion(self, choices: list[dict[str, object]], usage: dict[str, int] | None = None) -> dict[str, object]:
        head = {"id": self.id, "object": "text_completion", "created": self.created, "model": self.served.name}
        return {**head, "choices": choices, "usage": usage}

    def event(self, choices: list[dict[str, object]], usage: dict[str, int] | None = None) -> str:
        return f"data: {json.dumps(self.completion(choices, usage), ensure_ascii=False, allow_nan=False)}\n\n"


def search_for(run: Run, body: CompletionRequest) -> SampleConfig | BeamConfig:
    """The run's own search with the request's options; seeds and lengths are in its streams."""
    top_p = None if body.temperature == 0 else body.top_p  # OpenAI's clients send it all the same
    options = {"max_length": body.max_tokens or None, "temperature": body.temperature, "top_p": top_p}
    search = run.search_with(options, {"max_length": "max_tokens"})
    if isinstance(search, BeamConfig):
        search = search_with(search, {"n_best": body.n})
    elif isinstance(search, SampleConfig):
        search = search.but(samples=1, seed=1)
    else:
        search = SampleConfig(temperature=0.0, **{name: getattr(search, name) for name in SHARED})
    assert not isinstance(search, GreedyConfig)
    return search.but(max_length=max(MAX_TOKENS, search.min_length + 1))


def _check_amounts(body: CompletionRequest) -> None:
    rows, size = len(body.prompts) * body.n, sum(map(len, body.prompts))
    if rows > CHOICES:
        raise RequestError(413, f"{rows} texts to generate; this server generates at most {CHOICES} at once")
    if size > CHARACTERS:
        raise RequestError(413, f"prompts of length {size:,}; this server takes at most {CHARACTERS:,} at once")
