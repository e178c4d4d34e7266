"""`regard look` as a user meets it: a page, a pattern, and mistakes in one sentence."""

import base64
import json
import re
import zlib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from regard import api
from regard.cli.look import look
from regard.errors import RegardError

TEXT = "The dog slept."


def called(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(look)
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_it_writes_one_page(run: api.Run, tmp_path: Path):
    out = tmp_path / "page.html"
    told = called(
        str(run.folder), TEXT, "--target", "Der Hund schlief.", "--against", str(run.folder), "--out", str(out)
    )
    assert told.startswith(f"{out}: ")
    found = re.search(r'id="regard-data">(.*?)</script>', out.read_text(encoding="utf-8"))
    assert found
    tree = json.loads(zlib.decompress(base64.b64decode(found[1])))
    assert tree["against"]["output"] == "Der Hund schlief."
    assert 8 in [shot["step"] for shot in tree["snapshots"]]


def test_it_prints_the_pattern(run: api.Run, tmp_path: Path):
    png = tmp_path / "pattern.png"
    told = called(str(run.folder), TEXT, "--target", "Der Hund", "--pattern", "--out", str(png))
    lines = told.splitlines()
    decoder = lines.index(next(line for line in lines if line.startswith("decoder: ")))
    assert lines[decoder + 1].split() == ["<bos>", "■" + "·" * (int(lines[decoder].split()[-1]) - 1)]
    assert lines[-1] == f"{png}: encoder: full, decoder: full, cross: full"
    assert png.read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_one_sentence(run: api.Run, tmp_path: Path):
    with pytest.raises(RegardError, match="no such run folder"):
        called(str(tmp_path / "nothing"), TEXT)
    with pytest.raises(RegardError, match="cannot be written"):
        called(str(run.folder), TEXT, "--out", str(tmp_path / "no" / "page.html"))
    with pytest.raises(RegardError, match="expected something to look at"):
        called(str(run.folder), " ")
