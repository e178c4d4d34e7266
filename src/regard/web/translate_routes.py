"""Translation as LibreTranslate's clients know it."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.data.languages import NAMES
from regard.tasks.generation import Output
from regard.web.errors import Problem, Refusal, documented, sentence
from regard.web.jobs import Job, Translating
from regard.web.pending import answer
from regard.web.registry import Served, Shelf
from regard.web.request_body import BLANK, FORM, JSON, PLAIN, WHOLE, OrNull, fields_of, without_null
from regard.web.settings import ALTERNATIVES, CHARACTERS, TEXTS

EXAMPLE = {"q": "Anna threw away the old chair.", "source": "en", "target": "de"}
Text = Annotated[str, Field(max_length=CHARACTERS), BLANK, PLAIN]


class TranslateRequest(BaseModel):
    """Texts to translate."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    q: Text | Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
    """A text, or several."""
    source: str
    """Code of the language to translate from; `auto` is whatever the run reads."""
    target: str
    """Code of the language to translate into."""
    format: Annotated[Literal["text"], OrNull("text")] = "text"
    """Plain text is the only one."""
    alternatives: Annotated[int, Field(ge=0, le=ALTERNATIVES), WHOLE, OrNull(0)] = 0
    """Further translations of each text."""
    api_key: str | None = None
    """The server's key, if it has one; or send `Authorization: Bearer`."""
    model: str | None = None
    """Which run is to translate; by default the first between these languages."""


class DetectedLanguage(BaseModel):
    """The language a text was taken for."""

    confidence: float
    language: str


class TranslateAnswer(BaseModel):
    """Translations in the shape of `q`: a text for a text, a list for a list."""

    translatedText: str | list[str]  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815
    unseen: list[str] | list[list[str]] | None = None
    """Words that the training data never had, where there are any; of several texts, those of each."""


class Language(BaseModel):
    """A language that some run reads, and those it can be translated into."""

    code: str
    name: str
    targets: list[str]


def routes(shelf: Shelf) -> APIRouter:
    """POST /translate and GET /languages."""
    router = APIRouter(tags=["translation"])

    @router.post(
        "/translate",
        response_model=TranslateAnswer,
        response_model_exclude_none=True,
        responses=documented(Problem, 404, 415, 422, 500, 503),
        openapi_extra={"requestBody": _body()},
    )
    async def translate(request: Request) -> dict[str, Any]:
        """Translate a text or several, sentence by sentence; line ends and spaces stay. The body is JSON or a form."""
        asked = _asked(await request.body(), request.headers.get("content-type", ""))
        served = shelf.translator(asked.source, asked.target, asked.model)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        _refuse_large(texts)
        divided = served.paragraphs(texts)
        found = []
        if divided.sentences:
            longest = max(map(served.length, divided.sentences))
            job = Job(Translating(asked.alternatives + 1), divided.sentences, longest=longest)
            found = await answer(request, served.worker, job)
        return _tree(asked, divided.join(found), served)

    @router.get("/languages", response_model=list[Language], responses=documented(Problem))
    async def languages() -> list[dict[str, object]]:
        """The languages that can be translated, each with those it can be translated into."""
        targets: dict[str, list[str]] = {}
        for served in shelf.of_task("translation"):
            targets.setdefault(served.pair.source, []).append(served.pair.target)
        named = sorted(targets.items())
        return [{"code": code, "name": NAMES.get(code, code), "targets": sorted(set(into))} for code, into in named]

    return router


def _asked(body: bytes, content_type: str) -> TranslateRequest:
    fields = fields_of(body, content_type)
    is_form = content_type.lower().startswith(FORM)
    try:
        return TranslateRequest.model_validate(fields, strict=not is_form)  # a form has only strings
    except ValidationError as error:
        raise Refusal(422, sentence(error.errors(include_url=False, include_input=False))) from None


def _refuse_large(texts: list[str]) -> None:
    if sum(map(len, texts)) > CHARACTERS:
        raise Refusal(413, f"{sum(map(len, texts)):,} characters; this server takes at most {CHARACTERS:,} at once")


def _tree(asked: TranslateRequest, found: list[list[Output]], served: Served) -> dict[str, Any]:
    best, others = [row[0].text for row in found], [[one.text for one in row[1:]] for row in found]
    alone = isinstance(asked.q, str)
    tree: dict[str, Any] = {"translatedText": best[0] if alone else best}
    if asked.alternatives:
        tree["alternatives"] = others[0] if alone else others
    if asked.source == "auto":
        read = {"confidence": 100.0, "language": served.pair.source}
        tree["detectedLanguage"] = read if alone else [read for _ in found]
    unseen = served.unseen([asked.q] if isinstance(asked.q, str) else asked.q)
    if any(unseen):
        tree["unseen"] = unseen[0] if alone else unseen
    return tree


def _body() -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/TranslateRequest"}
    form = without_null(TranslateRequest.model_json_schema())
    return {"required": True, "content": {JSON: {"schema": schema, "example": EXAMPLE}, FORM: {"schema": form}}}
