"""Routes of our own: classification, what a model does inside, how its training went, and the page."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from regard.look import TraceConfig, content_security_policy, render
from regard.run.training import METRICS_FILE
from regard.train.log import read_metrics
from regard.train.strict_json import to_json
from regard.web.answers import Problem, Refusal, documented
from regard.web.jobs import Classifying, Job, Looking
from regard.web.pictures import reads_images
from regard.web.served import Served, Shelf
from regard.web.settings import CHARACTERS, LOOKED_AT_TOKENS, TEXTS
from regard.web.waiting import answer

FIRST_TEXT = "The animal did not cross the street because it was too tired."
Text = Annotated[str, Field(max_length=CHARACTERS)]


class ClassifyRequest(BaseModel):
    """Texts to classify."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        json_schema_extra={"example": {"text": "a good film"}},
    )

    text: Text | Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
    """A text, or several."""
    model: str | None = None
    """The run that is to classify; by default the first that can."""


class Classified(BaseModel):
    """A text's label; none for a blank text."""

    label: str | None
    probabilities: dict[str, float] | None


class AttentionRequest(BaseModel):
    """A text to look at."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        json_schema_extra={"example": {"text": FIRST_TEXT}},
    )

    model: str | None = None
    """The run to look into; by default the first."""
    text: Text
    """What the model reads, or writes on from."""
    target: Text | None = None
    """What it must write; its own words when left out."""
    options: TraceConfig = TraceConfig()
    """What to tell beside the attention itself."""


def routes(shelf: Shelf) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["inside"])
    pages: dict[str, str] = {}

    @router.post(
        "/classify", response_model=Classified | list[Classified], responses=documented(Problem, 404, 422, 500, 503)
    )
    async def classify(asked: ClassifyRequest, request: Request) -> Any:  # noqa: ANN401
        """The label of a text, or of several."""
        served = shelf.named(asked.model, "classification")
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        if sum(map(len, texts)) > CHARACTERS:
            raise Refusal(413, f"this server takes at most {CHARACTERS:,} characters at once")
        job = Job(Classifying(), texts, longest=max(map(served.length, texts)))
        found = await answer(request, served.worker, job)
        told = [{"label": max(row, key=row.__getitem__) if row else None, "probabilities": row} for row in found]
        return told[0] if isinstance(asked.text, str) else told

    @router.post("/attention", responses=documented(Problem, 404, 422, 500, 503))
    async def attention(asked: AttentionRequest, request: Request) -> JSONResponse:
        """Everything the page shows of a text."""
        served = shelf.any(asked.model)
        options = asked.options.model_dump()
        return JSONResponse(await _looked(request, served, asked.text, asked.target, options))

    @router.get("/runs/{name}/metrics", responses=documented(Problem, 404, 422))
    async def metrics(name: str) -> list[dict[str, Any]]:
        """How a run's training went: the lines of its metrics.jsonl, also while it goes on."""
        file = shelf.any(name).run.folder / METRICS_FILE
        lines = read_metrics(file) if file.exists() else []
        return Response(to_json(lines), media_type="application/json")  # type: ignore[return-value]

    @router.get("/", response_class=HTMLResponse, responses=documented(Problem, 404, 422, 500, 503))
    async def page(
        request: Request,
        model: Annotated[str | None, Query(description="The run to show; by default the first.")] = None,
    ) -> HTMLResponse:
        """The page: a look inside a run."""
        served = shelf.any(model)
        if served.name not in pages:
            tree = await _looked(request, served, FIRST_TEXT, None, {"snapshots": True})
            pages[served.name] = render({**tree, "models": list(shelf.by_name)}, live=True)
        policy = {"Content-Security-Policy": content_security_policy(live=True)}
        return HTMLResponse(pages[served.name], headers=policy)

    return router


async def _looked(
    request: Request, served: Served, text: str, target: str | None, options: dict[str, Any]
) -> dict[str, Any]:
    """What the page shows of a text, under the name the run is served by."""
    if reads_images(served):  # it would take a text for the name of a file
        raise Refusal(400, f"'{served.name}' reads images: post one to /images; regard look makes a page about one")
    sizes = [len(served.tokenizer.encode(part)) for part in (text, target or "")]
    if max(sizes) > LOOKED_AT_TOKENS:
        raise Refusal(413, f"{max(sizes)} tokens; at most {LOOKED_AT_TOKENS} can be looked at")
    job = Job(Looking(target, options), [text], longest=sum(sizes))
    tree = (await answer(request, served.worker, job))[0]
    return {**tree, "about": {**tree["about"], "run": served.name}}
