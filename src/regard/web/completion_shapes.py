"""What OpenAI's clients send to /v1/completions, and what they read."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.web.request_body import PLAIN, WHOLE, OrNull
from regard.web.settings import CHARACTERS, CHOICES, LIKELIEST, PROMPT_TOKENS, STOPS, TEXTS, TOKENS_TO_WRITE

Text = Annotated[str, Field(max_length=CHARACTERS), PLAIN]
TokenId = Annotated[int, Field(ge=0), WHOLE]
TokenIds = Annotated[list[TokenId], Field(min_length=1, max_length=PROMPT_TOKENS)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
Stop = Annotated[str, Field(min_length=1, max_length=100)]
Stops = Annotated[list[Stop], Field(max_length=STOPS)]
Switch = Annotated[bool, OrNull(False)]
Nothing = Annotated[float, Field(ge=0, le=0), OrNull(0.0)]
LARGEST_SEED = 2**53
"""Up to here JSON's numbers are exact in every program; beyond, clients that keep them as fractions send another."""


class StreamOptions(BaseModel):
    """How to stream."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    include_usage: Switch = False
    """Tell the counts of tokens in a last event."""


class CompletionRequest(BaseModel):
    """A prompt, or several, to write on from."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        json_schema_extra={"example": {"model": "demo", "prompt": "The dog", "max_tokens": 20, "temperature": 0.8}},
    )

    model: str
    """The run that is to write."""
    prompt: Annotated[
        Text | Texts | TokenIds | Annotated[list[TokenIds], Field(min_length=1, max_length=TEXTS)], OrNull("")
    ]
    """A text, several texts, token ids, or several lists of token ids; null begins a text of its own."""
    max_tokens: Annotated[int, Field(ge=0, le=TOKENS_TO_WRITE), WHOLE, OrNull(16)] = 16
    """Most tokens to write."""
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    """Below one prefers likely tokens more; 0 always takes the likeliest; as the run's search says when left out."""
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    """Draw among the fewest likeliest tokens whose probabilities reach this; not used at temperature 0."""
    n: Annotated[int, Field(ge=1, le=CHOICES), WHOLE, OrNull(1)] = 1
    """Texts to write after each prompt."""
    stop: Stop | Stops | None = None
    """The text ends before any of these."""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED), WHOLE] | None = None
    """The same seed writes the same text; without one, each request draws its own. Not used where nothing is drawn."""
    stream: Switch = False
    """Send what is written as it comes, as server-sent events."""
    stream_options: StreamOptions | None = None
    """How to stream; only with `stream`."""
    logprobs: Annotated[int, Field(ge=0, le=LIKELIEST), WHOLE] | None = None
    """Tell each token's log-probability, and so many of the likeliest tokens at its place."""
    echo: Switch = False
    """Put the prompt before what is written."""
    best_of: Annotated[int, Field(ge=1, le=1), WHOLE] | None = None
    """Only 1 is supported."""
    frequency_penalty: Nothing = 0
    """Only 0 is supported."""
    presence_penalty: Nothing = 0
    """Only 0 is supported."""
    logit_bias: dict[str, float] | None = Field(None, max_length=0)
    """Not supported; leave it out or empty."""
    suffix: Literal[""] | None = None
    """Not supported; leave it out or empty."""
    user: str | None = None
    """Taken and not used."""

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        """The prompts as a list, whichever way they came."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [[token for token in self.prompt if isinstance(token, int)]]
        return self.prompt  # type: ignore[return-value]

    @property
    def stops(self) -> list[str]:
        """What ends a text, as a list."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class Logprobs(BaseModel):
    """Each token of a text, and how likely it was."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class Choice(BaseModel):
    """One text that was written."""

    text: str
    index: int
    logprobs: Logprobs | None
    finish_reason: Literal["stop", "length"] | None


class Usage(BaseModel):
    """Tokens read and written."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(BaseModel):
    """What was written, or while streaming a piece of it."""

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
