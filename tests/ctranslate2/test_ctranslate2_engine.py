"""CTranslate2 writes what torch writes, without torch; where it would not, torch is taken and the reason said."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_engine_runs import language_model, translator

from regard.config.search_options import is_sampling
from regard.ctranslate2 import choice as choosing
from regard.ctranslate2 import model_folder as converting
from regard.ctranslate2 import threads
from regard.ctranslate2.choice import Choice, choose, unsupported_reason
from regard.ctranslate2.model_folder import (
    REFUSED,
    ConvertedModel,
    EngineUnavailableError,
    best_checkpoint,
    converted_model,
    folder_for,
)
from regard.ctranslate2.process import EngineProcess
from regard.decode import BeamConfig, GreedyConfig, SampleConfig
from regard.decode.search import DEFAULTS
from regard.errors import ConfigError, Failure, RegardError, RunError
from regard.run import Run
from regard.run.ctranslate2_conversion import convert
from regard.web.engine import CTranslate2Engine, RunEngine, engine_for

pytest.importorskip("ctranslate2")

TEXTS = [
    "The dog sleeps.",
    "",
    "   ",
    "Anna saw the old cat. The cat slept! Where is the street? It was too wide. The dog sleeps because it is tired.",
    "naïve 🙂 <eos> x",
    "The animal did not cross the street.",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return translator(tmp_path_factory.mktemp("engine") / "pairs")


@pytest.fixture(scope="module")
def converted(run: Run) -> ConvertedModel:
    return ConvertedModel.read(convert(run.folder, "float32"))


@pytest.fixture(scope="module")
def remote(converted: ConvertedModel) -> Any:
    found = EngineProcess(converted)
    yield found
    found.close()


def torch_free(script: str, *arguments: object) -> str:
    end = "\nimport sys; heavy = {'torch', 'numpy', 'matplotlib'} & set(sys.modules); assert not heavy, heavy"
    words = [sys.executable, "-c", script + end, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_translations_are_torchs_and_torch_is_never_loaded(run: Run, converted: ConvertedModel) -> None:
    script = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from regard.ctranslate2.choice import choose\n"
        "from regard.ctranslate2.threads import load_engine\n"
        "choice = choose(Path(sys.argv[1]), 'auto', 'translation', lambda converted: converted.default_search)\n"
        "assert choice.engine == 'ctranslate2', choice\n"
        "engine = load_engine(choice.converted, True)\n"
        "found = engine.translate(json.loads(sys.argv[2]), choice.search)\n"
        "print(json.dumps([[output.text for output in row] for row in found]))\n"
    )
    written = json.loads(torch_free(script, run.folder, json.dumps(TEXTS)))
    expected = [[output.text for output in row] for row in run.translate(TEXTS, split=False)]
    assert written == expected
    assert written[1] == written[2] == [""]
    assert len(set(map(tuple, written))) > 3, "a model that always writes the same would prove nothing"


def test_the_command_line_writes_the_same_with_both_engines(run: Run, converted: ConvertedModel) -> None:
    words = [sys.executable, "-m", "regard", "translate", str(run.folder), "--json", "--verbose"]
    lines = "".join(f"{text}\n" for text in TEXTS)
    fast, slow = (
        subprocess.run([*words, "--engine", engine], input=lines, capture_output=True, text=True, check=True)
        for engine in ("auto", "torch")
    )
    (engine, *fast_notes), (asked_for, *notes) = fast.stderr.splitlines(), slow.stderr.splitlines()
    assert engine == "regard: engine ctranslate2 (float32): installed, and its greedy text is torch's"
    assert asked_for == "regard: engine torch: asked for"
    assert notes == fast_notes
    assert all(note.endswith("not in the training data") for note in notes)
    rows = [[json.loads(line) for line in done.stdout.splitlines()] for done in (fast, slow)]
    assert len(rows[0]) == len(TEXTS)
    for mine, other in zip(*rows, strict=True):
        for one, two in zip(mine["outputs"], other["outputs"], strict=True):
            numbers = ("score", "token_logprobs")
            parts = [[part["text"] for part in output.pop("sentences", [])] for output in (one, two)]
            assert parts[0] == parts[1]
            assert {**one, **dict.fromkeys(numbers)} == {**two, **dict.fromkeys(numbers)}
            assert one["score"] == pytest.approx(two["score"], abs=1e-4)
            assert one["token_logprobs"] == pytest.approx(two["token_logprobs"], abs=1e-4)


@pytest.mark.parametrize(
    "search",
    [
        GreedyConfig(max_length=1),
        GreedyConfig(max_length=20, min_length=12),
        GreedyConfig(max_length=20, forbid_unknown=True),
        BeamConfig(size=1, max_length=20),
        SampleConfig(temperature=0.0, max_length=9),
    ],
    ids=lambda search: "-".join(f"{value}" for value in search.tree().values()),
)
def test_settings_mean_the_same(search: Any, run: Run, remote: EngineProcess) -> None:
    assert unsupported_reason(search.tree(), DEFAULTS, "translation") is None
    theirs = remote.translate(TEXTS, search.tree(), scored=True)
    for mine, other in zip(run.translate(TEXTS, search, split=False), theirs, strict=True):
        assert [one.text for one in mine] == [one.text for one in other]
        assert [one.finished for one in mine] == [one.finished for one in other]
        assert [one.score for one in mine] == pytest.approx([one.score for one in other], abs=1e-4)


def test_beams_rank_by_the_same_scores(run: Run, remote: EngineProcess) -> None:
    search = BeamConfig(size=4, n_best=4, max_length=20, length_penalty=0.6)
    best = [{one.text: one.score for one in row} for row in run.translate(TEXTS, search, split=False)]
    theirs = [{one.text: one.score for one in row} for row in remote.translate(TEXTS, search.tree(), scored=True)]
    pairs = list(zip(best, theirs, strict=True))
    shared = [(mine[text], other[text]) for mine, other in pairs for text in mine.keys() & other.keys()]
    assert len(shared) > len(TEXTS)
    assert all(mine == pytest.approx(other, abs=1e-4) for mine, other in shared)


@pytest.mark.parametrize("documents", [False, True])
def test_language_models_write_on_alike(documents: bool, tmp_path: Path) -> None:
    changes: dict[str, Any] = {}
    if documents:
        (tmp_path / "lines.jsonl").write_text("".join(json.dumps({"text": f"the dog {n}"}) + "\n" for n in range(99)))
        source = {"file": str(tmp_path / "lines.jsonl"), "text": "text"}
        changes = {"data": {"train": source, "valid": source, "batching": {"kind": "bucketed"}}}
    run = language_model(tmp_path / "text", **changes)
    assert run.documents == documents
    made = ConvertedModel.read(convert(run.folder, "float32"))
    prompts = ["the dog ", "", "a", "the hen sees the fox and then"]
    remote = EngineProcess(made)
    try:
        theirs = remote.generate(prompts, made.default_search, scored=True)
        with pytest.raises(RegardError, match=r"input 1: .* the converted model has .* positions"):
            remote.generate(["x" * made.max_positions], made.default_search)
    finally:
        remote.close()
    for mine, other in zip(run.generate(prompts), theirs, strict=True):
        assert [(one.text, one.tokens, one.finished) for one in mine] == [
            (one.text, one.tokens, one.finished) for one in other
        ]
        assert mine[0].token_logprobs == pytest.approx(other[0].token_logprobs, abs=1e-4)


def test_generating_draws_with_torch_unless_asked_otherwise(run: Run, tmp_path: Path) -> None:
    search = SampleConfig(temperature=0.8, top_k=5).tree()
    assert is_sampling(search)
    assert "the search samples" in str(unsupported_reason(search, DEFAULTS, "language_model"))
    found = choose(run.folder, "ctranslate2", "translation", lambda converted: search)
    assert "its own random numbers" in found.why
    with pytest.raises(ConfigError, match="no min_p like ours"):
        choose(run.folder, "ctranslate2", "translation", lambda converted: {**search, "min_p": 0.1})


@pytest.mark.parametrize(
    ("search", "reason"),
    [
        (BeamConfig(length_formula="gnmt"), "no length_formula like ours"),
        (BeamConfig(min_length=3), "shares out their probability"),
        (BeamConfig(no_repeat_ngram=2), "no_repeat_ngram has other rules"),
        (BeamConfig(max_length_ratio=2.0), "no max_length_ratio"),
        (GreedyConfig(max_length=9000), "9000 tokens to generate, the converted model has 4097 positions"),
    ],
)
def test_what_it_cannot_search_torch_does(search: Any, reason: str, run: Run, converted: ConvertedModel) -> None:
    found = choose(run.folder, "auto", "translation", lambda converted: search.tree())
    assert found.engine == "torch"
    assert reason in found.why
    with pytest.raises(ConfigError, match="--engine: ctranslate2 cannot do this"):
        choose(run.folder, "ctranslate2", "translation", lambda converted: search.tree())


def test_a_beam_is_taken_where_it_was_seen_to_write_the_same(run: Run, converted: ConvertedModel) -> None:
    search = BeamConfig(size=3, max_length=7).tree()
    converted.save_agreement(search, 40, 40)
    found = choose(run.folder, "auto", "translation", lambda converted: search)
    assert (found.engine, found.why) == (
        "ctranslate2",
        "installed, and it generates 40 of 40 held-out texts as torch does",
    )
    converted.save_agreement(search, 39, 40)
    found = choose(run.folder, "auto", "translation", lambda converted: search)
    assert (found.engine, found.why) == (
        "torch",
        "with this search CTranslate2 generates 1 of 40 held-out texts differently",
    )


def test_engines_are_compared_once(run: Run, converted: ConvertedModel) -> None:
    search = BeamConfig(size=2, max_length=5).tree()
    assert converted.agreement(search) is None
    convert(run.folder, "float32", search)
    same, of = converted.agreement(search) or (0, 0)
    assert 0 <= same <= of
    assert 20 <= of <= 40  # those of the validation sentences that fit


def test_a_stale_conversion_is_never_used(
    run: Run, converted: ConvertedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.folder, copy, symlinks=True)
    assert folder_for(copy, "float32").name == converted.folder.name
    names = {converted.folder.name}
    checkpoint = best_checkpoint(copy)
    assert checkpoint is not None
    for file in (checkpoint / "manifest.json", copy / "recipe.toml", copy / "tokenizer.json"):
        file.write_text(file.read_text() + "\n")
        names.add(folder_for(copy, "float32").name)
    assert len(names) == 4
    with monkeypatch.context() as patched:
        patched.setattr(converting, "_converter", lambda: "another version")
        assert folder_for(copy, "float32").name not in names
    with pytest.raises(RunError, match="manifest"):
        convert(copy, "float32")  # the checkpoint is no longer what its manifest says


def test_a_process_that_cannot_convert_says_why(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.folder, copy, symlinks=True, ignore=shutil.ignore_patterns("cache"))
    monkeypatch.setattr(converting, "CONVERSION_MODULE", "json.tool")  # some process that fails at once
    with pytest.raises(EngineUnavailableError) as error:
        converted_model(copy, "float32")
    assert "json.tool" in str(error.value)  # the last line that it wrote
    found = choose(copy, "auto", "translation", lambda converted: converted.default_search)
    assert (found.engine, bool(found.why)) == ("torch", True)


@pytest.mark.slow
def test_the_first_use_converts_and_the_second_does_not(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.folder, copy, symlinks=True, ignore=shutil.ignore_patterns("cache"))
    words = [sys.executable, "-m", "regard", "translate", str(copy)]
    first, second = (
        subprocess.run(words, input="The dog sleeps.\n", capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert first.stdout == second.stdout == run.translate(["The dog sleeps."])[0][0].text + "\n"
    assert first.stderr.splitlines()[0] == f"regard: {copy}: converting the model for CTranslate2, once"
    assert second.stderr == "", "reasons are for --verbose"


def test_what_cannot_be_converted_is_tried_once(tmp_path: Path) -> None:
    run = translator(
        tmp_path / "alibi",
        model={"kind": "encoder-decoder", "width": 16, "depth": 1, "heads": 2, "position": "alibi"},
        train={"steps": 1, "tokens_per_batch": 64, "save_every": 1, "precision": "float32"},
    )
    made = convert(run.folder, "float32")
    assert "model.position.kind: CTranslate2 needs" in (made / REFUSED).read_text()
    found = choose(run.folder, "auto", "translation", lambda converted: converted.default_search)
    assert (found.engine, found.converted) == ("torch", None)
    assert found.why.startswith("model.position.kind: CTranslate2 needs")


def test_other_reasons_for_torch(run: Run, converted: ConvertedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = lambda converted: converted.default_search  # noqa: E731
    assert choose(run.folder, "auto", "translation", usual, obstacles=["--ensemble is torch's"]).engine == "torch"
    assert choose(run.folder, "auto", "translation", usual, device="cuda").why == "torch runs the model on the GPU"
    assert choose(run.folder, "auto", "language_model", usual).why == "a run of translation"
    assert choose(run.folder / "no", "auto", "translation", usual) == Choice("torch")
    with pytest.raises(ConfigError, match="--engine: expected one of auto, torch, ctranslate2, got 'fast'"):
        choose(run.folder, "fast", "translation", usual)
    with pytest.raises(ConfigError, match="--int8"):
        choose(run.folder, "torch", "translation", usual, int8=True)
    monkeypatch.setattr(choosing, "find_spec", lambda name: None)
    assert "pip install 'regard[ctranslate2]'" in choose(run.folder, "auto", "translation", usual).why
    with pytest.raises(ConfigError, match="is not installed"):
        choose(run.folder, "ctranslate2", "translation", usual)


def test_int8_is_another_folder(run: Run, converted: ConvertedModel) -> None:
    made = ConvertedModel.read(convert(run.folder, "int8"))
    assert made.folder != converted.folder
    assert (made.folder / "model.bin").stat().st_size < (converted.folder / "model.bin").stat().st_size
    found = choose(run.folder, "auto", "translation", lambda converted: converted.default_search, int8=True)
    assert str(found) == "engine ctranslate2 (int8): asked for"


def test_threads_are_measured_once_a_machine(converted: ConvertedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    file = converted.folder / threads.FILE
    file.write_text(json.dumps({"cores": threads.cores(), "one": [1, 3], "many": [2, 1]}))
    assert threads.workers_for(converted, many=False) == (1, 3)
    assert threads.workers_for(converted, many=True) == (2, 1)
    file.write_text(json.dumps({"cores": threads.cores() + 1, "one": [1, 3], "many": [2, 1]}))
    assert threads.workers_for(converted, many=False) in threads.candidates(threads.cores(), many=False)
    assert json.loads(file.read_text())["cores"] == threads.cores()


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 16])
def test_no_way_to_share_takes_more_cores_than_there_are(count: int) -> None:
    for many in (False, True):
        found = threads.candidates(count, many)
        assert len(set(found)) == len(found)
        assert all(workers.batches * workers.threads <= count for workers in found)
        assert {(1, 1), (1, count)} <= set(found)
        assert ((count, 1) in found) == (many or count == 1)


def test_few_texts_are_divided_among_all_workers_and_many_fill_batches(converted: ConvertedModel) -> None:
    script = """
import sys
from pathlib import Path
from regard.ctranslate2.model_folder import ConvertedModel
from regard.ctranslate2.model import CTranslate2Engine, TOKENS_PER_BATCH, Workers

converted = ConvertedModel.read(Path(sys.argv[1]))
alone, together = (CTranslate2Engine(converted, Workers(batches, 1)) for batches in (1, 3))
few, many = [["a"] * 5] * 7, [["a"] * 1000] * 7
assert alone._batching(few) == {"max_batch_size": 7, "batch_type": "examples"}
assert together._batching(few) == {"max_batch_size": 3, "batch_type": "examples"}
assert together._batching(many) == {"max_batch_size": TOKENS_PER_BATCH, "batch_type": "tokens"}
texts = sys.argv[2:]
written = [[row[0].text for row in engine.translate(texts, converted.default_search)] for engine in (alone, together)]
assert written[0] == written[1]
"""
    torch_free(script, converted.folder, *TEXTS)


def test_the_server_translates_by_it_and_goes_on_without_it(run: Run, converted: ConvertedModel) -> None:
    said: list[str] = []
    engine = engine_for(run, "auto", int8=False, device="cpu", say=said.append, detail=said.append)
    assert isinstance(engine, CTranslate2Engine)
    assert said == [f"{run.name}: engine ctranslate2 (float32): installed, and its greedy text is torch's"]
    expected = [row[0].text for row in run.translate(TEXTS, split=False)]
    assert [row[0].text for row in engine.translate(TEXTS, 1)] == expected
    assert [len(row) for row in engine.translate(["The dog sleeps."], 3)] == [3]
    assert engine.remote is not None
    with pytest.raises(RegardError, match=r"input 1: a sentence of .* tokens, the model takes at most 24"):
        engine.translate(["dog " * 40], 1)
    engine.remote.close()
    assert [row[0].text for row in engine.translate(TEXTS, 1)] == expected
    assert engine.remote is None
    assert type(engine_for(run, "torch", int8=False, device="cpu", say=said.append, detail=said.append)) is RunEngine


def test_a_process_that_is_gone_is_said(converted: ConvertedModel) -> None:
    remote = EngineProcess(converted)
    remote.close()
    with pytest.raises(Failure, match="the process of CTranslate2 has ended"):
        remote.translate(["x"], converted.default_search)
