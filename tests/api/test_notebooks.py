"""The notebooks run from their first cell to their last, in miniature."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(file.name for file in NOTEBOOKS.glob("[0-9]_*.py"))


def cells(text: str) -> list[str]:
    """The code cells of a notebook in percent format."""
    parts = re.split(r"^# %%(.*)\n", text, flags=re.MULTILINE)
    return [code for kind, code in zip(parts[1::2], parts[2::2], strict=True) if "[markdown]" not in kind]


def as_program(text: str) -> str:
    """The cells one after another; the value of each cell is shown as a notebook shows it."""
    program = ["shown = lambda value: print(repr(value)[:2000])"]
    for code in cells(text):
        tree = ast.parse(code)
        last = tree.body[-1]
        if isinstance(last, ast.Expr):
            tree.body[-1] = ast.Expr(ast.Call(ast.Name("shown"), [last.value], []))
        program.append(ast.unparse(ast.fix_missing_locations(tree)))
    return "\n".join(program)


def test_there_are_four():
    assert len(NAMES) == 4
    for name in NAMES:
        text = (NOTEBOOKS / name).read_text(encoding="utf-8")
        assert text.startswith("# %% [markdown]\n# # ")
        assert len(cells(text)) >= 4


def test_notebooks_run_in_miniature(tmp_path: Path):
    """One after another in one process, which saves the time of loading torch four times."""
    folder = Path(shutil.copytree(NOTEBOOKS, tmp_path / "notebooks", ignore=shutil.ignore_patterns("runs")))
    for name in NAMES:
        (folder / name).write_text(as_program((folder / name).read_text(encoding="utf-8")), encoding="utf-8")
    program = f"import runpy\nfor name in {NAMES!r}: runpy.run_path(name); print('finished', name)"
    environment = {**os.environ, "REGARD_MINIATURE": "1", "MPLBACKEND": "agg"}
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert [line for line in finished.stdout.splitlines() if line.startswith("finished ")][-1].endswith(NAMES[-1])
    assert "model.attention.strid: unknown setting; did you mean 'stride'?" in finished.stdout
    assert "(0.0, " in finished.stdout  # no weight outside of the plugin's mask
