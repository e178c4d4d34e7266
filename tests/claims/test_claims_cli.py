"""`regard claims` as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = "from regard import cli; from regard.cli.experiments import claims; cli.app.command()(claims); cli.main()"


def regard(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, "claims", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_one_claim_as_json(tmp_path: Path):
    found = json.loads(regard("f6", "--quick", "--json", "--out", str(tmp_path)).stdout)
    assert [one["name"] for one in found] == ["f6"]
    assert found[0]["verdict"] in ("holds", "does not hold", "inconclusive")
    assert found[0]["measured"]
    assert Path(found[0]["figure"]).is_file()


def test_a_table_for_people(tmp_path: Path):
    told = regard("f6", "f17", "--quick", "--out", str(tmp_path)).stdout
    assert "scaling the dot product" in told
    assert "does not hold" in told
    assert (tmp_path / "claims.md").is_file()


def test_an_unknown_name_is_the_users_mistake(tmp_path: Path):
    assert "did you mean 'f17'?" in regard("g17", "--out", str(tmp_path), code=2).stderr
