"""Every option of every verb acts, or is refused where it would not; a new one must be entered here."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from regard import api
from regard.cli import app
from regard.errors import RegardError
from regard.run import Recipe
from regard.run.recipe import resolve_recipe
from regard.web.engine import RunEngine, engine_for

TINY = {"width": 16, "depth": 1, "heads": 2, "dropout": 0.0}
TRAIN = {"steps": 30, "tokens_per_batch": 256, "save_every": 15, "keep": 5, "precision": "float32", "compile": "off",
         "schedule": {"kind": "constant", "lr": 1e-2}}  # fmt: skip
SOURCE = "The dog sees Anna .\n"


class Silent(api.Watcher):
    """Says nothing."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three tasks, and files beside them."""
    folder = tmp_path_factory.mktemp("options")
    (folder / "text.txt").write_text("".join(f"the {one} sees the {two}\n" for one in ANIMALS for two in ANIMALS) * 4)
    (folder / "films.tsv").write_text("".join(f"a {word} film\t{label}\n" for word, label in FILMS) * 20)
    (folder / "line.txt").write_text(SOURCE)
    unit = f'<tu><tuv xml:lang="en"><seg>{SOURCE}</seg></tuv></tu>'
    (folder / "one.tmx").write_text(f'<tmx version="1.4"><header srclang="en"/><body>{unit}</body></tmx>\n')
    (folder / "words.tsv").write_text("Anna\tXXX\n.\tYYY\ndog\tZZZ\nsees\tWWW\nThe\tVVV\n")
    recipes: dict[str, dict[str, Any]] = {
        "pairs": {
            "data": {"train": {"street": "train", "limit": 200}, "valid": {"street": "valid", "limit": 12}},
            "tokenizer": {"kind": "word", "size": 24},
            "model": {"kind": "encoder-decoder", **TINY},
            "search": {"kind": "beam", "size": 2, "max_length": 8},
        },
        "text": {
            "task": "language_model",
            "data": {"train": {"file": "text.txt"}, "batching": {"kind": "stream", "context": 32}},
            "tokenizer": "char",
            "model": {"kind": "decoder", **TINY},
            "search": {"kind": "sample", "max_length": 12},
        },
        "films": {
            "task": "classification",
            "data": {"train": {"file": "films.tsv", "text": 0, "label": 1}},
            "tokenizer": "word",
            "model": {"kind": "encoder", **TINY},
        },
    }
    recipes["greedy"] = {**recipes["text"], "search": {"kind": "greedy", "max_length": 12}}
    for name, tree in recipes.items():
        tree["data"] = {**tree["data"], "folder": str(folder)}
        api.train(resolve_recipe({**tree, "train": TRAIN}), out=folder / name, watcher=Silent())
    return folder


ANIMALS = ["dog", "cat", "cow", "hen", "fox"]
FILMS = [("good", "yes"), ("great", "yes"), ("bad", "no"), ("dull", "no")]


def done(place: Path, words: str) -> str:
    """What a command prints, and the files that it makes in the folder NEW."""
    new = place / "new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    line = [word.replace("NEW", str(new)).replace("AT", str(place)) for word in words.split()]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, (words, result.output, result.exception)
    files = sorted(file for file in new.rglob("*") if file.is_file() and not file.name.startswith("."))
    made = "".join(f"{file.relative_to(new)}\n{file.read_bytes()!r}" for file in files)
    return re.sub(r"in \d+\.\d+ s|\"seconds\": [\d.]+", "", result.stdout) + made


TRANSLATE = "translate AT/pairs AT/line.txt --engine torch --json"
GENERATE = "generate AT/text AT/line.txt --engine torch"
EVALUATE = "evaluate AT/pairs --data valid --json"
EXPORT = "export AT/pairs --to ctranslate2 --out NEW/out"
LOOK = "look AT/text the --out NEW/page"
DOCUMENT = "translate AT/pairs AT/one.tmx --engine torch"
PARTS = "translate AT/pairs AT/line.txt --engine torch --out NEW"

ACTS = {
    "evaluate --data": ("evaluate AT/films --data train --json", "evaluate AT/films --data valid --json"),
    "evaluate --search": (EVALUATE, f"{EVALUATE} --search {{max_length=1}}"),
    "evaluate --unknown": (EVALUATE, f"{EVALUATE} --unknown replace"),
    "evaluate --dictionary": (f"{EVALUATE} --unknown replace", f"{EVALUATE} --dictionary AT/words.tsv"),
    "evaluate --which": (EVALUATE, f"{EVALUATE} --which step-15"),
    "evaluate --json": ("evaluate AT/pairs --data valid", EVALUATE),
    "evaluate --out": ("evaluate AT/pairs --data valid", "evaluate AT/pairs --data valid --out NEW"),
    "translate --beam": (TRANSLATE, f"{TRANSLATE} --beam 1"),
    "translate --nbest": (TRANSLATE, f"{TRANSLATE} --nbest 3"),
    "translate --unknown": (TRANSLATE, f"{TRANSLATE} --unknown replace"),
    "translate --dictionary": (f"{TRANSLATE} --unknown replace", f"{TRANSLATE} --dictionary AT/words.tsv"),
    "translate --json": (TRANSLATE.removesuffix("--json"), TRANSLATE),
    "translate --out": (PARTS.removesuffix("--out NEW"), PARTS),
    "translate --format": (PARTS, f"{PARTS} --format json"),
    "translate --languages": (DOCUMENT, f"{DOCUMENT} --languages en-fr"),
    "translate --lines-per-part": (PARTS, f"{PARTS} --lines-per-part 7"),
    "generate --length": (GENERATE, f"{GENERATE} --length 3"),
    "generate --temperature": (GENERATE, f"{GENERATE} --temperature 0"),
    "generate --top-k": (GENERATE, f"{GENERATE} --top-k 1"),
    "generate --top-p": (GENERATE, f"{GENERATE} --top-p 0.01"),
    "generate --min-p": (GENERATE, f"{GENERATE} --min-p 1"),
    "generate --seed": (GENERATE, f"{GENERATE} --seed 7"),
    "generate --json": (GENERATE, f"{GENERATE} --json"),
    "classify --json": ("classify AT/films AT/line.txt", "classify AT/films AT/line.txt --json"),
    "look --target": (LOOK, f"{LOOK} --target dog"),
    "look --against": (LOOK, f"{LOOK} --against AT/greedy"),
    "look --out": ("look --pattern --out NEW/a.png", "look --pattern --out NEW/b.png"),
    "look --pattern": (LOOK, f"{LOOK} --pattern"),
    "look --which": (LOOK, f"{LOOK} --which step-15"),
    "export --int8": (EXPORT, f"{EXPORT} --int8"),
    "export --data": (EXPORT, f"{EXPORT} --data train"),
    "export --examples": (EXPORT, f"{EXPORT} --examples 2"),
    "export --which": (EXPORT, f"{EXPORT} --which step-15"),
    "export --json": (EXPORT, f"{EXPORT} --json"),
    "export --out": (EXPORT, f"{EXPORT}/inner"),
    "config --explain": ("config", "config --explain search"),
    "config --check": ("config", "config --check AT/films/recipe.toml"),
    "config --schema": ("config", "config --schema"),
    "config --json": ("config --explain search", "config --explain search --json"),
    "data check --json": ("data check AT/line.txt", "data check AT/line.txt --json"),
    "train --out": ("config", "train AT/films/recipe.toml train.steps=1 train.save_every=1 --out NEW/run"),
}
"""Two commands that differ in the option; what they print or write must differ."""

PROVED = {
    " --version": "test_version",
    " --plugin": "test_a_named_plugin_opens_the_run",
    " --install-completion": "test_the_shell_completes_names_and_settings_without_torch",
    " --show-completion": "test_the_shell_completes_names_and_settings_without_torch",
    "init --force": "test_nothing_is_overwritten_unless_forced",
    "init --out": "test_nothing_is_overwritten_unless_forced",
    **dict.fromkeys(
        (f"init --{name}" for name in ("label", "source", "target", "task", "text")), "test_columns_that_are_asked_for"
    ),
    "recipes --copy": "test_all_can_be_copied_and_nothing_is_overwritten",
    "translate --no-split": "test_a_line_is_one_input_where_that_is_asked_for",
    "train --resume": "test_stopped_and_resumed_equals_undisturbed_to_the_bit",
    "train --data-changed": "test_changed_data_is_named_and_accepted_only_with_the_flag",
    "train --skip-bad": "test_skip_bad_goes_on_counts_and_changes_no_weight_on_the_way",
    "evaluate --ensemble": "test_an_ensemble_of_different_kinds",
    "evaluate --overlong": "test_the_command_line_counts_and_names_them",
    "translate --ensemble": "test_an_ensemble_of_different_kinds",
    "translate --engine": "test_the_command_line_writes_the_same_with_both_engines",
    "translate --int8": "test_int8_is_another_folder",
    "translate --overlong": "test_an_over_long_line_of_standard_input_is_named_by_its_own_number",
    "generate --engine": "test_generating_draws_with_torch_unless_asked_otherwise",
    "generate --int8": "test_int8_is_another_folder",
    "generate --stream": "test_a_stream_that_cannot_be_is_refused",
    "classify --overlong": "test_an_over_long_line_of_a_file_is_named_by_its_own_number",
    "compare --seeds": "test_seeds_that_disagree_get_no_star",
    "compare --out": "test_the_folder_holds_table_and_picture",
    "compare --budget": "test_another_budget_wants_another_folder",
    "compare --tune": "test_tuning_takes_the_rate_with_the_lowest_validation_loss",
    "compare --scaling": "test_the_verb",
    "compare --json": "test_the_verb",
    "claims --out": "test_a_table_for_people",
    "claims --run": "test_what_does_nothing_is_refused",
    "claims --seed": "test_the_same_seed_gives_the_same_numbers",
    "claims --stored": "test_stored_numbers_are_judged_and_drawn_anew",
    "claims --quick": "test_a_table_for_people",
    "claims --json": "test_one_claim_as_json",
    "serve --port": "test_a_port_that_is_taken_is_said",
    "serve --host": "test_other_addresses_need_a_key",
    "serve --api-key": "test_every_route_but_health_asks_for_the_key",
    "serve --languages": "test_languages_that_are_said",
    "serve --queue": "test_a_full_queue_refuses_and_those_who_left_make_room",
    "serve --batch-tokens": "test_a_batch_keeps_to_its_budget_padding_counted",
    "serve --engine": "test_the_server_translates_by_it_and_goes_on_without_it",
    "serve --int8": "test_a_server_of_other_tasks_refuses_the_engine_of_translations",
    "export --to": "test_int8_leaves_the_model_as_it_was_and_is_measured",
    "bench --rounds": "test_programs_are_measured_in_turns_and_failures_are_rows",
    "bench --peers": "test_the_verb_translates_beside_a_peer_in_miniature",
    "bench --only": "test_bench_knows_its_programs",
    "bench --quick": "test_the_verb_trains_in_miniature",
    "bench --out": "test_what_is_measured_is_kept_after_each_work",
    "bench --json": "test_the_verb_trains_in_miniature",
    "demo --words": "test_the_demo_lists_its_words",
    "demo --out": "test_the_demo_replaces_runs_and_nothing_else",
    "import --out": "test_in_used_tuned_and_out_again",
    **dict.fromkeys(
        (f"{verb} --device" for verb in ("evaluate", "translate", "generate", "classify", "look", "serve", "bench")),
        "test_devices_that_are_not_there",
    ),
}
"""The test that proves of an option that it acts."""

REFUSED = {
    "translate AT/pairs --nbest 9 --beam 3 --engine torch": "--nbest: expected at most the beam's size (3), got 9",
    "translate AT/pairs AT/line.txt --languages en-de": "--languages: only documents (.po, .xliff, .tmx",
    "translate AT/pairs AT/one.tmx --json": "--json: is about lines, and",
    "translate AT/pairs --format json": "--format: says how parts are written into a folder; give --out too",
    "translate AT/pairs --lines-per-part 9": "--lines-per-part: says how parts are written",
    "translate AT/pairs AT/line.txt --out NEW --json --format parquet": "--json: asks for parts of JSON, and --format",
    "translate AT/pairs --unknown keep --dictionary AT/words.tsv": "--dictionary: it is used for --unknown replace",
    "translate AT/pairs --unknown maybe": "--unknown: expected keep or replace, got 'maybe'",
    "translate AT/pairs --engine torch --int8": "--int8: torch computes in floating point",
    "translate AT/pairs --engine ctranslate2 --unknown replace": "--engine: ctranslate2 cannot do this: --unk",
    "generate AT/greedy --seed 3 --engine torch": "--seed: nothing is drawn by greedy search; ask for sampling",
    "generate AT/greedy --seed 3 --engine ctranslate2": "--seed: nothing is drawn by greedy search",
    "generate AT/text --temperature 0 --top-k 3 --engine torch": "--top-k: nothing is drawn at temperature 0",
    "generate AT/text --stream --json": "--stream: ",
    "generate AT/text --stream --int8": "--engine: ctranslate2 cannot do this: --stream needs torch",
    "evaluate AT/text --overlong cut": "--overlong: this run reads its texts as one stream",
    "evaluate AT/text --search greedy": "--search: a run of task language_model is tested without generation",
    "evaluate AT/pairs --search {n_best=2}": "--search: one output of each input is scored; leave n_best out",
    "evaluate AT/films --unknown replace": "--unknown: only translations have unknown words",
    "evaluate AT/films --dictionary AT/words.tsv": "--dictionary: only translations have unknown words",
    "evaluate AT/films --ensemble AT/films": "ensemble: only translations are generated together",
    "evaluate AT/films --out NEW": "--out: only translations are scored in parts",
    "look --pattern --which last": "--which: without a run, --pattern shows the lecture's panels",
    "look --pattern --device cpu": "--device: without a run, --pattern shows the lecture's panels",
    "look --pattern --target x": "--target: without a run, --pattern shows the lecture's panels",
    "look AT/pairs x --pattern --against AT/pairs": "--against: --pattern shows one run",
    "export AT/pairs --to huggingface --int8": "--int8: only ctranslate2 folders hold int8 weights",
    "config --schema --explain search": "--schema: shows what every recipe may say",
    "config --schema search=greedy": "--schema: shows what every recipe may say",
    "config --explain search --check AT/films/recipe.toml": "--explain: shows what every recipe may say",
    "claims f7 --stored --seed 3": "--seed: nothing is measured with --stored",
    "claims f7 --stored --quick": "--quick: nothing is measured with --stored",
    "claims f7 --stored --run AT/pairs": "--run: nothing is measured with --stored",
    "claims f6 --quick --run AT/pairs": "--run: f6: none uses a trained run",
    "train AT/films/recipe.toml --data-changed": "--data-changed: says what a run that resumes accepts",
    "compare a.toml --scaling --tune": "--scaling: expected one ladder file",
    "compare a.toml --scaling --budget steps": "--scaling: expected one ladder file",
    "data check AT/films/recipe.toml AT/line.txt seed=3": "seed=3 is a setting of a recipe, and files are checked with",
    "serve AT/pairs AT/text --languages en-de": "--languages: several runs are served; say whose they are: pairs=en-de",
    "serve AT/pairs --languages en-de --languages en-fr": "--languages: 'pairs' is given twice",
    "serve AT/text --languages en-de --engine torch": "languages: 'text' is a run of language_model",
}
"""Combinations in which an option would do nothing, and what is said."""


COMMON = ("help", "quiet", "verbose")
"""Options of every verb, which `test_output` proves once for all."""


def options() -> Iterator[str]:
    def walk(command: Any, name: str) -> Iterator[str]:
        for verb, below in getattr(command, "commands", {}).items():
            yield from walk(below, f"{name} {verb}".strip())
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name not in COMMON:
                yield f"{name} {max(parameter.opts, key=len)}"

    yield from walk(typer.main.get_command(app), "")


def test_every_option_of_every_verb_is_proved_to_act():
    assert not ACTS.keys() & PROVED.keys()
    assert sorted(options()) == sorted([*ACTS, *PROVED])
    tests = "\n".join(file.read_text() for file in Path(__file__).parents[1].rglob("test_*.py"))
    missing = [name for name in PROVED.values() if f"def {name}(" not in tests]
    assert not missing


@pytest.mark.parametrize("option", list(ACTS))
def test_an_option_changes_what_comes_out(option: str, place: Path):
    if option.startswith("export"):
        pytest.importorskip("ctranslate2")
    without, with_it = ACTS[option]
    assert done(place, without) != done(place, with_it)


@pytest.mark.parametrize("words", list(REFUSED))
def test_what_does_nothing_is_refused(words: str, place: Path):
    if "ctranslate2" in words or "--int8" in words:
        pytest.importorskip("ctranslate2")
    line = [word.replace("NEW", str(place / "never")).replace("AT", str(place)) for word in words.split()]
    result = CliRunner().invoke(app, line, input=SOURCE)
    assert isinstance(result.exception, RegardError), result.output
    assert result.exception.exit_code == 2
    assert str(result.exception).startswith(REFUSED[words])
    assert not (place / "never").exists()


def test_generate_keeps_to_the_search_of_the_recipe(place: Path):
    greedy, sampled = (api.load(place / name, "cpu") for name in ("greedy", "text"))
    text = SOURCE.strip()
    assert done(place, "generate AT/greedy AT/line.txt --engine torch") == text + api.generate(greedy, text) + "\n"
    assert done(place, "generate AT/greedy AT/line.txt --engine auto") == text + api.generate(greedy, text) + "\n"
    assert done(place, "generate AT/text AT/line.txt --engine torch") == text + api.generate(sampled, text) + "\n"
    drawn = greedy.search_with({"temperature": 0.9, "seed": 4})
    assert (drawn.kind, drawn.max_length) == ("sample", 12)
    asked = "generate AT/greedy AT/line.txt --engine torch --temperature 0.9 --seed 4"
    assert done(place, asked) == text + api.generate(greedy, text, drawn) + "\n"


def test_a_stream_that_cannot_be_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch):
    assert done(place, f"{GENERATE} --stream") == done(place, GENERATE)
    for search, said in (
        ({"kind": "beam"}, "a beam search has its text"),
        ({"kind": "sample", "samples": 2}, "shows one"),
    ):
        usual = Recipe.from_tree({"search": search}).search
        monkeypatch.setattr(Recipe, "usual_search", usual)
        result = CliRunner().invoke(app, ["generate", str(place / "text"), "--engine", "torch", "--stream"], input="x")
        assert str(result.exception).startswith(f"--stream: {said}")


def test_all_samples_of_a_recipe_are_shown(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Recipe, "usual_search", Recipe.from_tree({"search": {"kind": "sample", "samples": 3}}).search)
    assert done(place, GENERATE).count(SOURCE.strip()) == 3


def test_a_task_that_replaces_unknown_words_is_torchs(place: Path):
    pytest.importorskip("ctranslate2")
    run = place / "replacing"
    shutil.copytree(place / "pairs", run, symlinks=True)
    recipe = (run / "recipe.toml").read_text()
    (run / "recipe.toml").write_text(recipe.replace('unknown = "keep"', 'unknown = "replace"'))
    line = ["translate", str(run), str(place / "line.txt"), "--verbose"]
    result = CliRunner().invoke(app, line)
    why = "task.unknown: unknown words are replaced through attention, which only torch shows"
    assert f"regard: engine torch: {why}" in result.stderr
    replaced = api.translate(api.load(run, "cpu"), SOURCE.strip())
    assert result.stdout == f"{replaced}\n"
    assert replaced != api.translate(api.load(place / "pairs", "cpu"), SOURCE.strip())
    refused = CliRunner().invoke(app, [*line, "--engine", "ctranslate2"])
    assert str(refused.exception) == f"--engine: ctranslate2 cannot do this: {why}"
    said: list[str] = []
    engine = engine_for(api.load(run, "cpu"), "auto", int8=False, device="cpu", say=said.append, detail=said.append)
    assert type(engine) is RunEngine
    assert said[-1] == f"replacing: engine torch: {why}"


def test_a_server_of_other_tasks_refuses_the_engine_of_translations(place: Path):
    run = api.load(place / "text", "cpu")
    for settings in ({"engine": "ctranslate2", "int8": False}, {"engine": "auto", "int8": True}):
        with pytest.raises(RegardError, match="ctranslate2 serves translations, and text is a run of language_model"):
            engine_for(run, **settings, device="cpu", say=lambda sentence: None)
    assert type(engine_for(run, "auto", int8=False, device="cpu", say=lambda sentence: None)) is RunEngine
