"""Models that transformers made come in with the same logits; what cannot come in is refused with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from tiny import ENGLISH, pair, tokenizer
from tokenizers import ByteLevelBPETokenizer
from torch import nn

from regard import api
from regard.errors import DataError, RunError
from regard.export.huggingface.import_model import Imported, read_folder
from regard.export.huggingface.tokenizer_files import write_tokenizer
from regard.nn.head import NEVER
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, EOS

BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 90, "activation_function": "swish",
    "pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
BERT = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 40,
}  # fmt: skip
ROTARY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "MarianMTModel": ("marian", {**BART, "scale_embedding": True}),
    "PegasusForConditionalGeneration": ("pegasus", BART),
    "T5ForConditionalGeneration": (
        "t5",
        {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 2},
    ),
    "GPT2LMHeadModel": ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}),
    "GPTNeoXForCausalLM": ("gpt_neox", {**ROTARY, "use_parallel_residual": False}),
    "LlamaForCausalLM": ("llama", {**ROTARY, "num_key_value_heads": 2}),
    "BertForSequenceClassification": ("bert", {**BERT, "num_labels": 3}),
    "ViTForImageClassification": (
        "vit",
        {**ROTARY, "image_size": 8, "patch_size": 4, "num_labels": 5},
    ),
}
TOKENS = tokenizer(ENGLISH)


def random_model(name: str, vocab: int, **more: Any) -> nn.Module:
    kind, settings = MODELS[name]
    sizes = {} if kind == "vit" else {"vocab_size": vocab}
    if kind == "marian":
        sizes["decoder_vocab_size"] = vocab
    config = transformers.AutoConfig.for_model(kind, **settings, **sizes, **more)
    torch.manual_seed(3)
    model = getattr(transformers, name)(config).eval()
    tables = [weight for key, weight in model.named_parameters() if "embed_positions" not in key]
    for weight in tables:
        noise = 0.2 * torch.randn(weight.shape)
        weight.data.copy_(noise if weight.dim() > 1 else weight.data + noise)
    return model


def saved(name: str, folder: Path) -> nn.Module:
    model = random_model(name, TOKENS.vocab_size)
    model.save_pretrained(folder)  # type: ignore[operator]
    write_tokenizer(TOKENS, pair(), folder)
    return model


def built(imported: Imported) -> nn.Module:
    sizes = [tokenizer.vocab_size for tokenizer in imported.tokenizers]
    model = imported.config.build(*sizes, *([len(imported.labels)] if imported.labels else []))
    model.load_state_dict(imported.weights, strict=False)
    assert {name for name, _ in model.named_parameters()} == imported.weights.keys()
    return model.eval()


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_what_transformers_saved_computes_the_same_here(name: str, tmp_path: Path) -> None:
    theirs, imported = saved(name, tmp_path), read_folder(tmp_path)
    ours = built(imported)
    grid = Sequences.padded([[7, 8, 9, 10, 11, EOS], [12, EOS]])
    given = {"input_ids": grid.tokens, "attention_mask": grid.layout.valid.long()}
    if name.startswith("ViT"):
        images = torch.randn(2, 3, 8, 8)
        torch.testing.assert_close(ours(images), theirs(pixel_values=images).logits, atol=1e-4, rtol=0)
    elif imported.task == "translation":
        target = Sequences.padded([[BOS, 20, 21, 22], [BOS, 30, 31, 32]])
        expected = theirs(**given, decoder_input_ids=target.tokens).logits
        torch.testing.assert_close(ours(grid, target), expected, atol=1e-4, rtol=0)
    else:
        valid = slice(None) if imported.task == "classification" else grid.layout.valid
        torch.testing.assert_close(ours(grid)[valid], theirs(**given).logits[valid], atol=1e-4, rtol=0)


@torch.no_grad()
def test_a_foreign_vocabulary_is_renumbered_and_nothing_else_changes(tmp_path: Path) -> None:
    core = ByteLevelBPETokenizer()
    core.train_from_iterator(ENGLISH * 4, vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False)
    size, end = core.get_vocab_size(), core.token_to_id("<|endoftext|>")
    theirs = random_model("GPT2LMHeadModel", size, bos_token_id=end, eos_token_id=end)
    theirs.save_pretrained(tmp_path)  # type: ignore[operator]
    core.save(str(tmp_path / "tokenizer.json"))
    imported = read_folder(tmp_path)
    (own,), ours = imported.tokenizers, built(imported)
    assert own.id_mapping is not None
    for text in [*ENGLISH, "naïve 🙂"]:
        assert own.id_mapping.to_foreign(own.encode(text)) == core.encode(text).ids
        assert own.decode(own.encode(text)) == text
    text = "The cat saw the dog."
    mine, expected = own.encode(text), core.encode(text).ids
    logits = ours(Sequences.padded([mine]))[0]
    logprobs, wanted = logits.log_softmax(-1), theirs(torch.tensor([expected])).logits[0]
    order = list(own.id_mapping.foreign_ids[7:])
    torch.testing.assert_close(logits[:, 7:], wanted[:, order], atol=1e-4, rtol=0)
    torch.testing.assert_close(logprobs[:, 7:], wanted.log_softmax(-1)[:, order], atol=1e-4, rtol=0)
    torch.testing.assert_close(logits[:, EOS], wanted[:, end], atol=1e-4, rtol=0)
    # <mask>, <sep>, <cls> are never written, nor is the end twice under the name of the begin
    assert float(logprobs[:, [BOS, 4, 5, 6]].max()) < NEVER / 2
    assert "renumbered" in imported.notes[0]


def test_an_encoder_without_its_output_layer_comes_in_to_be_fine_tuned(tmp_path: Path) -> None:
    config = transformers.BertConfig(**BERT, vocab_size=TOKENS.vocab_size)
    transformers.BertModel(config).save_pretrained(tmp_path)
    write_tokenizer(TOKENS, pair(), tmp_path)
    imported = read_folder(tmp_path)
    assert imported.task == "classification"
    assert imported.config.head.pooling == "first"
    # the pooling of the first token comes in; the layer over labels is new
    assert {name for name in imported.weights if name.startswith("head")} == {"head.hidden.weight", "head.hidden.bias"}
    assert "output layer is new" in imported.notes[0]
    said: list[str] = []
    api.import_run(tmp_path, tmp_path / "run", say=said.append)
    assert said[0].startswith("largest difference of a hidden state from transformers on random inputs: ")


CHANGES: dict[str, dict[str, Any]] = {
    "foreign": {"architectures": ["MambaForCausalLM"]},
    "deeper": {"n_layer": 3},
    "wider": {"n_inner": 64},
    "setting": {"scale_attn_by_inverse_layer_idx": True},
    "bend": {"activation_function": "quick_gelu"},
}
UNFIT = {"model": {"type": "WordPiece", "vocab": {}}, "pre_tokenizer": {"type": "Unheard"}}


def broken(folder: Path, kind: str) -> None:
    weights, config = folder / "model.safetensors", json.loads((folder / "config.json").read_text())
    if kind == "pickled":
        weights.rename(folder / "pytorch_model.bin")
    elif kind == "cut":
        weights.write_bytes(weights.read_bytes()[:1000])
    elif kind == "missing":
        del config["n_embd"]
    elif kind == "wordpiece":
        (folder / "tokenizer.json").write_text(json.dumps(UNFIT))
    elif kind == "larger":
        tree = json.loads((folder / "tokenizer.json").read_text())
        tree["model"]["vocab"]["one more"] = len(tree["model"]["vocab"])
        (folder / "tokenizer.json").write_text(json.dumps({**tree, "added_tokens": []}))
    elif kind == "no tokenizer":
        (folder / "tokenizer.json").unlink()
    (folder / "config.json").write_text(json.dumps({**config, **CHANGES.get(kind, {})}))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("pickled", "pytorch_model.bin: pickled weights are not read, since they may run any program; convert them"),
        ("cut", "model.safetensors: not a whole safetensors file"),
        ("foreign", "config.json: architectures: expected one of MarianMTModel"),
        ("deeper", "its weights have no 'transformer.h.2.ln_1.weight', which a GPT-2 of its settings needs"),
        ("wider", "'transformer.h.0.mlp.c_fc.weight': expected (64, 32), got (128, 32)"),
        ("setting", "config.json: scale_attn_by_inverse_layer_idx: expected False, got True"),
        ("bend", "activation_function: expected one of relu"),
        ("missing", "its settings say 2 layers of width 768"),
        ("wordpiece", "tokenizer.json: not a tokenizer that regard can use"),
        ("larger", "has 301 tokens, but the model's embedding has 300 rows"),
        ("no tokenizer", "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"),
    ],
)
def test_what_cannot_come_in_is_refused_with_a_reason(kind: str, words: str, tmp_path: Path) -> None:
    saved("GPT2LMHeadModel", tmp_path)
    broken(tmp_path, kind)
    with pytest.raises(DataError) as error:
        read_folder(tmp_path)
    assert words in str(error.value)


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"not a Hugging Face folder: it has no config.json"):
        read_folder(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        read_folder(tmp_path)


def test_an_imported_run_translates_is_evaluated_looked_at_exported_and_fine_tuned(tmp_path: Path) -> None:
    saved("PegasusForConditionalGeneration", tmp_path / "theirs")
    run = api.import_run(tmp_path / "theirs", tmp_path / "run")
    search = api.Recipe.from_tree({"search": {"kind": "greedy", "max_length": 8}}).search
    texts = api.translate(run, ["The cat sleeps."], search)
    data = api.SourceConfig(street="valid", limit=3)
    assert api.evaluate(run, data, search).examples == 3
    assert "<html" in api.look(run, "The cat.", "The dog.")
    found = api.export(run, "huggingface", tmp_path / "again", data=data, examples=3)
    assert found.largest_difference <= 1e-4
    tuned = api.train(
        api.Recipe.from_tree(
            {
                "data": {"train": {"street": "train", "limit": 20}, "valid": {"street": "valid", "limit": 5}},
                "tokenizer": run.recipe.tokenizer.tree(),
                "model": run.recipe.model.tree(),
                "start": {"run": str(tmp_path / "run")},
                "train": {"steps": 1, "tokens_per_batch": 128, "precision": "float32", "optimiser": {"kind": "adamw"},
                          "schedule": {"kind": "constant", "lr": 1e-9}},
            }
        ),
        out=tmp_path / "tuned",
    )  # fmt: skip
    assert api.translate(tuned, ["The cat sleeps."], search) == texts
    with pytest.raises(RunError, match="is not empty"):
        api.import_run(tmp_path / "theirs", tmp_path / "run")


def test_an_imported_reader_of_images_classifies(tmp_path: Path) -> None:
    theirs = saved("ViTForImageClassification", tmp_path / "theirs")
    run = api.import_run(tmp_path / "theirs", tmp_path / "run")
    pixels = torch.randint(0, 256, (8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    Image.fromarray(pixels.numpy()).save(tmp_path / "image.png")
    with torch.no_grad():
        expected = theirs(pixel_values=pixels.permute(2, 0, 1)[None] / 127.5 - 1).logits.softmax(-1)[0]
    found = api.load(run.folder, "cpu").classify([str(tmp_path / "image.png")])[0]
    assert found is not None
    assert list(found.values()) == pytest.approx(expected.tolist(), abs=1e-4)
