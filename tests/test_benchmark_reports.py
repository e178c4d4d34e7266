"""The documents' tables from stored measurements: whole, in part, and none at all."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
NAMES = ("results", "parts", "documents_report", "beyond_report", "long_tasks_report")
MACHINE = {"gpu": None, "cpu": "x", "cores": 2, "python": "3.11", "torch": "2.13.0"}
TRAINING = {"step": 10, "epoch": 1.0, "tokens": 100, "flops": 1e9, "seconds": 60.0, "loss": 1.0}
SYSTEM = {
    "name": "aeslc", "system": "T-D", "seed": 1, "command": "python benchmarks/documents.py train aeslc --systems T-D",
    "input_tokens": 500, "parameters": 7_000_000, "split": "test", "examples": 12,
    "metrics": {"cut": 0.1, "perplexity": 55.5, "rouge_1": 10.0, "rouge_2": 2.0, "rouge_l": 9.25},
    "signatures": {"rouge_l": "stem:yes"}, **TRAINING, "gib": 1.5, "machine": MACHINE,
}  # fmt: skip
LONG = {
    "task": "listops", "kind": "bigbird", "seed": 1, "command": "regard train recipes/listops.toml",
    "accuracy": {"valid": 0.4, "test": 0.375}, "majority": 0.115, "examples": {"valid": 8, "test": 8},
    "parameters": 4_700_000, "gib": None, "minutes": 1.0, "training": TRAINING, "machine": MACHINE,
}  # fmt: skip
MARKS = "Before.\n<!-- tasks: begin -->\nold\n<!-- tasks: end -->\nAfter.\n"


@pytest.fixture(scope="module")
def reports() -> Iterator[SimpleNamespace]:
    """The modules under benchmarks/, which find one another by their folder."""
    sys.path.insert(0, str(BENCHMARKS))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})
    sys.path.remove(str(BENCHMARKS))
    for name in NAMES:
        sys.modules.pop(name, None)


@given(right=st.lists(st.booleans(), max_size=40))
def test_answers_are_packed_without_loss(reports: SimpleNamespace, right: list[bool]):
    assert reports.parts.unpack_answers(reports.parts.pack_answers(right)) == right


def test_what_is_not_measured_leaves_a_sentence(reports: SimpleNamespace, tmp_path: Path):
    text = reports.beyond_report.sections(tmp_path)
    assert text.count("Not measured yet") == 4
    assert "Not measured yet" in reports.long_tasks_report.tables(tmp_path)


def test_one_system_of_one_set_makes_a_row(reports: SimpleNamespace, tmp_path: Path):
    reports.parts.store(tmp_path / "aeslc-t-d.json", SYSTEM)
    text = reports.documents_report.sections(tmp_path)
    assert "| T-D | 500 | 10% | 7.0 M | 55.50 | 10.00 | 2.00 | 9.25 | 1.00e+09 | 10 | 1.50 | 1.0 |" in text
    assert text.count("Not measured yet") == 3  # two sets and memory
    assert SYSTEM["command"] in text


def test_one_classifier_makes_a_table_between_the_marks(reports: SimpleNamespace, tmp_path: Path):
    document = tmp_path / "long.md"
    document.write_text(MARKS, encoding="utf-8")
    reports.parts.store(tmp_path / "parts" / "listops-bigbird-seed1.json", LONG)
    reports.long_tasks_report.write_table(tmp_path / "parts", document)
    text = document.read_text(encoding="utf-8")
    assert text.startswith("Before.\n<!-- tasks: begin -->\n")
    assert text.endswith("<!-- tasks: end -->\nAfter.\n")
    assert "| bigbird | **37.5%** | 40.0% | 4.70 M | – | – | – |" in text
    assert "11.5% of them of the most frequent class" in text
    assert "Not trained yet: full, window, linformer." in text


def test_a_document_without_marks_is_left_alone(reports: SimpleNamespace, tmp_path: Path):
    document = tmp_path / "long.md"
    document.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="expected the marks"):
        reports.parts.replace_between(document, "<a>", "<b>", "text")


def test_a_gain_is_told_with_its_p(reports: SimpleNamespace):
    def run(system: str, seed: int, right: list[bool]) -> dict:
        accuracy = sum(right) / len(right)
        answers = reports.parts.pack_answers(right)
        return {
            "system": system, "seed": seed, "command": f"classify {system}", "accuracy": {"test": accuracy},
            "examples": len(right), "right": answers, "machine": MACHINE,
        }  # fmt: skip

    runs = [run("scratch", seed, [True] * 10 + [False] * 10) for seed in (1, 2, 3)]
    runs += [run("masked", seed, [True] * 18 + [False] * 2) for seed in (1, 2, 3)]
    text = reports.beyond_report.pretraining({str(number): part for number, part in enumerate(runs)})
    assert "| 0.9000, 0.9000, 0.9000 | **0.9000** | 0.0000 | +0.4000 | < 0.0001 |" in text
    assert "| the same model from scratch | 0.5000, 0.5000, 0.5000 | **0.5000** | 0.0000 | – | – |" in text
