"""Whether inputs are split follows from what a run was trained on."""

from pathlib import Path

import pytest

from regard.errors import DataError
from regard.files.run_folder import SENTENCES_FILE
from regard.tasks.base import TaskConfig
from regard.text.splitting import MAX_MEASURED, TASK, SourceStatistics, Splitting, load_splitting, measure_sources

SENTENCES = ["The dog sleeps.", "Dr. Smith has 3.14 dogs.", "A man rides a bike.", "Two. Three."] * 5
PARAGRAPHS = ["The dog sleeps. The cat eats. It is late."] * 9 + ["One sentence."]
DOCUMENTS = ["A title\n\nThe dog sleeps. The cat eats.\n"] * 10
LISTOPS = ["[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 2 ] ]"] * 10
TREES = ["(S (NP (PRP I)) (VP (VBP am)) (. .))"] * 10
TABLES = ["name : A. B. Smith | born : 3 . 5 . 1950 | team : U.S. Lecce | notes : Plays well. Scores."] * 10


@pytest.mark.parametrize(
    ("sources", "unit"),
    [
        (SENTENCES, "sentence"),
        (PARAGRAPHS, "line"),
        (DOCUMENTS, None),
        (LISTOPS, "sentence"),  # in which no sentence ends, so that none of them is divided
        (TREES, "sentence"),
        (TABLES, "line"),
        ([], "sentence"),
    ],
)
def test_inputs_are_split_as_training_sources_are(sources: list[str], unit: str | None):
    splitting = measure_sources(sources, "en").splitting
    assert splitting == (None if unit is None else Splitting(unit, "en"))  # type: ignore[arg-type]
    if sources not in (SENTENCES, DOCUMENTS) and splitting is not None:
        assert all(splitting.spans(source) == [(0, len(source))] for source in sources), "what was one input is one"


def test_lines_are_inputs_without_the_white_space_around_them():
    text = "  One. Two. \n\n\tThree. \r\n "
    assert [text[start:end] for start, end in Splitting("line").spans(text)] == ["One. Two.", "Three."]
    assert [text[start:end] for start, end in Splitting().spans(text)] == ["One.", "Two.", "Three."]


def test_a_few_of_many_sources_are_measured_and_blank_ones_are_not():
    many = measure_sources((f"{number} dogs." for number in range(3 * MAX_MEASURED)), None)
    assert MAX_MEASURED // 2 <= many.examples <= MAX_MEASURED
    assert measure_sources(["", " ", "A. B."], None) == SourceStatistics(1, 0.0, 0.0)
    assert measure_sources(["", " ", "Dogs bark. Cats do not."], None) == SourceStatistics(1, 1.0, 0.0)


def test_what_was_measured_is_kept_with_the_run(tmp_path: Path):
    measured = measure_sources(PARAGRAPHS, "de")
    measured.save(tmp_path)
    assert SourceStatistics.load(tmp_path / SENTENCES_FILE) == measured
    assert load_splitting(tmp_path) == Splitting("line", "de")
    for wrong in ("[]", "{", '{"several": 1}', '{"examples": 1, "several": "x", "line_breaks": 0}'):
        (tmp_path / SENTENCES_FILE).write_text(wrong)
        with pytest.raises(DataError, match=r"sentences.json: expected what was measured of the training sources"):
            load_splitting(tmp_path)


@pytest.mark.parametrize(
    ("recipe", "splitting"),
    [
        ('task = "translation"', Splitting()),
        ('[task]\nkind = "translation"', Splitting()),
        ("seed = 1", Splitting()),
        ('task = "summarisation"', None),
        ('[task]\nkind = "image_description"', None),
    ],
)
def test_of_older_runs_translators_split_into_sentences(tmp_path: Path, recipe: str, splitting: Splitting | None):
    (tmp_path / "recipe.toml").write_text(recipe)
    assert load_splitting(tmp_path) == splitting


def test_the_task_whose_inputs_are_split_is_known_without_loading_any():
    split = [kind for kind in TaskConfig.__subclasses__() if kind.splits_inputs]
    assert [kind.model_fields["kind"].default for kind in split] == [TASK]
