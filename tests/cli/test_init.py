"""`regard init`: what it writes passes the checks and trains; what it prints says what to do next."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard import api
from regard.cli import app, main
from regard.run import read_recipe

REVIEWS = [
    (f"{'AOSW'[number % 4]} film of {number} hours, quite {'fun' if number % 2 else 'dull'}.", number % 2)
    for number in range(24)
]
THE = "1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_\n"
WORDS = ["dog", "cat", "bird", "cow"]
SMALL = [
    "model.width=16",
    "model.depth=1",
    "model.heads=2",
    "tokenizer.kind=char",
    "train.steps=2",
    "train.save_every=2",
]


def written(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")


def invoke(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.stdout


def sentence(*words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", ["regard", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    return capsys.readouterr().err


CASES = {
    "translation": (
        {"eigene Dateien/train.en": "".join(f"{w} {n}\n" for n in range(9) for w in WORDS),
         "eigene Dateien/train.de": "".join(f"{n} {w}\n" for n in range(9) for w in WORDS)},
        ["eigene Dateien/train.en", "eigene Dateien/train.de"], [],
    ),
    "classification": (
        {"daten.csv": "\ufefftext;label\r\n" + "".join(f'"{text}";{label}\r\n' for text, label in REVIEWS)},
        ["daten.csv"], ["model.kind=encoder"],
    ),
    "language_model": ({"story.txt": "The dog sleeps.\n" * 40}, ["story.txt"], ["model.kind=decoder"]),
    "tagging": (
        {"d/x-train.conllu": "".join(f"{THE}2\t{w}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n" for w in WORDS)},
        ["d"], ["model.kind=encoder"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("task", CASES)
def test_what_is_written_passes_the_checks_and_trains(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files, names, settings = CASES[task]
    monkeypatch.chdir(tmp_path)
    written(tmp_path, files)
    (tmp_path / "recipes").mkdir()
    said = invoke("init", *names, "--out", "recipes/my own.toml")
    assert f"task: {task}" in said
    assert said.splitlines()[-1] == "next: regard train 'recipes/my own.toml' --out 'runs/my own'"
    assert "../" in (tmp_path / "recipes" / "my own.toml").read_text(encoding="utf-8")
    assert f'kind = "{task}"' in invoke("config", "--check", "recipes/my own.toml")
    assert "train: " in invoke("data", "check", "recipes/my own.toml")
    run = api.train(tmp_path / "recipes" / "my own.toml", *SMALL, *settings, out=tmp_path / "run")
    assert run.recipe.task.kind == task


def test_all_that_is_commented_out_can_be_set(tmp_path: Path):
    written(tmp_path, {"a.en": "a b\nc d\n", "a.de": "b a\nd c\n"})
    invoke("init", str(tmp_path / "a.en"), str(tmp_path / "a.de"), "--out", str(tmp_path / "mine.toml"))
    text = (tmp_path / "mine.toml").read_text(encoding="utf-8")
    plain, _, rest = text.partition("# [tokenizer]")
    settings = "".join(line.removeprefix("# ") for line in f"# [tokenizer]{rest}".splitlines(keepends=True))
    (tmp_path / "set.toml").write_text(plain + settings, encoding="utf-8")
    recipe = read_recipe(tmp_path / "set.toml")
    assert (recipe.tokenizer.size, recipe.model.width, recipe.train.minutes, recipe.train.schedule.kind) == (
        8000,
        256,
        10,
        "cosine",
    )


def test_nothing_is_overwritten_unless_forced(tmp_path: Path, capsys, monkeypatch):
    written(tmp_path, {"a.txt": "A story.\nIt ends.\n", "mine.toml": "# my work"})
    monkeypatch.chdir(tmp_path)
    assert "mine.toml: exists already" in sentence("init", "a.txt", capsys=capsys, monkeypatch=monkeypatch)
    assert (tmp_path / "mine.toml").read_text() == "# my work"
    invoke("init", "a.txt", "--force")
    assert 'task = "language_model"' in (tmp_path / "mine.toml").read_text()


def test_a_bad_file_costs_no_recipe(tmp_path: Path, capsys, monkeypatch):
    written(tmp_path, {"a.en": "a\nb\n", "a.de": "a\n"})
    monkeypatch.chdir(tmp_path)
    said = sentence("init", "a.en", "a.de", capsys=capsys, monkeypatch=monkeypatch)
    assert said == "regard: a.en:2: no partner for this line: a.de has 1 lines, a.en has 2\n"
    assert not (tmp_path / "mine.toml").exists()


@pytest.mark.parametrize("content", ["", "\ufeff", "\n\n \n\t\n", "\ufeff\r\n\r\n"])
def test_a_file_without_text_is_refused_before_a_recipe_is_written(content: str, tmp_path: Path, capsys, monkeypatch):
    (tmp_path / "a.txt").write_bytes(content.encode())
    monkeypatch.chdir(tmp_path)
    assert sentence("init", "a.txt", capsys=capsys, monkeypatch=monkeypatch) == "regard: a.txt: no examples\n"
    assert not (tmp_path / "mine.toml").exists()


def test_init_says_how_long_training_will_take(tmp_path: Path):
    written(tmp_path, {"a.txt": "A story.\nIt ends.\n"})
    done = subprocess.run(
        [sys.executable, "-m", "regard", "init", "a.txt"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "on this machine; train.minutes=… changes it; why: regard config --check mine.toml" in done.stdout
    assert "next: regard train mine.toml" in done.stdout
