"""Each layout with the tokenizer of its published models: in, used, fine-tuned, looked at, and out again the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from foreign_folders import marian, saved
from tiny import ENGLISH, GERMAN
from torch import Tensor

from regard import api
from regard.export.huggingface.export import quiet
from regard.export.huggingface.id_mapping import our_logits
from regard.nn.head import NEVER
from regard.nn.layout import Sequences
from regard.run.recipe import resolve_recipe
from regard.text.special_tokens import BOS, EOS, MASK

LAYOUTS = ["BERT", "masked BERT", "T5", "Llama", "GPT-2", "Marian"]
SHORT = api.Recipe.from_tree({"search": {"kind": "greedy", "max_length": 8}}).search


def fetched(name: str, folder: Path) -> tuple[Any, Any]:
    with quiet():
        return (marian(folder), None) if name == "Marian" else saved(name, folder)


def corpus(kind: str, labels: Any, folder: Path) -> dict[str, Any]:
    file = folder / "data.tsv"
    labelled = kind == "classification"
    others = [(labels or ["bad", "good"])[place % 2] for place in range(len(ENGLISH))] if labelled else GERMAN
    file.write_text("".join(f"{text}\t{other}\n" for text, other in zip(ENGLISH, others, strict=True)))
    if kind in ("translation", "classification"):
        names = ("text", "label") if labelled else ("source", "target")
        return {"file": str(file), **dict(zip(names, (0, 1), strict=True))}
    return {"file": str(file), "text": 0}


def tuned(run: api.Run, data: dict[str, Any], folder: Path, kind: str) -> api.Run:
    tree = {
        "task": {"kind": kind},
        "data": {"train": data, "valid": data, "batching": {"kind": "bucketed"}},
        "model": {"from": str(run.folder)},
        "train": {"steps": 2, "tokens_per_batch": 128, "precision": "float32", "optimiser": {"kind": "adamw"},
                  "schedule": {"kind": "constant", "lr": 3e-3}},
    }  # fmt: skip
    return api.train(resolve_recipe(tree), out=folder)


@torch.no_grad()
def scores(run: api.Run, theirs: Any) -> tuple[Tensor, Tensor]:
    """What both say about the same tokens, all of them in our order."""
    reads = run.task.vocabularies.tokenizers.get("source") or run.task.vocabularies.tokenizers["text"]
    row = [*reads.encode(ENGLISH[1]), EOS]
    row = [BOS, *row] if run.recipe.task.kind == "language_model" else row
    given = torch.tensor([reads.id_mapping.to_foreign(row)])
    if run.recipe.task.kind != "translation":
        found, expected = run.model(Sequences.padded([row])), theirs(given).logits
        return found, expected if run.recipe.task.kind == "classification" else our_logits(expected, reads)
    writes = run.task.vocabularies.tokenizers["target"]
    target = [BOS, *writes.encode(GERMAN[1])]
    found = run.model(Sequences.padded([row]), Sequences.padded([target]))
    expected = theirs(given, decoder_input_ids=torch.tensor([writes.id_mapping.to_foreign(target)])).logits
    return found, our_logits(expected, writes)


@pytest.mark.parametrize("name", LAYOUTS)
def test_in_used_tuned_and_out_again(name: str, tmp_path: Path) -> None:
    theirs, tokenizer = fetched(name, tmp_path / "theirs")
    run = api.import_run(tmp_path / "theirs", tmp_path / "run")
    kind = run.recipe.task.kind
    torch.testing.assert_close(*scores(run, theirs), atol=1e-4, rtol=0)
    data = corpus(kind, run.task.vocabularies.labels, tmp_path)
    source = api.SourceConfig(**data)
    assert api.evaluate(run, source, SHORT if kind in ("translation", "language_model") else None).examples >= 5
    assert "<html" in api.look(run, "The cat sleeps.", length=8)
    after = tuned(run, data, tmp_path / "tuned", kind)
    assert not torch.equal(scores(after, theirs)[0], scores(run, theirs)[0])
    if name == "masked BERT":
        return
    for one in (run, after):
        found = api.export(one, "huggingface", tmp_path / f"out-{one.name}", data=source, examples=2)
        assert found.largest_difference <= 1e-4
        assert found.identical == 1.0
    with quiet():
        same = type(theirs).from_pretrained(tmp_path / "out-run").state_dict()
        learnt = [(key, weight) for key, weight in theirs.state_dict().items() if "embed_positions" not in key]
        assert all(torch.equal(weight, same[key]) for key, weight in learnt)
        torch.testing.assert_close(
            *scores(after, type(theirs).from_pretrained(tmp_path / "out-tuned")), atol=1e-4, rtol=0
        )
    if tokenizer is not None:
        again = transformers.AutoTokenizer.from_pretrained(tmp_path / "out-tuned")
        assert again(ENGLISH)["input_ids"] == tokenizer(ENGLISH)["input_ids"]
    back = api.import_run(tmp_path / "out-run", tmp_path / "back")
    names = run.task.vocabularies.tokenizers
    assert {key: one.id_mapping for key, one in back.task.vocabularies.tokenizers.items()} == {
        key: one.id_mapping for key, one in names.items()
    }
    assert all(
        torch.equal(one, other) for one, other in zip(back.model.parameters(), run.model.parameters(), strict=True)
    )


@pytest.mark.parametrize("name", ["T5", "Llama", "GPT-2"])
def test_what_is_written_is_what_transformers_writes(name: str, tmp_path: Path) -> None:
    theirs, tokenizer = fetched(name, tmp_path / "theirs")
    run = api.import_run(tmp_path / "theirs", tmp_path / "run")
    around = {} if name == "T5" else {"add_special_tokens": False}
    given = tokenizer(ENGLISH[0], return_tensors="pt", **around)["input_ids"]
    if name != "T5":  # documents begin with their token here
        given = torch.cat([torch.tensor([[tokenizer.bos_token_id]]), given], 1)
    with quiet():
        ids = theirs.generate(given, max_new_tokens=8, do_sample=False)[0]
    expected = tokenizer.decode(ids if name == "T5" else ids[given.shape[1] :], skip_special_tokens=True)
    wrote = api.translate if name == "T5" else api.generate
    assert wrote(run, ENGLISH[:1], SHORT) == [expected]


@torch.no_grad()
def test_masks_are_filled_as_transformers_fills_them_and_a_classifier_begins_there(tmp_path: Path) -> None:
    theirs, tokenizer = fetched("masked BERT", tmp_path / "theirs")
    run = api.import_run(tmp_path / "theirs", tmp_path / "run")
    fill: Any = run.task.fill  # type: ignore[attr-defined]
    found, other = fill(run.model, ["The [MASK] sleeps.", "The <mask> sleeps."], run.device, top=3, ends=True)
    assert found == other
    given = tokenizer("The [MASK] sleeps.", return_tensors="pt")
    at = int((given["input_ids"][0] == tokenizer.mask_token_id).nonzero())
    chances = theirs(**given).logits[0, at].softmax(-1)
    special = set(tokenizer.all_special_ids)
    likeliest = [number for number in chances.argsort(descending=True).tolist() if number not in special][:3]
    names = [token.removeprefix("##") for token in tokenizer.convert_ids_to_tokens(likeliest)]
    assert [token.strip("▁") for token, _ in found.guesses[0]] == names
    assert [chance for _, chance in found.guesses[0]] == pytest.approx(chances[likeliest].tolist(), abs=1e-5)
    with torch.enable_grad():
        reader = tuned(run, corpus("classification", (), tmp_path), tmp_path / "reader", "classification")
    assert reader.task.vocabularies.tokenizers["text"].identity == run.task.tokenizer.identity  # type: ignore[attr-defined]
    assert set(api.classify(reader, ["The cat."])) <= {"bad", "good"}


def test_tokens_that_the_model_does_not_have_take_no_probability(tmp_path: Path) -> None:
    fetched("Llama", tmp_path / "theirs")
    run = api.import_run(tmp_path / "theirs", tmp_path / "run")
    with torch.no_grad():
        logits = run.model(Sequences.padded([[BOS, 9, 10]]))
    assert (logits[..., MASK] == NEVER).all()
    assert float(logits.softmax(-1)[..., MASK].max()) == 0.0
