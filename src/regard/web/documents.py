"""Files for LibreTranslate's clients: POST /translate_file, and the link of its answer, GET /download_file/NAME."""

import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from regard.data.languages import known_codes
from regard.errors import DataError
from regard.text.documents.registry import DOCUMENTS, Languages, document_format
from regard.web.guard import signed
from regard.web.prometheus import ServerMetrics
from regard.web.registry import ModelRegistry
from regard.web.requests import MULTIPART, Json, Problem, RequestError, UploadedFile, documented, fields_of
from regard.web.settings import FILE_SECONDS, FILES_KEPT
from regard.web.translate import translate_document

BYTES = "application/octet-stream"
FIELDS = ("file", "source", "target", "api_key", "model")
BODY = {
    "required": True,
    "content": {
        MULTIPART: {
            "schema": {
                "type": "object",
                "properties": {
                    "file": {"type": "string", "format": "binary", "description": "A document, by its name's end."},
                    "source": {"type": "string", "description": "Code of the language to translate from, or `auto`."},
                    "target": {"type": "string", "description": "Code of the language to translate into."},
                    "api_key": {"type": "string", "description": "The server's key, if it has one."},
                    "model": {"type": "string", "description": "The run that translates."},
                },
                "required": ["file", "source", "target"],
                "additionalProperties": False,
            }
        }
    },
}


class TranslatedFile(BaseModel):
    """Where the translated file can be fetched for half an hour."""

    translatedFileUrl: str  # noqa: N815


@dataclass
class TranslatedFiles:
    """The latest translated files, by names that nobody can guess."""

    files: OrderedDict[str, tuple[float, str, bytes]] = field(default_factory=OrderedDict)

    def add(self, name: str, content: bytes) -> str:
        self._expire()
        key = signed(f"{secrets.token_urlsafe(16)}.{quote(name)}")
        self.files[key] = (time.monotonic() + FILE_SECONDS, name, content)
        return key

    def get(self, key: str) -> tuple[str, bytes]:
        self._expire()
        if key not in self.files:
            raise RequestError(404, "no such file; translated files are kept for half an hour")
        return self.files[key][1:]

    def _expire(self) -> None:
        now = time.monotonic()
        while self.files and (len(self.files) >= FILES_KEPT or next(iter(self.files.values()))[0] < now):
            self.files.popitem(last=False)


def routes(registry: ModelRegistry, _metrics: ServerMetrics) -> APIRouter:
    router, translated = APIRouter(tags=["translation"]), TranslatedFiles()

    @router.post(
        "/translate_file",
        response_model=TranslatedFile,
        responses=documented(Problem, 404, 415, 422, 500, 503),
        openapi_extra={"requestBody": BODY},
    )
    async def translate_file(request: Request) -> Response:
        """Translate a document; what is not text stays. Answers a link, or the file itself for octet-stream clients."""
        fields = _fields(fields_of(await request.body(), request.headers.get("content-type", "")))
        served = registry.translator(fields["source"], fields["target"], fields.get("model"))
        file: UploadedFile = fields["file"]
        name = re.sub(r"[^\w.-]+", "_", PurePath(file.name.replace("\\", "/")).name)[-100:]
        format = document_format(name)
        if format is None:
            suffixes = ", ".join(sorted(suffix for one in DOCUMENTS.values() for suffix in one.suffixes))
            raise RequestError(400, f"file: '{name}' is no document that this server translates; known: {suffixes}")
        languages = Languages(*known_codes(served.pair))
        try:
            steps = format.translation(file.content, name, served.spans, languages)
            content = await translate_document(request, served, steps)
        except DataError as error:
            raise RequestError(400, str(error)) from None
        path = PurePath(name)
        name = f"{path.stem}_{fields['target']}{path.suffix}"
        if request.headers.get("accept", "").strip() == BYTES:
            return _attachment(name, content)
        url = request.url_for("download_file", name=translated.add(name, content))
        return JSONResponse({"translatedFileUrl": str(url)})

    @router.get(
        "/download_file/{name}",
        response_class=Response,
        responses={**documented(Problem, 404), 200: {"content": {BYTES: {}}, "description": "The translated file."}},
    )
    async def download_file(name: Annotated[str, InPath(max_length=400)]) -> Response:
        """A translated file, by the link that /translate_file has answered; needs no key."""
        return _attachment(*translated.get(quote(name)))

    return router


def _attachment(name: str, content: bytes) -> Response:
    return Response(
        content, media_type=BYTES, headers={"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    )


def _fields(fields: Json) -> Json:
    for name, value in fields.items():
        if name not in FIELDS:
            raise RequestError(422, f"{name}: unknown; known: {', '.join(FIELDS)}")
        if isinstance(value, UploadedFile) != (name == "file"):
            raise RequestError(422, f"{name}: expected {'a file' if name == 'file' else 'a text'}")
    for name in ("file", "source", "target"):
        if name not in fields:
            raise RequestError(422, f"{name}: Field required")
    return fields
