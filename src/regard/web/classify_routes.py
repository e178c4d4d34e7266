"""Routes of our own: classification, and how a run's training went."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from regard.files.run_folder import METRICS_FILE
from regard.files.strict_json import to_json
from regard.train.log import read_metrics
from regard.web.errors import Problem, Refusal, documented
from regard.web.jobs import Classifying, Job
from regard.web.pending import answer
from regard.web.registry import Shelf
from regard.web.request_body import BLANK, PLAIN
from regard.web.settings import CHARACTERS, TEXTS

Text = Annotated[str, Field(max_length=CHARACTERS), BLANK, PLAIN]


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
    unseen: list[str] | None = None
    """Words that the training data never had, where there are any."""


def routes(shelf: Shelf) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["inside"])

    @router.post(
        "/classify",
        response_model=Classified | list[Classified],
        response_model_exclude_unset=True,
        responses=documented(Problem, 404, 422, 500, 503),
    )
    async def classify(asked: ClassifyRequest, request: Request) -> Any:  # noqa: ANN401
        """The label of a text, or of several."""
        served = shelf.named(asked.model, "classification")
        texts = [asked.text] if isinstance(asked.text, str) else asked.text
        if sum(map(len, texts)) > CHARACTERS:
            raise Refusal(413, f"this server takes at most {CHARACTERS:,} characters at once")
        job = Job(Classifying(), texts, longest=max(map(served.length, texts)))
        found = await answer(request, served.worker, job)
        told = [
            {"label": max(row, key=row.__getitem__) if row else None, "probabilities": row}
            | ({"unseen": unseen} if unseen else {})
            for row, unseen in zip(found, served.unseen(texts), strict=True)
        ]
        return told[0] if isinstance(asked.text, str) else told

    @router.get("/runs/{name}/metrics", responses=documented(Problem, 404, 422))
    async def metrics(name: str) -> list[dict[str, Any]]:
        """How a run's training went: the lines of its metrics.jsonl, also while it goes on."""
        file = shelf.any(name).run.folder / METRICS_FILE
        lines = read_metrics(file) if file.exists() else []
        return Response(to_json(lines), media_type="application/json")  # type: ignore[return-value]

    return router
