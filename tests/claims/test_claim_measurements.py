"""Every measurement runs, quickly; its numbers are finite, judged, kept, drawn, and told on a page."""

import json
import re
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from test_claim_rules import HOLDS

import regard
from regard import api
from regard.claims import CLAIMS, Result, Setup, run_claim, select_claims, stored_results, write_page
from regard.claims.result import FIGURES, MEASUREMENTS
from regard.errors import ConfigError, DataError, RunError


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    return Setup(tmp_path_factory.mktemp("work"), quick=True)


def numbers_in(tree: Any) -> list[float]:
    if isinstance(tree, dict):
        return [number for part in tree.values() for number in numbers_in(part)]
    if isinstance(tree, list):
        return [number for part in tree for number in numbers_in(part)]
    return [] if isinstance(tree, str | bool) else [float(tree)]


def test_the_registry_covers_the_lectures_rows():
    assert list(CLAIMS) == [f"f{row}" for row in range(1, 18)]
    folder = Path(regard.__file__).parent / "claims"
    rows = [int(row) for file in folder.glob("f[0-9][0-9]_*.py") for row in re.findall(r"f(\d\d)_", file.name)]
    assert sorted(rows) == list(range(1, 18))


@pytest.mark.parametrize("name", CLAIMS)
def test_a_measurement_gives_finite_numbers_and_a_verdict(name: str, setup: Setup, tmp_path: Path):
    result = run_claim(CLAIMS[name], setup)
    found = numbers_in(result.numbers)
    assert found
    assert all(isfinite(number) for number in found)
    assert result.findings
    figure = result.save(tmp_path)
    assert figure.read_bytes().startswith(b"\x89PNG")
    again = stored_results(tmp_path)[0]
    assert (again.numbers, again.verdict, again.headline) == (result.numbers, result.verdict, result.headline)


@pytest.mark.parametrize("name", ["f2", "f4", "f6", "f17"])
def test_the_same_seed_gives_the_same_numbers(name: str, setup: Setup):
    assert run_claim(CLAIMS[name], setup).numbers == run_claim(CLAIMS[name], setup).numbers


@pytest.mark.parametrize("name", CLAIMS)
def test_constructed_numbers_can_be_drawn(name: str, tmp_path: Path):
    Result(CLAIMS[name], HOLDS[name], 1.0).draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_page_names_every_stored_claim(tmp_path: Path):
    for name, numbers in HOLDS.items():
        Result(CLAIMS[name], numbers, 1.0, quick=name == "f3").save(tmp_path)
    text = write_page(tmp_path).read_text(encoding="utf-8")
    assert "Of 17 claims: 17 hold." in text
    assert all(f"## {name.upper()}: " in text for name in CLAIMS)
    assert all((tmp_path / picture).is_file() for picture in re.findall(r"\]\((images/\S+)\)", text))
    assert text.count("quick mode") == 1


def test_names_may_be_written_as_in_the_lectures():
    assert [claim.name for claim in select_claims(["F02", "f17"])] == ["f2", "f17"]
    assert len(select_claims()) == 17


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown claim 'g17'; did you mean 'f17'\?"):
        select_claims(["g17"])


def test_stored_numbers_are_judged_and_drawn_anew(tmp_path: Path):
    api.claims(["f6"], out=tmp_path, quick=True)
    (tmp_path / FIGURES / "f6.png").unlink()
    results = api.claims(["f6"], out=tmp_path, stored=True)
    assert [result.claim.name for result in results] == ["f6"]
    assert (tmp_path / FIGURES / "f6.png").is_file()


def test_nothing_stored_is_a_sentence(tmp_path: Path):
    with pytest.raises(RunError, match="regard claims --out"):
        api.claims(out=tmp_path, stored=True)


def test_a_damaged_measurement_is_named(tmp_path: Path):
    file = tmp_path / MEASUREMENTS / "f1.json"
    file.parent.mkdir(parents=True)
    file.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"f1\.json: expected what"):
        stored_results(tmp_path)


def test_the_shipped_page_is_what_the_shipped_numbers_give(tmp_path: Path):
    docs = Path(regard.__file__).parents[2] / "docs"
    shipped = (docs / "claims.md").read_text(encoding="utf-8")
    results = stored_results(docs)
    assert [result.claim.name for result in results] == list(CLAIMS)
    assert all(result.headline in shipped for result in results)
    assert not any(result.quick for result in results)
    for result in results:
        tree = json.loads((docs / MEASUREMENTS / f"{result.claim.name}.json").read_text(encoding="utf-8"))
        assert tree["verdict"] == result.verdict
