"""A converted model in a process of its own, for programs that have loaded torch: CTranslate2 is slower beside it.

One line of JSON asks, one answers:

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
from typing import IO, Any

from regard.ctranslate2.model_folder import Converted
from regard.ctranslate2.search import Search
from regard.errors import Failure, InputError, OverlongError, RegardError
from regard.text.outputs import Output, Summary


class Remote:
    """A FastEngine elsewhere; it ends when this object is closed, or when this process ends."""

    def __init__(self, converted: Converted, many: bool = True) -> None:
        words = [sys.executable, "-m", "regard.ctranslate2.process", str(converted.folder), "many" if many else "one"]
        # a session of its own: Ctrl-C is for us to answer, and the child ends when its input does
        self._child = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
        )

    def translate(
        self, texts: Sequence[str], search: Search, scored: bool = False, cut: bool = False
    ) -> list[list[Output]]:
        """The translations of each text, best first."""
        return self._ask("translate", texts, search, scored=scored, cut=cut)

    def generate(self, prompts: Sequence[str], search: Search, scored: bool = False) -> list[list[Output]]:
        """What the model writes after each prompt."""
        return self._ask("generate", prompts, search, scored=scored)

    def close(self) -> None:
        """Ends the process."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with suppress(OSError):  # it may be gone already
            self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()

    def _ask(self, verb: str, texts: Sequence[str], search: Search, **how: bool) -> list[list[Output]]:
        asked = {"verb": verb, "texts": list(texts), "search": dict(search), **how}
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(asked) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except (OSError, ValueError):  # ended, or closed here
            line = ""
        if not line:
            raise Failure("the process of CTranslate2 has ended; start again, or use --engine torch")
        answer = json.loads(line)
        if "overlong" in answer:
            raise OverlongError({int(number): problem for number, problem in answer["overlong"].items()})
        if "input" in answer:
            raise InputError(answer["input"], answer["error"])
        if "error" in answer:
            raise RegardError(answer["error"])
        return [[_output(tree) for tree in row] for row in answer["outputs"]]


def _output(tree: dict[str, Any]) -> Output:
    return Summary(**tree) if "unread" in tree else Output(**tree)


def serve(converted: Converted, many: bool, asked: IO[str], answers: IO[str]) -> None:
    """Answers line by line until there are no more."""
    from regard.ctranslate2.threads import open_engine

    engine = open_engine(converted, many)
    for line in asked:
        answers.write(json.dumps(_answer(engine, json.loads(line))) + "\n")
        answers.flush()


def _answer(engine: Any, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    write = engine.translate if asked.pop("verb") == "translate" else engine.generate
    try:
        found = write(asked.pop("texts"), asked.pop("search"), **asked)
    except OverlongError as error:
        return {"overlong": error.inputs}
    except InputError as error:
        return {"error": error.problem, "input": error.number}
    except (RegardError, ValueError, RuntimeError) as error:
        return {"error": str(error)}
    return {"outputs": [[vars(output) for output in row] for row in found]}


if __name__ == "__main__":
    serve(Converted.read(Path(sys.argv[1])), sys.argv[2] == "many", sys.stdin, sys.stdout)
