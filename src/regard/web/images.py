"""Images over HTTP: they come in the request itself, never as the name of a file."""

import base64
import binascii
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from regard.data.images.decoding import pixels_of
from regard.tasks.images import ImageTask
from regard.web.errors import Problem, Refusal, documented
from regard.web.jobs import Classifying, Job, Translating
from regard.web.pending import answer
from regard.web.registry import Served, Shelf
from regard.web.settings import IMAGE_CHARACTERS, IMAGE_PIXELS

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="


class ImageRequest(BaseModel):
    """An image to classify or to describe."""

    model_config = ConfigDict(
        extra="forbid", strict=True, use_attribute_docstrings=True, json_schema_extra={"example": {"image": DOT}}
    )

    image: str = Field(max_length=IMAGE_CHARACTERS)
    """A PNG, JPEG or the like, in base64."""
    model: str | None = None
    """The run that is to look at it; by default the first that reads images."""


class Seen(BaseModel):
    """What a run makes of an image: its label, or what it writes about it."""

    label: str | None = None
    probabilities: dict[str, float] | None = None
    text: str | None = None


def routes(shelf: Shelf) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["inside"])

    @router.post("/images", response_model=Seen, responses=documented(Problem, 404, 422, 500, 503))
    async def images(asked: ImageRequest, request: Request) -> Any:  # noqa: ANN401
        """The label of an image, or a sentence about it, whichever the run learnt."""
        served = reader(shelf, asked.model)
        describes = served.run.task.verb == "translate"
        ask = Translating() if describes else Classifying()
        job = Job(ask, [image_of(asked.image)], longest=served.run.recipe.model.tokens)  # type: ignore[union-attr]
        (found,) = await answer(request, served.worker, job)
        if describes:
            return {"text": found[0].text}
        return {"label": max(found, key=found.__getitem__), "probabilities": found}

    return router


def reads_images(served: Served) -> bool:
    """Whether a run takes images, so that no text may be given to it."""
    return isinstance(served.run.task, ImageTask)


def reader(shelf: Shelf, name: str | None) -> Served:
    """The run of that name, which must read images; without a name, the first that does."""
    able = [shelf.any(name)] if name is not None else list(shelf.by_name.values())
    for one in able:
        if reads_images(one):
            return one
    raise Refusal(400, f"'{name}' reads no images" if name else "no run that reads images is served")


def image_of(text: str) -> bytes:
    """The bytes of an image, no larger than a server decodes."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(400, "image: not base64") from None
    if pixels_of(data, "image") > IMAGE_PIXELS:
        raise Refusal(413, f"image: this server decodes at most {IMAGE_PIXELS:,} pixels")
    return data
