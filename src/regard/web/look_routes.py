"""What a model does inside, of a text or an image, as a tree; and the page that shows it."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from regard.errors import DataError
from regard.look import TraceConfig, blank_tree, content_security_policy, render
from regard.web.errors import Problem, Refusal, documented
from regard.web.images import image_of, reader, reads_images
from regard.web.initial_page import FIRST_TEXT, first_image
from regard.web.jobs import Job, Looking
from regard.web.pending import answer
from regard.web.registry import Served, Shelf
from regard.web.request_body import PLAIN, OrNull
from regard.web.settings import CHARACTERS, IMAGE_CHARACTERS, LOOKED_AT_TOKENS

NO_IMAGE = "The run folder holds no image to begin with: choose one."
UNFIT = (400, 413)
"""Refusals that are about the first input, not about the server: the page then asks for another."""
Text = Annotated[str, Field(max_length=CHARACTERS), PLAIN]


class AttentionRequest(BaseModel):
    """A text or an image to look at."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        json_schema_extra={"example": {"text": FIRST_TEXT}},
    )

    model: str | None = None
    """The run to look into; by default the first, for an image the first that reads images."""
    text: Text | None = None
    """What the model reads, or writes on from."""
    image: str | None = Field(None, max_length=IMAGE_CHARACTERS)
    """In the place of a text, for a run that reads images: a PNG, JPEG or the like, in base64."""
    target: Text | None = None
    """What it must write; its own words when left out."""
    options: Annotated[TraceConfig, OrNull(TraceConfig())] = TraceConfig()
    """What to tell beside the attention itself."""
    snapshots: Annotated[bool, OrNull(False)] = False
    """Also tell what the run's kept checkpoints saw; each of them is read for it."""


def routes(shelf: Shelf) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["inside"])
    pages: dict[str, str] = {}

    @router.post("/attention", responses=documented(Problem, 404, 422, 500, 503))
    async def attention(asked: AttentionRequest, request: Request) -> JSONResponse:
        """Everything the page shows of a text or an image."""
        served, given = _asked_for(shelf, asked)
        options = {**asked.options.model_dump(), "snapshots": asked.snapshots}
        return JSONResponse(await _looked(request, served, given, asked.target, options))

    @router.get("/", response_class=HTMLResponse, responses=documented(Problem, 404, 422, 500, 503))
    async def page(
        request: Request,
        model: Annotated[str | None, Query(description="The run to show; by default the first.")] = None,
    ) -> HTMLResponse:
        """The page: a look inside a run."""
        served = shelf.any(model)
        if served.name not in pages:
            tree = await _first_look(request, served)
            pages[served.name] = render({**tree, **_server(shelf)}, live=True)
        policy = {"Content-Security-Policy": content_security_policy(live=True)}
        return HTMLResponse(pages[served.name], headers=policy)

    return router


def _asked_for(shelf: Shelf, asked: AttentionRequest) -> tuple[Served, str | bytes]:
    """The run to look into, and what it is given."""
    if asked.image is not None and asked.text is None:
        return reader(shelf, asked.model), image_of(asked.image)
    if asked.text is not None and asked.image is None:
        return shelf.any(asked.model), asked.text
    raise Refusal(400, "expected either a text or an image")


def _server(shelf: Shelf) -> dict[str, Any]:
    """What the page knows of its server: the runs it can switch to, and the largest image file it takes."""
    pictured = [name for name, one in shelf.by_name.items() if reads_images(one)]
    return {"models": list(shelf.by_name), "image_models": pictured, "image_bytes": IMAGE_CHARACTERS // 4 * 3}


async def _first_look(request: Request, served: Served) -> dict[str, Any]:
    """A run with something to begin with; where there is nothing, or it does not fit, a page that asks for it."""
    try:
        if not reads_images(served):
            return await _looked(request, served, FIRST_TEXT, None, {"snapshots": True})
        image = first_image(served)
        if image is not None:
            tree = await _looked(request, served, image.data, None, {"snapshots": True})
            return {**tree, "file": image.tree()}
        return _blank(served, NO_IMAGE)
    except (Refusal, DataError) as error:
        if isinstance(error, Refusal) and error.status not in UNFIT:
            raise
        return _blank(served, str(error))


def _blank(served: Served, told: str) -> dict[str, Any]:
    run = served.run
    return blank_tree(run.model, run.task, told, name=served.name, step=run.step)


async def _looked(
    request: Request, served: Served, given: str | bytes, target: str | None, options: dict[str, Any]
) -> dict[str, Any]:
    """What the page shows of a text or an image, under the name the run is served by."""
    sizes = _text_sizes(served, given, target) if isinstance(given, str) else _image_sizes(served, target)
    if max(sizes) > LOOKED_AT_TOKENS:
        raise Refusal(413, f"{max(sizes)} tokens; at most {LOOKED_AT_TOKENS} can be looked at")
    job = Job(Looking(target, options), [given], longest=sum(sizes))
    tree = (await answer(request, served.worker, job))[0]
    return {**tree, "about": {**tree["about"], "run": served.name}}


def _text_sizes(served: Served, text: str, target: str | None) -> list[int]:
    """Tokens that are read and written."""
    if reads_images(served):  # it would take a text for the name of a file
        raise Refusal(400, f"'{served.name}' reads images: expected one in base64 as 'image', got a text")
    return [len(served.tokenizer.encode(part)) for part in (text, target or "")]


def _image_sizes(served: Served, target: str | None) -> list[int]:
    """Patches that are read, and tokens that are written."""
    writer = served.run.task.vocabularies.tokenizers.get("target")
    written = len(writer.encode(target)) if writer and target else 0
    return [served.run.recipe.model.tokens, written]  # type: ignore[union-attr]
