"""What is fuzzed: functions that take any bytes, as whoever wrote a file or sent a request likes, and must survive.

A target may refuse with a RegardError, a sentence; any other error is a finding, and so is one that takes too long.
Each comes with seeds: inputs that are right, from which wrong ones are made by changing them a little.

    with Targets(folder) as targets:
        targets.try_one("recipe", b"[model]\\nwidth = 3")
"""

import asyncio
import json
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq
from endured import tiny_recipe, tiny_tree, train

from regard.config import dump_toml
from regard.data.findings import Findings
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.decode import GreedyConfig
from regard.errors import RegardError
from regard.export.huggingface.import_model import read_folder
from regard.files.manifest import write_manifest
from regard.files.run_folder import MANIFEST_FILE
from regard.run.recipe import read_recipe
from regard.run.trained import Run
from regard.web import ServeConfig, make_app

SECONDS = 60.0  # what a target may take, on a machine that does other things as well
NAMES = ("recipe", "readers", "run", "import", "http")

TABLES = {
    "a.txt": {},
    "a.tsv": {"source": 0, "target": 1},
    "a.csv": {"source": "en", "target": "de"},
    "a.jsonl": {"text": "text", "label": "label.0"},
    "a.parquet": {"text": "text", "label": 1},
    "a.txt.gz": {},
    "a.csv.zst": {"text": "en", "label": "de"},
    "a.parquet.gz": {"text": "text", "label": "label"},
}
ROUTES = ("/translate", "/attention", "/v1/completions", "/classify", "/", "/runs/street/metrics", "/v1/models/x")
TYPES = ("application/json", "application/x-www-form-urlencoded", "text/plain", "multipart/form-data", "")
REQUEST = {"q": "The dog sleeps.", "source": "en", "target": "de", "alternatives": 1}


class Slow(BaseException):
    """A target took too long; no code of ours catches it on its way."""


@contextmanager
def in_time(seconds: float = SECONDS) -> Iterator[None]:
    """Raises Slow where the block does not end in time; on the main thread only."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Slow

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Targets:
    """All targets, with a place for their files, a run to be damaged and a server to be asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "street"

    def __enter__(self) -> Self:
        if not self.run.exists():
            train(tiny_recipe(2), self.run)
            shutil.rmtree(self.run / "cache")
        self.files = sorted(file for file in self.run.rglob("*") if file.is_file() and "step-2" in str(file.parent))
        self.files = [self.run / "recipe.toml", self.run / "tokenizer.json", *self.files]
        self.app = make_app({"street": self.run}, ServeConfig(port=0), device="cpu")
        self.loop = asyncio.new_event_loop()
        self.inbox: asyncio.Queue[dict] = asyncio.Queue()
        self.life = self.loop.create_task(self.app({"type": "lifespan"}, self.inbox.get, _ignore))
        self.loop.run_until_complete(self._tell("lifespan.startup"))
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.run_until_complete(self._tell("lifespan.shutdown"))
        self.loop.run_until_complete(self.life)
        self.loop.close()

    async def _tell(self, what: str) -> None:
        await self.inbox.put({"type": what})
        await asyncio.sleep(0.2)

    def try_one(self, name: str, data: bytes) -> str:
        """Gives a target some bytes; `refused` or `taken`. Whatever else it does is raised."""
        target: Callable[[bytes], None] = getattr(self, f"_{name}")
        try:
            with in_time():
                target(data)
            return "taken"
        except RegardError as error:
            return "refused" if str(error) else "refused without a word"

    def seeds(self, name: str) -> list[bytes]:
        """Inputs that a target takes."""
        return getattr(self, f"_{name}_seeds")()

    # Recipes

    def _recipe(self, data: bytes) -> None:
        file = self.folder / "fuzzed.toml"
        file.write_bytes(data)
        recipe = read_recipe(file, ["train.steps=3"])
        recipe.check()
        recipe.model.num_params(*([300, 300] if recipe.model.shape == "encoder-decoder" else [300]))

    def _recipe_seeds(self) -> list[bytes]:
        shipped = Path(__file__).parents[2] / "recipes"
        return [dump_toml(tiny_tree()).encode(), *(file.read_bytes() for file in sorted(shipped.glob("*.toml"))[:6])]

    # Readers of data: the first byte chooses the format

    def _readers(self, data: bytes) -> None:
        number, content = (data[0], data[1:]) if data else (0, b"")
        name, columns = list(TABLES.items())[number % len(TABLES)]
        (self.folder / name).write_bytes(content)
        for findings in (Findings(strict=False), Findings()):
            for _ in read_examples(SourceConfig(file=name, **columns), self.folder, findings):
                pass

    def _readers_seeds(self) -> list[bytes]:
        import gzip

        table = pa.table({"text": ["a dog", "ein Hund"], "label": ["x", "y"]})
        with tempfile.NamedTemporaryFile() as file:
            pq.write_table(table, file.name)
            parquet = Path(file.name).read_bytes()
        packed = pa.compress(b"en,de\na,b\n", codec="zstd", asbytes=True)
        rows = [json.dumps({"text": "a", "label": [1, "b"]}).encode() + b"\n"] * 2
        contents = [b"one\r\ntwo\n", b"a\tb\nc\td\n", b'en,de\n"a, b",c\n', b"".join(rows), parquet,
                    gzip.compress(b"one\ntwo\n"), packed, gzip.compress(parquet)]  # fmt: skip
        return [bytes([number]) + content for number, content in enumerate(contents)]

    # Run folders: the first byte chooses the file, the second whether a hostile hand made the manifest agree

    def _run(self, data: bytes) -> None:
        number, agree, content = (*data[:2], data[2:]) if len(data) > 1 else (0, 0, data)
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.run, copy, symlinks=True)
        file = copy / self.files[number % len(self.files)].relative_to(self.run)
        file.write_bytes(content)
        if agree % 2 and file.name != MANIFEST_FILE and file.parent.name.startswith("step-"):
            (file.parent / MANIFEST_FILE).unlink()
            write_manifest(file.parent)
        Run.open(copy, "cpu", "last").translate(["The dog sleeps."], GreedyConfig(max_length=3))

    def _run_seeds(self) -> list[bytes]:
        return [bytes([number, 1]) + file.read_bytes() for number, file in enumerate(self.files)]

    # Folders of models from elsewhere: the first byte chooses the file

    def _import(self, data: bytes) -> None:
        number, content = (data[0], data[1:]) if data else (0, b"")
        copy = self.folder / "theirs"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self._exported(), copy)
        files = sorted(file.name for file in copy.iterdir())
        (copy / files[number % len(files)]).write_bytes(content)
        read_folder(copy)

    def _exported(self) -> Path:
        """The run as a Hugging Face folder."""
        from regard.api import export

        place = self.folder / "exported"
        if not place.exists():
            data = SourceConfig(street="valid", limit=2)
            export(Run.open(self.run, "cpu", "last"), "huggingface", place, data=data, examples=2)
        return place

    def _import_seeds(self) -> list[bytes]:
        files = sorted(self._exported().iterdir())
        return [bytes([number]) + file.read_bytes() for number, file in enumerate(files)]

    # Requests: the first two bytes choose route and type

    def _http(self, data: bytes) -> None:
        route, kind, body = (*data[:2], data[2:]) if len(data) > 1 else (0, 0, data)
        status = self.loop.run_until_complete(self._asked(ROUTES[route % len(ROUTES)], TYPES[kind % len(TYPES)], body))
        assert status < 500, f"the answer was {status}"

    async def _asked(self, route: str, kind: str, body: bytes) -> int:
        size = str(len(body)).encode()
        headers = [(b"host", b"localhost"), (b"content-length", size), (b"content-type", kind.encode())]
        scope = {"type": "http", "method": "POST", "path": route, "raw_path": route.encode(), "query_string": b"",
                 "headers": headers, "scheme": "http", "http_version": "1.1", "client": ("127.0.0.1", 1),
                 "server": ("127.0.0.1", 2), "root_path": ""}  # fmt: skip
        statuses: list[int] = []
        sent = False

        async def receive() -> dict:
            nonlocal sent
            if sent:
                await asyncio.sleep(3600)
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        await self.app(scope, receive, send)
        return statuses[0]

    def _http_seeds(self) -> list[bytes]:
        bodies = [REQUEST, {"model": "street", "text": "The dog sleeps."}, {"model": "street", "prompt": "a", "n": 1},
                  {"text": "a", "model": "street"}]  # fmt: skip
        forms = [b"q=The+dog&source=en&target=de", b"q=a&q=b&source=auto&target=de"]
        return [bytes([number, 0]) + json.dumps(body).encode() for number, body in enumerate(bodies)] + [
            b"\0\1" + form for form in forms
        ]


async def _ignore(_message: dict) -> None: ...
