"""The page at /, and its data: POST /attention, GET /runs/NAME/metrics."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from regard.data.images.store import PIXELS, Album
from regard.errors import DataError
from regard.files.run_folder import METRICS_FILE
from regard.files.strict_json import to_json
from regard.look import TraceConfig, blank_tree, content_security_policy, render
from regard.tasks.images import ImageTask, image_config
from regard.train.log import read_metrics
from regard.web.classify import decode_image, image_model, reads_images
from regard.web.engine import Engine
from regard.web.prometheus import ServerMetrics
from regard.web.registry import ANY_TASK, ModelRegistry, ServedRun
from regard.web.requests import PLAIN, Json, OrNull, Problem, RequestError, documented
from regard.web.settings import CHARACTERS, IMAGE_CHARACTERS, TRACED_TOKENS
from regard.web.worker import Job, results_of

FIRST_TEXT = "The animal did not cross the street because it was too tired."
FIRST_IMAGE = "An image of the run's own data"
NO_IMAGE = "The run folder holds no image to begin with: choose one."
UNSUITABLE = (400, 413)
"""Statuses that are about the first input, not about the server: the page then has a form and no input."""
Text = Annotated[str, Field(max_length=CHARACTERS), PLAIN]


class AttentionRequest(BaseModel):
    """A text or an image to trace."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        json_schema_extra={"example": {"text": FIRST_TEXT}, "task": ANY_TASK},
    )

    model: str | None = None
    """The run to look into; by default the first, for an image the first that reads images."""
    text: Text | None = None
    """The source, the prompt or the text to classify."""
    image: str | None = Field(None, max_length=IMAGE_CHARACTERS)
    """In place of a text, for a run that reads images: a PNG, JPEG or the like, in base64."""
    target: Text | None = None
    """Forced target; when left out, the model generates."""
    options: Annotated[TraceConfig, OrNull(TraceConfig())] = TraceConfig()
    """What to compute beside the attention itself."""
    snapshots: Annotated[bool, OrNull(False)] = False
    """Add the attention of earlier checkpoints, which are loaded for it."""


@dataclass(frozen=True, eq=False)
class AttentionTrace:
    """No two requests share a batch."""

    target: str | None
    options: Json
    repeatable: ClassVar[bool] = False

    def run(self, engine: Engine, items: Sequence[str | bytes]) -> Sequence[Json]:
        return [engine.attention(item, self.target, self.options) for item in items]


def routes(registry: ModelRegistry, _metrics: ServerMetrics) -> APIRouter:
    router = APIRouter(tags=["attention"])
    pages: dict[str, str] = {}

    @router.post("/attention", responses=documented(Problem, 404, 422, 500, 503))
    async def attention(body: AttentionRequest, request: Request) -> JSONResponse:
        """The payload of the page for a text or an image."""
        served, item = _input(registry, body)
        options = {**body.options.model_dump(), "snapshots": body.snapshots}
        return JSONResponse(await _trace(request, served, item, body.target, options))

    @router.get("/", response_class=HTMLResponse, responses=documented(Problem, 404, 422, 500, 503))
    async def page(
        request: Request,
        model: Annotated[str | None, Query(description="The run to show; by default the first.")] = None,
    ) -> HTMLResponse:
        """The page: a look inside a run."""
        served = registry.any(model)
        if served.name not in pages:
            tree = await _first_trace(request, served)
            pages[served.name] = render({**tree, **_server_tree(registry)}, live=True)
        policy = {"Content-Security-Policy": content_security_policy(live=True)}
        return HTMLResponse(pages[served.name], headers=policy)

    @router.get("/runs/{name}/metrics", response_model=list[Json], responses=documented(Problem, 404, 422))
    async def metrics(name: str) -> Response:
        """The lines of a run's metrics.jsonl, also while it is training."""
        file = registry.any(name).run.folder / METRICS_FILE
        lines = read_metrics(file) if file.exists() else []
        return Response(to_json(lines), media_type="application/json")

    return router


def _input(registry: ModelRegistry, body: AttentionRequest) -> tuple[ServedRun, str | bytes]:
    if body.image is not None and body.text is None:
        return image_model(registry, body.model), decode_image(body.image)
    if body.text is not None and body.image is None:
        return registry.any(body.model), body.text
    raise RequestError(400, "expected either a text or an image")


def _server_tree(registry: ModelRegistry) -> Json:
    """What the page knows of its server: the runs it can switch to, and the largest image file."""
    image_models = [name for name, served in registry.by_name.items() if reads_images(served)]
    return {"models": list(registry.by_name), "image_models": image_models, "image_bytes": IMAGE_CHARACTERS // 4 * 3}


async def _first_trace(request: Request, served: ServedRun) -> Json:
    """A trace of the lectures' sentence or of an image of the run's data; a page without input where there is none."""
    try:
        if not reads_images(served):
            return await _trace(request, served, FIRST_TEXT, None, {"snapshots": True})
        image = first_image(served)
        if image is None:
            return _blank(served, NO_IMAGE)
        tree = await _trace(request, served, image, None, {"snapshots": True})
        return {**tree, "file": {"name": FIRST_IMAGE, "data": base64.b64encode(image).decode()}}
    except (RequestError, DataError) as error:
        if isinstance(error, RequestError) and error.status not in UNSUITABLE:
            raise
        return _blank(served, str(error))


def _blank(served: ServedRun, reason: str) -> Json:
    return blank_tree(replace(served.run, name=served.name), reason)


def first_image(served: ServedRun) -> bytes | None:
    """The first image in the run folder's cache, of its smallest split, as PNG; no other folder is searched."""
    run = served.run
    assert isinstance(run.task, ImageTask)
    files = sorted(run.folder.glob(f"cache/*/{PIXELS}"), key=lambda file: file.stat().st_size)
    for file in files:
        try:
            album = Album(file.parent, file.parent.name, run.task.config.canvas(image_config(run.recipe.model)))
        except DataError:  # of another version, or damaged: training would rebuild it
            continue
        if len(album):
            pixels = album.pixels[0]
            stream = io.BytesIO()
            Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0]).save(stream, "PNG")
            return stream.getvalue()
    return None


async def _trace(request: Request, served: ServedRun, item: str | bytes, target: str | None, options: Json) -> Json:
    """The payload for a text or an image, with the name that the run is served under."""
    sizes = _text_sizes(served, item, target) if isinstance(item, str) else _image_sizes(served, target)
    if max(sizes) > TRACED_TOKENS:
        raise RequestError(413, f"{max(sizes)} tokens; at most {TRACED_TOKENS} can be looked at")
    job = Job(AttentionTrace(target, options), [item], longest=sum(sizes))
    (tree,) = await results_of(request, served.worker, job)
    return {**tree, "about": {**tree["about"], "run": served.name}}


def _text_sizes(served: ServedRun, text: str, target: str | None) -> list[int]:
    """Tokens of the text and of the target."""
    if reads_images(served):  # it would take a text for the name of a file
        raise RequestError(400, f"'{served.name}' reads images: expected one in base64 as 'image', got a text")
    return [len(served.tokenizer.encode(part)) for part in (text, target or "")]


def _image_sizes(served: ServedRun, target: str | None) -> list[int]:
    """Patches of the image and tokens of the target."""
    tokenizer = served.run.task.vocabularies.tokenizers.get("target")
    target_size = len(tokenizer.encode(target)) if tokenizer and target else 0
    return [image_config(served.run.recipe.model).tokens, target_size]
