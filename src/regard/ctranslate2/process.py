"""A converted model in a process of its own, for programs that have loaded torch: CTranslate2 is slower beside it.

A request is one line of JSON, and so is its response:

    {"verb": "translate", "texts": ["…"], "search": {…}, "scored": false}  →  {"outputs": [[{"text": "…", …}]]}
                                                                           →  {"overlong": {"1": "a sentence of …"}}
                                                                           →  {"error": "…", "input": 1}
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from regard.config.search_options import Search
from regard.ctranslate2.model_folder import ConvertedModel
from regard.errors import Failure, InputError, OverlongError, RegardError
from regard.text.outputs import Output, Summary

if TYPE_CHECKING:
    from regard.ctranslate2.model import CTranslate2Engine


class EngineProcess:
    """A CTranslate2Engine in a child process, which ends when this object is closed or this process ends."""

    def __init__(self, converted: ConvertedModel, many: bool = True) -> None:
        command = [sys.executable, "-m", "regard.ctranslate2.process", str(converted.folder), "many" if many else "one"]
        # a session of its own: Ctrl-C is for us to response, and the child ends when its input does
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
        )

    def translate(
        self, texts: Sequence[str], search: Search, scored: bool = False, cut: bool = False
    ) -> list[list[Output]]:
        """The translations of each text, best first."""
        return self._request("translate", texts, search, scored=scored, cut=cut)

    def generate(self, prompts: Sequence[str], search: Search, scored: bool = False) -> list[list[Output]]:
        """The continuations of each prompt."""
        return self._request("generate", prompts, search, scored=scored)

    def close(self) -> None:
        """Ends the process."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with suppress(OSError):  # it may be gone already
            self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()

    def _request(self, verb: str, texts: Sequence[str], search: Search, **options: bool) -> list[list[Output]]:
        request = {"verb": verb, "texts": list(texts), "search": dict(search), **options}
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except (OSError, ValueError):  # ended, or closed here
            line = ""
        if not line:
            raise Failure("the process of CTranslate2 has ended; start again, or use --engine torch")
        response = json.loads(line)
        if "overlong" in response:
            raise OverlongError({int(number): problem for number, problem in response["overlong"].items()})
        if "input" in response:
            raise InputError(response["input"], response["error"])
        if "error" in response:
            raise RegardError(response["error"])
        return [[(Summary if "unread" in tree else Output)(**tree) for tree in row] for row in response["outputs"]]


def serve(converted: ConvertedModel, many: bool, requests: IO[str], responses: IO[str]) -> None:
    """Answers each line of requests with a line of responses."""
    from regard.ctranslate2.threads import load_engine

    engine = load_engine(converted, many)
    for line in requests:
        responses.write(json.dumps(_respond(engine, json.loads(line))) + "\n")
        responses.flush()


def _respond(engine: "CTranslate2Engine", request: dict[str, Any]) -> dict[str, object]:
    generate = engine.translate if request.pop("verb") == "translate" else engine.generate
    try:
        outputs = generate(request.pop("texts"), request.pop("search"), **request)
    except OverlongError as error:
        return {"overlong": error.inputs}
    except InputError as error:
        return {"error": error.problem, "input": error.number}
    except (RegardError, ValueError, RuntimeError) as error:
        return {"error": str(error)}
    return {"outputs": [[vars(output) for output in row] for row in outputs]}


if __name__ == "__main__":
    serve(ConvertedModel.read(Path(sys.argv[1])), sys.argv[2] == "many", sys.stdin, sys.stdout)
