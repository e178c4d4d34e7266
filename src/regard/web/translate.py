"""Translation for LibreTranslate's clients: POST /translate, GET /languages."""

from asyncio import to_thread
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.data.languages import NAMES
from regard.tasks.generation import AnyInput, Output
from regard.text.documents.html import html_document
from regard.text.documents.segments import Request as Sentence
from regard.text.documents.segments import Results
from regard.text.outputs import EMPTY_OUTPUT
from regard.web.engine import Engine
from regard.web.prometheus import ServerMetrics
from regard.web.registry import ModelRegistry, ServedRun
from regard.web.requests import (
    BLANK,
    FORM,
    INTEGER,
    JSON,
    MULTIPART,
    PLAIN,
    OrNull,
    Problem,
    RequestError,
    documented,
    fields_of,
    validation_message,
    without_null,
)
from regard.web.settings import ALTERNATIVES, CHARACTERS, SENTENCES_AT_ONCE, TEXTS
from regard.web.worker import Job, results_of

EXAMPLE = {"q": "Anna threw away the old chair.", "source": "en", "target": "de"}
Translated = TypeVar("Translated")
Text = Annotated[str, Field(max_length=CHARACTERS), BLANK, PLAIN]


class TranslateRequest(BaseModel):
    """Texts to translate."""

    model_config = ConfigDict(
        extra="forbid", strict=True, use_attribute_docstrings=True, json_schema_extra={"task": "translation"}
    )

    q: Text | Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
    """A text, or several."""
    source: str
    """Code of the language to translate from; `auto` is the source language of the run."""
    target: str
    """Code of the language to translate into."""
    format: Annotated[Literal["text", "html"], OrNull("text")] = "text"
    """Of HTML, all tags are kept."""
    alternatives: Annotated[int, Field(ge=0, le=ALTERNATIVES), INTEGER, OrNull(0)] = 0
    """Further translations of each text."""
    api_key: str | None = None
    """The server's key, if it has one; or send `Authorization: Bearer`."""
    model: str | None = None
    """The run that translates; by default the first between these languages."""


class DetectedLanguage(BaseModel):
    """The assumed language of a text."""

    confidence: float
    language: str


class TranslateAnswer(BaseModel):
    """Translations in the shape of `q`: a text for a text, a list for a list."""

    translatedText: str | list[str]  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815
    unseen: list[str] | list[list[str]] | None = None
    """Words that are not in the training data, if any; of several texts, those of each."""


class Language(BaseModel):
    """A source language and its target languages."""

    code: str
    name: str
    targets: list[str]


@dataclass(frozen=True)
class Translation:
    """Requests for equally many translations share a batch."""

    outputs: int = 1
    repeatable: ClassVar[bool] = True

    def run(self, engine: Engine, items: Sequence[AnyInput]) -> Sequence[list[Output]]:
        return engine.translate(items, self.outputs)


def routes(registry: ModelRegistry, _metrics: ServerMetrics) -> APIRouter:
    router = APIRouter(tags=["translation"])

    @router.post(
        "/translate",
        response_model=TranslateAnswer,
        response_model_exclude_none=True,
        responses=documented(Problem, 404, 415, 422, 500, 503),
        openapi_extra={"requestBody": _body_schema()},
    )
    async def translate(request: Request) -> dict[str, object]:
        """Translate a text or several, sentence by sentence; line ends and spaces stay. The body is JSON or a form."""
        body = _parse(await request.body(), request.headers.get("content-type", ""))
        served = registry.translator(body.source, body.target, body.model)
        texts = [body.q] if isinstance(body.q, str) else body.q
        if (size := sum(map(len, texts))) > CHARACTERS:
            raise RequestError(413, f"{size:,} characters; this server takes at most {CHARACTERS:,} at once")
        if body.format == "html":
            if body.alternatives:
                raise RequestError(400, "alternatives: only plain texts have them; leave it out, or format: html")
            translated = [await translate_html(request, served, text) for text in texts]
            return _response(body, [[replace(EMPTY_OUTPUT, text=text)] for text in translated], served)
        paragraphs = served.paragraphs(texts)
        outputs: list[list[Output]] = []
        if paragraphs.sentences:
            longest = max(map(served.length, paragraphs.sentences))
            job = Job(Translation(body.alternatives + 1), paragraphs.sentences, longest=longest)
            outputs = await results_of(request, served.worker, job)
        return _response(body, paragraphs.join(outputs), served)

    @router.get("/languages", response_model=list[Language], responses=documented(Problem))
    async def languages() -> list[dict[str, object]]:
        """The source languages, each with its target languages."""
        targets: dict[str, set[str]] = {}
        for served in registry.of_task("translation"):
            targets.setdefault(served.pair.source, set()).add(served.pair.target)
        pairs = sorted(targets.items())
        return [{"code": code, "name": NAMES.get(code, code), "targets": sorted(into)} for code, into in pairs]

    return router


async def translate_document(
    request: Request, served: ServedRun, steps: Generator[list[Sentence], Results, Translated]
) -> Translated:
    """What the steps of a document's translation return; some sentences at a time, so that others have their turn."""
    results: list[str] | None = None
    while True:
        requests, finished = await to_thread(_step, steps, results)
        if finished:
            return finished[0]
        results = []
        for start in range(0, len(requests), SENTENCES_AT_ONCE):
            texts = [text for text, _ in requests[start : start + SENTENCES_AT_ONCE]]
            job = Job(Translation(), texts, longest=max(map(served.length, texts)))
            results += [row[0].text for row in await results_of(request, served.worker, job)]


def _step(
    steps: Generator[list[Sentence], Results, Translated], results: list[str] | None
) -> tuple[list[Sentence], list[Translated]]:
    """The next sentences, or in a list what the steps return."""
    try:
        return next(steps) if results is None else steps.send(results), []
    except StopIteration as finished:
        return [], [finished.value]


async def translate_html(request: Request, served: ServedRun, text: str) -> str:
    return await translate_document(request, served, html_document(text).translation(served.spans))


def _parse(body: bytes, content_type: str) -> TranslateRequest:
    fields = fields_of(body, content_type)
    is_form = content_type.lower().startswith((FORM, MULTIPART))
    try:
        return TranslateRequest.model_validate(fields, strict=not is_form)  # a form has only strings
    except ValidationError as error:
        raise RequestError(422, validation_message(error.errors(include_url=False, include_input=False))) from None


def _response(body: TranslateRequest, outputs: list[list[Output]], served: ServedRun) -> dict[str, object]:
    """Lists where `q` is a list, single values where it is a text."""
    texts = [body.q] if isinstance(body.q, str) else body.q
    fields: dict[str, Sequence[object]] = {"translatedText": [row[0].text for row in outputs]}
    if body.alternatives:
        fields["alternatives"] = [[output.text for output in row[1:]] for row in outputs]
    if body.source == "auto":
        fields["detectedLanguage"] = [{"confidence": 100.0, "language": served.pair.source} for _ in outputs]
    if any(unseen := served.unseen_words(texts)):
        fields["unseen"] = unseen
    return {name: values[0] if isinstance(body.q, str) else values for name, values in fields.items()}


def _body_schema() -> dict[str, object]:
    schema = {"$ref": "#/components/schemas/TranslateRequest"}
    form = without_null(TranslateRequest.model_json_schema())
    del form["task"]  # for `openapi`, which does not see a schema inside a route
    return {"required": True, "content": {JSON: {"schema": schema, "example": EXAMPLE}, FORM: {"schema": form}}}
