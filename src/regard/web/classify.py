"""Classification of texts and images, and descriptions of images: POST /classify, POST /images."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from regard.data.images.decoding import pixels_of
from regard.tasks.generation import AnyInput
from regard.tasks.images import ImageTask, image_config
from regard.web.engine import Engine
from regard.web.prometheus import ServerMetrics
from regard.web.registry import ModelRegistry, ServedRun
from regard.web.requests import BLANK, PLAIN, Problem, RequestError, documented
from regard.web.settings import CHARACTERS, IMAGE_CHARACTERS, IMAGE_PIXELS, TEXTS
from regard.web.translate import Translation
from regard.web.worker import Job, results_of

Text = Annotated[str, Field(max_length=CHARACTERS), BLANK, PLAIN]
Labels = dict[str, object]
"""The fields of a response."""
ONE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="


class ClassifyRequest(BaseModel):
    """Texts to classify."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        json_schema_extra={"example": {"text": "a good film"}, "task": "classification"},
    )

    text: Text | Annotated[list[Text], Field(min_length=1, max_length=TEXTS)]
    """A text, or several."""
    model: str | None = None
    """The run that classifies; by default the first that can."""


class Classified(BaseModel):
    """A text's label; none for a blank text."""

    label: str | None
    labels: list[str] | None = None
    """Of a run that gives several labels a text: all above the threshold, likeliest first."""
    probabilities: dict[str, float] | None
    unseen: list[str] | None = None
    """Words that are not in the training data, if any."""


class ImageRequest(BaseModel):
    """An image to classify or to describe."""

    model_config = ConfigDict(
        extra="forbid", strict=True, use_attribute_docstrings=True, json_schema_extra={"example": {"image": ONE_PIXEL}}
    )

    image: str = Field(max_length=IMAGE_CHARACTERS)
    """A PNG, JPEG or the like, in base64; never the name of a file."""
    model: str | None = None
    """The run that reads it; by default the first that reads images."""


class Seen(BaseModel):
    """The output of a run for an image: a label, or a description."""

    label: str | None = None
    probabilities: dict[str, float] | None = None
    text: str | None = None


@dataclass(frozen=True)
class Classification:
    repeatable: ClassVar[bool] = True

    def run(self, engine: Engine, items: Sequence[AnyInput]) -> Sequence[dict[str, float] | None]:
        return engine.classify(items)


def routes(registry: ModelRegistry, _metrics: ServerMetrics) -> APIRouter:
    router = APIRouter(tags=["classification"])

    @router.post(
        "/classify",
        response_model=Classified | list[Classified],
        response_model_exclude_unset=True,
        responses=documented(Problem, 404, 422, 500, 503),
    )
    async def classify(body: ClassifyRequest, request: Request) -> Labels | list[Labels]:
        """The label of a text, or of several."""
        served = registry.named(body.model, "classification")
        texts = [body.text] if isinstance(body.text, str) else body.text
        if sum(map(len, texts)) > CHARACTERS:
            raise RequestError(413, f"this server takes at most {CHARACTERS:,} characters at once")
        job = Job(Classification(), texts, longest=max(map(served.length, texts)))
        rows, unseen = await results_of(request, served.worker, job), served.unseen_words(texts)
        labels = [_labels(served, row, words) for row, words in zip(rows, unseen, strict=True)]
        return labels[0] if isinstance(body.text, str) else labels

    @router.post("/images", response_model=Seen, responses=documented(Problem, 404, 422, 500, 503))
    async def images(body: ImageRequest, request: Request) -> Labels:
        """The label of an image, or its description, by the task of the run."""
        served = image_model(registry, body.model)
        image, longest = decode_image(body.image), image_config(served.run.recipe.model).tokens
        if served.run.task.verb == "translate":
            described = await results_of(request, served.worker, Job(Translation(), [image], longest))
            return {"text": described[0][0].text}
        (row,) = await results_of(request, served.worker, Job(Classification(), [image], longest))
        assert row is not None
        return {"label": max(row, key=row.__getitem__), "probabilities": row}

    return router


def _labels(served: ServedRun, row: dict[str, float] | None, unseen: list[str]) -> Labels:
    """The label of a text, and all of its labels where it may have several."""
    task = served.run.task
    labels = task.given_labels(row) if row else []
    label: Labels = {"label": labels[0] if labels else None, "probabilities": row}
    if task.several_labels:
        label["labels"] = labels if row else None
    return {**label, "unseen": unseen} if unseen else label


def reads_images(served: ServedRun) -> bool:
    """Whether a run takes images, so that no text may be given to it."""
    return isinstance(served.run.task, ImageTask)


def image_model(registry: ModelRegistry, name: str | None) -> ServedRun:
    """The run of that name, which must read images; without a name, the first that does."""
    candidates = [registry.any(name)] if name is not None else list(registry.by_name.values())
    for served in candidates:
        if reads_images(served):
            return served
    raise RequestError(400, f"'{name}' reads no images" if name else "no run that reads images is served")


def decode_image(text: str) -> bytes:
    """The bytes of an image within the server's limits."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise RequestError(400, "image: not base64") from None
    if pixels_of(data, "image") > IMAGE_PIXELS:
        raise RequestError(413, f"image: this server decodes at most {IMAGE_PIXELS:,} pixels")
    return data
