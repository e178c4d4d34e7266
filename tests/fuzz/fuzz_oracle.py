"""What must be true of every command line, whatever was asked: problems as sentences, none where all is well."""

import base64
import hashlib
import json
import math
import re
import tomllib
import zlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from fuzz_command import Outcome

LEAKS = re.compile(
    r"Traceback|\b[A-Z]\w*(Error|Exception|Warning)\b|pydantic|validation error|Input should|0x[0-9a-f]{6,}|<class |"
    r"object at 0x|<function|\btorch\.Size\b|numpy\.|np\.\w+\(|NoneType|\w+Config\(|=None\b|"
    r"expected [A-Z][a-z]+ [a-z]+ "
)
"""What belongs to Python or a library and not into a sentence for people."""
LONGEST_SENTENCE = 900
PAYLOAD = re.compile(r'id="regard-data">([^<]*)</script>')


def plain_problems(outcome: Outcome) -> list[str]:
    """Problems of the exit code and of what is written to standard error."""
    if outcome.traceback:
        return [f"traceback: {outcome.traceback.strip().splitlines()[-1]}"]
    if outcome.code not in (0, 1, 2):
        return [f"exit code {outcome.code}"]
    if "Traceback" in outcome.stderr:
        return ["a traceback on standard error"]
    if outcome.code == 0 or (outcome.verb == "data check" and outcome.code == 2 and outcome.stdout):
        return []
    return _sentence_problems(outcome)


def _sentence_problems(outcome: Outcome) -> list[str]:
    """A refusal is one sentence, the last line of standard error."""
    lines = [line for line in outcome.stderr.splitlines() if line.strip()]
    if not lines:
        return [f"exit {outcome.code} without a word"]
    last = lines[-1]
    if outcome.code == 2 and (last.startswith("Error: ") or any(line.lstrip().startswith("Usage: ") for line in lines)):
        return []  # an option that does not exist, or no verb at all: how the command is used
    if not last.startswith("regard: "):
        return [f"the last line of standard error is no sentence of ours: {last[:200]!r}"]
    if leak := LEAKS.search(last):
        return [f"the sentence has '{leak[0]}': {last[:300]}"]
    return ["an endless sentence"] if len(last) > LONGEST_SENTENCE else []


def digest(folder: Path) -> dict[str, str]:
    """Every file and link below a folder with a hash of what it holds; folders that are empty count too."""
    state = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            state[name] = f"-> {path.readlink()}"
        elif path.is_file():
            state[name] = hashlib.blake2b(path.read_bytes(), digest_size=12).hexdigest()
        else:
            state[name] = "folder"
    return state


def changed_paths(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What was made, changed or removed."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def change_problems(
    outcome: Outcome, changed: Iterable[str], targets: Collection[str], runs: Collection[str]
) -> list[str]:
    """Whether a command changed only what it was asked to write, and a refused one nothing at all.

    Caches of runs may grow: they hold nothing that was not there before in another form.
    """
    harmless = [re.compile(rf"{re.escape(run)}/(cache(/.*)?|\.lock)$") for run in runs]
    changed = [name for name in changed if not any(pattern.match(name) for pattern in harmless)]
    if outcome.code == 2 and outcome.verb != "compare":
        return [f"refused, but changed {', '.join(changed[:5])}"] if changed else []
    allowed = tuple(targets)
    strangers = [name for name in changed if not any(name == each or name.startswith(f"{each}/") for each in allowed)]
    parents = {str(parent) for each in allowed for parent in Path(each).parents}
    strangers = [name for name in strangers if name not in parents]
    return (
        [f"changed {', '.join(strangers[:5])}, and was asked to write {', '.join(allowed) or 'nothing'}"]
        if strangers
        else []
    )


def strict_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError for NaN and infinities, which JSON does not have."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def json_problems(data: bytes) -> list[str]:
    try:
        strict_json(data)
    except ValueError as error:
        return [f"its JSON cannot be read: {error}"]
    return []


def number_problems(numbers: dict[str, Any], where: str) -> list[str]:
    """Scores are finite numbers."""
    odd = [name for name, value in numbers.items() if not isinstance(value, int | float) or not math.isfinite(value)]
    return [f"{where}: {odd[0]} is {numbers[odd[0]]!r}"] if odd else []


def run_problems(folder: Path, recipe: Any, steps: int | None) -> list[str]:
    """Whether a trained run can be opened, is what was asked for, and has its numbers.

    `recipe` is what the command line resolves to, None where that is not known; `steps` likewise.
    """
    from regard.config import read_toml
    from regard.run.trained import Run, read_run_recipe
    from regard.train import checkpoint
    from regard.train.log import read_metrics

    problems = []
    tree = tomllib.loads((folder / "recipe.toml").read_text(encoding="utf-8"))
    kept = read_run_recipe(folder)
    if kept.tree() != tree or read_toml(folder / "recipe.toml") != tree:
        problems.append("recipe.toml does not give back itself")
    if recipe is not None and kept != recipe:
        names = [name for name in type(recipe).model_fields if getattr(recipe, name) != getattr(kept, name)]
        problems.append(f"recipe.toml has another {', '.join(names)} than the command line")
    newest, complaints = checkpoint.latest(folder / "checkpoints")
    if newest is None or complaints:
        return [*problems, f"no whole checkpoint: {complaints}"]
    saved = checkpoint.load(newest)
    Run.open(folder, "cpu", "last")
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if "event" not in line]
    for line in lines:
        numbers = {name: value for name, value in line.items() if name != "split"}
        if line.get("split") == "train":
            problems += number_problems({"loss": numbers["loss"], "lr": numbers["lr"]}, f"step {line['step']}")
    if steps is not None and saved.step != steps:
        problems.append(f"trained {saved.step} steps in place of {steps}")
    return problems


def page_problems(file: Path, text: str | None) -> list[str]:
    """Whether a page holds its data."""
    if not file.is_file():
        return [f"{file.name} was not written"]
    payload = PAYLOAD.search(file.read_text(encoding="utf-8"))
    if payload is None:
        return ["the page has no data"]
    tree = strict_json(zlib.decompress(base64.b64decode(payload[1])))
    return [] if isinstance(tree, dict) and tree else ["the page's data is empty"]


def lines_of(data: bytes) -> list[str]:
    """The lines of what was written; they end at \\n only."""
    text = data.decode()
    return text.removesuffix("\n").split("\n") if text else []


def line_problems(outcome: Outcome, inputs: list[str], *, as_json: bool, key: str, least: int = 1) -> list[str]:
    """As many lines as there were inputs, each of them JSON where that was asked for."""
    lines = lines_of(outcome.stdout)
    if len(lines) != len(inputs):
        return [f"{len(lines)} lines for {len(inputs)} inputs"]
    if not as_json:
        return []
    for line, text in zip(lines, inputs, strict=True):
        try:
            tree = strict_json(line)
        except ValueError as error:
            return [f"a line is no JSON: {error}"]
        if tree.get(key) != text:
            return [f"{key} is {tree.get(key)!r} for the input {text!r}"]
        if key != "text" and len(tree["outputs"]) < least and "overlong" not in tree:
            return [f"no output for {text!r}"]
    return []
