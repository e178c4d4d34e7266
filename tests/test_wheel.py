"""The wheel without the checkout: README and tour work after `pip install` in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from test_documents import blocks

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel, installed into a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    wheel = next(folder.glob("*.whl"))
    subprocess.run([*pip, "install", "--no-deps", "--target", str(folder / "site"), str(wheel)], check=True)
    return folder / "site"


@pytest.mark.slow
def test_readme_and_tour_work_without_the_checkout(installed: Path, tmp_path: Path):
    path = os.pathsep.join([str(installed / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(installed)}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    assert str(installed) in run(sys.executable, "-c", "import regard; print(regard.__file__)")
    assert "examples" in run("regard", "recipes")
    run("regard", "train", "pairs", "train.steps=2", "--out", "runs/by-name")
    assert (tmp_path / "runs" / "by-name" / "recipe.toml").is_file()
    for document in ("README.md", "docs/tour.md"):
        for block in blocks(document, "sh"):
            if "make " not in block:
                run("bash", "-euo", "pipefail", "-c", block)
        for block in blocks(document, "python"):
            run(sys.executable, "-c", block)
