"""Lines of several sentences on the command line: split, translated and joined alike by both engines."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.data.sources import SourceConfig
from regard.decode import BeamConfig
from regard.errors import RunError
from regard.files.run_folder import SENTENCES_FILE
from regard.run import Run
from regard.run.recipe import resolve_recipe
from regard.text.splitting import SourceStatistics, Splitting

CORPUS = Path(__file__).parents[1] / "run" / "golden_corpus" / "train.tsv"
LINES = [
    "The dog sleeps. The cat sees it.",
    "",
    "  Peter needs twenty-one eggs.  Why does Anna sleep?\tShe is tired! ",
    "Anna threw away the old chair.",
]
ENGINES = ["torch", *(["ctranslate2"] if find_spec("ctranslate2") else [])]


class Silent(api.Watcher):
    """Says nothing."""


def trained(out: Path, train: dict[str, object]) -> Run:
    tree = {
        "task": "translation",
        "data": {"train": train, "max_length": 30},
        "tokenizer": {"kind": "word"},
        "model": {"kind": "encoder-decoder", "width": 16, "depth": 1, "heads": 2},
        "search": {"kind": "greedy", "max_length": 7, "min_length": 3},
        "train": {"steps": 30, "tokens_per_batch": 256, "precision": "float32", "compile": "off", "device": "cpu",
                  "schedule": {"kind": "constant", "lr": 1e-2}},
    }  # fmt: skip
    return api.train(resolve_recipe(tree), out=out, watcher=Silent())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("sentences") / "run", {"file": str(CORPUS), "source": 0, "target": 1})


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def translate(run: Run, file: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["translate", str(run.folder), str(file), "--device", "cpu", *more])


def alone(run: Run, search: BeamConfig | None = None) -> list[str]:
    """What the lines must become: the translation of each sentence on its own, where the sentence stood."""
    said = lambda text: run.translate([text], search, split=False)[0][0].text  # noqa: E731
    return [
        f"{said('The dog sleeps.')} {said('The cat sees it.')}",
        "",
        f"  {said('Peter needs twenty-one eggs.')}  {said('Why does Anna sleep?')}\t{said('She is tired!')} ",
        said("Anna threw away the old chair."),
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_sentence_is_translated_and_stands_where_it_stood(run: Run, file: Path, engine: str):
    done = translate(run, file, "--engine", engine)
    assert done.exit_code == 0, done.output
    assert done.stdout.split("\n")[:-1] == alone(run)
    assert len(set(alone(run)[2].split("  "))) > 1, "a model that always writes the same would prove nothing"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_line_is_one_input_where_that_is_asked_for(run: Run, file: Path, engine: str):
    whole = [row[0].text for row in run.translate(LINES, split=False)]
    assert whole != alone(run)
    assert translate(run, file, "--engine", engine, "--no-split").stdout.split("\n")[:-1] == whole
    assert api.translate(run, LINES, split=False) == whole
    assert api.translate(run, LINES) == alone(run)


@pytest.mark.parametrize("engine", ENGINES)
def test_json_has_one_object_a_line_and_the_sentences_inside(run: Run, file: Path, engine: str):
    rows = [json.loads(line) for line in translate(run, file, "--engine", engine, "--json").stdout.splitlines()]
    assert [row["source"] for row in rows] == LINES
    assert [row["outputs"][0]["text"] for row in rows] == alone(run)
    several = rows[2]["outputs"][0]
    assert [part["source"] for part in several["sentences"]] == [
        "Peter needs twenty-one eggs.", "Why does Anna sleep?", "She is tired!",
    ]  # fmt: skip
    assert several["score"] == pytest.approx(sum(part["score"] for part in several["sentences"]))
    assert len(several["token_logprobs"]) >= len(several["tokens"])
    assert "sentences" not in rows[3]["outputs"][0]


def test_n_best_are_those_of_the_whole_line_best_first(run: Run, file: Path):
    found = translate(run, file, "--engine", "torch", "--nbest", "3", "--json").stdout.splitlines()
    for line, row in zip(
        alone(run, BeamConfig(size=5, max_length=7, min_length=3)), map(json.loads, found), strict=True
    ):
        scores = [output["score"] for output in row["outputs"] if output["finished"]]
        assert scores == sorted(scores, reverse=True)
        assert row["outputs"][0]["text"] == line
        assert len({output["text"] for output in row["outputs"]}) == len(row["outputs"]) == (3 if line else 1)


def test_an_ensemble_and_unknown_words_are_split_too(run: Run, file: Path):
    assert translate(run, file, "--ensemble", str(run.folder)).stdout.split("\n")[:-1] == alone(run)
    replaced = translate(run, file, "--unknown", "replace").stdout.split("\n")[:-1]
    assert replaced == alone(run.but(unknown="replace"))


@pytest.mark.parametrize("engine", ENGINES)
def test_parts_are_split_alike_and_a_folder_is_of_one_kind(run: Run, file: Path, engine: str, tmp_path: Path):
    words = ["--engine", engine, "--out", str(tmp_path / "parts"), "--lines-per-part", "3"]
    assert translate(run, file, *words).exit_code == 0
    written = "".join(part.read_text() for part in sorted((tmp_path / "parts").glob("part-*.txt")))
    assert written.split("\n")[:-1] == alone(run)
    refused = translate(run, file, *words, "--no-split").exception
    assert isinstance(refused, RunError)
    assert "was begun with another split" in str(refused)


def test_a_sentence_that_is_too_long_is_named_by_its_line_and_the_others_are_translated(run: Run, tmp_path: Path):
    long = f"The {'old ' * 40}dog sleeps."
    (tmp_path / "long.txt").write_text(f"The dog sleeps.\nThe cat sees it. {long} She is tired!\n")
    done = translate(run, tmp_path / "long.txt", "--engine", "torch", "--overlong", "skip")
    said = [run.translate([text], split=False)[0][0].text for text in ("The cat sees it.", "She is tired!")]
    assert done.stdout.split("\n")[1] == "  ".join(said)
    assert f"{tmp_path / 'long.txt'}:2: a sentence of 44 tokens, the model takes at most 30; left blank" in done.stderr


def test_test_sets_are_scored_line_by_line(run: Run, tmp_path: Path):
    (tmp_path / "a.en").write_text("".join(f"{line}\n" for line in LINES if line))
    (tmp_path / "a.de").write_text("Der Hund schläft.\n" * 3)
    source = SourceConfig(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.de"))
    whole = [row[0].text for row in run.translate([line for line in LINES if line], split=False)]
    assert api.evaluate(run, source).details["written"] == whole


def test_a_run_that_was_trained_on_paragraphs_translates_paragraphs(tmp_path: Path):
    rows = [f"The dog sleeps. The cat sees it {number}.\tDer Hund schläft. Die Katze sieht es." for number in range(40)]
    (tmp_path / "pairs.tsv").write_text("en\tde\n" + "\n".join(rows) + "\n")
    run = trained(tmp_path / "run", {"file": str(tmp_path / "pairs.tsv"), "source": "en", "target": "de"})
    assert SourceStatistics.load(run.folder / SENTENCES_FILE) == SourceStatistics(37, 1.0, 0.0, "en"), (
        "of 40, 3 are held out"
    )
    assert run.splitting == Splitting("line", "en")
    texts = ["The cat sees it 3. The dog sleeps.", "The dog sleeps.\nThe cat sees it 3. The dog sleeps."]
    whole = [row[0].text for row in run.translate([texts[0], "The dog sleeps."], split=False)]
    assert api.translate(run, texts) == [whole[0], f"{whole[1]}\n{whole[0]}"]
    (tmp_path / "one.txt").write_text(f"{texts[0]}\n")
    assert translate(run, tmp_path / "one.txt").stdout == f"{whole[0]}\n"


def test_a_run_that_was_trained_before_sources_were_measured_is_split(run: Run, file: Path, tmp_path: Path):
    older = shutil.copytree(run.folder, tmp_path / "older", symlinks=True)
    (older / SENTENCES_FILE).unlink()
    assert api.translate(older, LINES) == alone(run)
    (older / SENTENCES_FILE).write_text("{")
    done = CliRunner().invoke(app, ["translate", str(older), str(file), "--engine", "torch"])
    assert "sentences.json: expected what was measured of the training sources" in str(done.exception)
