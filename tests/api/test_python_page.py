"""The code of docs/python.md runs, in miniature."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.DOTALL)
FEW = ", data__valid__limit=4, data__test__limit=4, search__kind='greedy', search__max_length=8"


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, block in enumerate(BLOCKS, start=1):
        few = (
            ", data__valid__limit=4, data__test__limit=4, search__kind='greedy', search__max_length=8"
            if "pairs" in block
            else ""
        )
        code = re.sub(r"train__minutes=\d+", f"train__steps=2{few}", block).replace("steps=30", "steps=1")
        exec(compile(code, f"block {number} of python.md", "exec"), names)
    assert (tmp_path / "page.html").is_file()
    assert "Run('runs/watched': classification, encoder, " in capsys.readouterr().out


def test_the_first_lines_are_ten():
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) == 10
