"""Summarisers leave like other models, of two stacks or of one; what they read, cut and marked, is in the folder."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from onnx_checks import checked
from tiny import ENGLISH, GERMAN, LLAMA, PAIRS, SMALL, T5, baseline, pair, randomised, tokenizer

from regard.decode import GreedyConfig
from regard.errors import ConfigError, DataError
from regard.export import parity
from regard.export.export import export_model
from regard.export.exported_model import ExportedModel, HeldOut
from regard.export.huggingface.import_model import read_folder
from regard.models import DecoderConfig
from regard.tasks import SummarisationConfig, Vocabularies
from regard.text.special_tokens import BOS, EOS, SEP

READ, WRITTEN = 9, 20
LONG = HeldOut([" ".join([*ENGLISH[place:], *ENGLISH]) for place in range(4)], GERMAN[:4])
TURNS = {
    "kind": "alternating",
    "kinds": [{"kind": "local", "block": 4}, {"kind": "memory-compressed", "stride": 2, "block": 4}],
}


def two_stacks(joint: bool = True, **settings: Any) -> ExportedModel:
    return replace(pair(joint, **settings), task="summarisation", length=WRITTEN, input_tokens=READ)


def one_stack(**settings: Any) -> ExportedModel:
    config, text = DecoderConfig(**{**SMALL, **settings}), tokenizer(ENGLISH + GERMAN)
    model = randomised(config.build(text.vocab_size), seed=6)
    return as_summariser(model, config, text)


def recurrent() -> ExportedModel:
    config, text = baseline("lstm-seq2seq"), tokenizer(ENGLISH + GERMAN)
    return as_summariser(randomised(config.build(text.vocab_size, text.vocab_size)), config, text)


def as_summariser(model: Any, config: Any, text: Any) -> ExportedModel:
    both = {"source": text, "target": text}
    return ExportedModel(model, config, "summarisation", both, length=WRITTEN, input_tokens=READ)


SUBJECTS: dict[str, tuple[str, Any]] = {
    "Pegasus": ("Pegasus", lambda: two_stacks()),
    "Marian, two vocabularies": (
        "Marian",
        lambda: two_stacks(False, norm_place="after", embedding={"share": "output"}),
    ),
    "T5": ("T5", lambda: two_stacks(**T5)),
    "GPT-2, waves": ("GPT-2", lambda: one_stack()),
    "GPT-2, just enough places": ("GPT-2", lambda: one_stack(position={"kind": "learned", "length": READ + WRITTEN})),
    "Llama": ("Llama", lambda: one_stack(**LLAMA)),
}


def summaries(exported: ExportedModel, texts: list[str]) -> list[str]:
    """What the task itself writes."""
    task = SummarisationConfig(input_tokens=READ).task(Vocabularies(dict(exported.tokenizers)))
    found = task.generator(exported.model, torch.device("cpu")).translate(texts, GreedyConfig(max_length=WRITTEN))
    return [outputs[0].text for outputs in found]


def said_in_readme(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the example in the folder's README gives for a text."""
    monkeypatch.chdir(folder)
    lines = Path("README.md").read_text().split("```python\n")[1].split("\n```")[0].splitlines()
    known: dict[str, Any] = {}
    exec("\n".join(lines[:-1]).replace("Your text", text), known)
    found = eval(lines[-1].replace("Your text", text), known)
    return found if isinstance(found, str) else found[0]


@pytest.mark.parametrize("name", SUBJECTS)
def test_there_and_back_through_transformers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, make = SUBJECTS[name]
    exported = make()
    found = export_model(exported, LONG, "huggingface", tmp_path / "out")
    assert (found.layout, found.examples, found.identical) == (layout, 4, 1.0)
    assert found.largest_difference <= parity.TOLERANCE
    assert found.bleu is not None
    back = read_folder(tmp_path / "out")
    assert (back.task, back.settings, back.length) == ("summarisation", {"input_tokens": READ}, WRITTEN)
    model = back.config.build(*[one.vocab_size for one in back.tokenizers])
    model.load_state_dict(back.weights, strict=False)
    assert {key for key, _ in model.named_parameters()} == back.weights.keys()
    returned = replace(exported, model=model.eval(), config=back.config)
    written = summaries(exported, list(LONG.texts))
    assert len(set(written)) > 1, "a model that always writes the same would prove nothing"
    assert summaries(returned, list(LONG.texts)) == written
    assert said_in_readme(tmp_path / "out", LONG.texts[0], monkeypatch) == written[0]


@pytest.mark.parametrize("name", ["Pegasus", "GPT-2, waves", "Llama"])
def test_ctranslate2_writes_the_tasks_summaries(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    exported = SUBJECTS[name][1]()
    found = export_model(exported, LONG, "ctranslate2", tmp_path / "out")
    assert found.identical == 1.0
    settings = json.loads((tmp_path / "out" / "regard.json").read_text())
    assert settings["forbidden"] == ["<pad>", "<bos>"]
    assert (settings["input_tokens"], settings["after_input"]) == (
        READ,
        "<eos>" if exported.encoder_decoder else "<sep>",
    )
    if exported.prompted:  # Translator's own limit of what is written is another
        assert said_in_readme(tmp_path / "out", LONG.texts[0], monkeypatch) == summaries(exported, [LONG.texts[0]])[0]


@pytest.mark.parametrize(
    ("exported", "path", "got"),
    [
        (lambda: one_stack(attention=TURNS), "model.attention.kind", "alternating"),
        (lambda: one_stack(attention=TURNS["kinds"][1]), "model.attention.kind", "memory-compressed"),
        (lambda: two_stacks(attention=TURNS["kinds"][1]), "model.attention.kind", "memory-compressed"),
        (lambda: one_stack(feedforward={"kind": "experts", "experts": 4, "hidden": 8}), "model.feedforward", "experts"),
        (lambda: recurrent(), "model.kind", "lstm-seq2seq"),
    ],
)
@pytest.mark.parametrize("to", ["huggingface", "ctranslate2"])
def test_what_a_target_cannot_say_is_refused_by_name(
    to: str, exported: Any, path: str, got: str, tmp_path: Path
) -> None:
    pytest.importorskip("ctranslate2")
    with pytest.raises(ConfigError) as error:
        export_model(exported(), LONG, to, tmp_path / "out")
    assert str(error.value).startswith(path)
    assert f"got '{got}'" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def graphs_write_the_tasks_summaries(exported: ExportedModel, folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = checked(exported, LONG, folder)
    texts = list(LONG.texts[:2])
    assert model.generate(texts) == summaries(exported, texts)


def test_graphs_of_one_stack(tmp_path: Path) -> None:
    graphs_write_the_tasks_summaries(one_stack(depth=1), tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [lambda: two_stacks(depth=1), lambda: one_stack(attention=TURNS), lambda: recurrent()],
    ids=["two stacks", "local and compressed by turns", "recurrent"],
)
def test_graphs_of_others(make: Any, tmp_path: Path) -> None:
    graphs_write_the_tasks_summaries(make(), tmp_path / "out")


def test_held_out_rows_are_what_the_model_was_taught_with() -> None:
    one, two = one_stack(), two_stacks()
    cut, target = one.source.encode(LONG.texts[0])[: READ - 1], one.target.encode(LONG.references[0])
    first = LONG.rows(one)[0]
    assert (first.source, first.target, first.prompt_length) == ([], [*cut, SEP, *target], READ)
    assert first.prompt == [*cut, SEP]
    assert (LONG.rows(two)[0].source, LONG.rows(two)[0].target) == ([*cut, EOS], [BOS, *target])
    short = PAIRS.rows(one)[-1]
    assert short.prompt_length == len(one.source.encode("No.")) + 1


def test_a_summariser_says_how_much_it_reads(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task.input_tokens: a summariser is exported with the number of tokens"):
        export_model(replace(one_stack(), input_tokens=None), LONG, "huggingface", tmp_path / "out")


def test_a_strange_size_is_refused_by_name(tmp_path: Path) -> None:
    export_model(one_stack(depth=1), LONG, "huggingface", tmp_path / "out")
    file = tmp_path / "out" / "regard.json"
    for wrong in (None, 0, True, "many", 1e9):
        file.write_text(json.dumps({"task": "summarisation", "longest": WRITTEN, "input_tokens": wrong}))
        with pytest.raises(DataError, match=r"regard.json: input_tokens: expected an integer from 2 on, got"):
            read_folder(tmp_path / "out")
