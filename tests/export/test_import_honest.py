"""What a folder says is taken over or refused by name: keys, tensors, number formats, shards, labels, generation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from random_folders import TOKENS, difference, randomise
from safetensors.torch import load_file, save_file
from tiny import pair

from regard import api
from regard.errors import DataError, Failure
from regard.export.huggingface import logit_check as comparison
from regard.export.huggingface.import_model import read_folder
from regard.export.huggingface.tokenizer_files import write_tokenizer

STACK = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
TEXT = {"vocab_size": TOKENS.vocab_size}
BART = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 20, "pad_token_id": 0, "eos_token_id": 3,
    "decoder_start_token_id": 2, "forced_eos_token_id": 3,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "BertForMaskedLM": {**STACK, **TEXT, "max_position_embeddings": 20},
    "BertForSequenceClassification": {**STACK, **TEXT, "max_position_embeddings": 20, "num_labels": 3},
    "GPT2LMHeadModel": {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 20, **TEXT},
    "GPTNeoXForCausalLM": {**STACK, **TEXT, "use_parallel_residual": False},
    "LlamaForCausalLM": {**STACK, **TEXT},
    "MarianMTModel": {**BART, **TEXT},
    "PegasusForConditionalGeneration": {**BART, **TEXT},
    "T5ForConditionalGeneration": {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 1, "num_heads": 2, **TEXT,
                                   "pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 2},
    "ViTForImageClassification": {**STACK, "image_size": 8, "patch_size": 4, "num_labels": 3},
}  # fmt: skip


def write(architecture: str, folder: Path, **more: Any) -> Path:
    made = getattr(transformers, architecture)
    model = made(made.config_class(**{**SETTINGS[architecture], **more}))
    randomise(model, 1)
    model.save_pretrained(folder)
    if not architecture.startswith("ViT"):
        write_tokenizer(TOKENS, pair(), folder)
    return folder


def change(folder: Path, tree: dict[str, Any], file: str = "config.json") -> None:
    path = folder / file
    settings = {**(json.loads(path.read_text()) if path.is_file() else {}), **tree}
    path.write_text(json.dumps({key: value for key, value in settings.items() if value is not ...}))


def reweigh(folder: Path, edit: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")


def refusal(folder: Path) -> str:
    with pytest.raises(DataError) as error:
        read_folder(folder)
    sentence = str(error.value)
    assert "\n" not in sentence
    return sentence


GPT2, BERT, NEOX, LLAMA = "GPT2LMHeadModel", "BertForMaskedLM", "GPTNeoXForCausalLM", "LlamaForCausalLM"
CLASSIFIER, T5, MARIAN, VIT = (
    "BertForSequenceClassification", "T5ForConditionalGeneration", "MarianMTModel", "ViTForImageClassification",
)  # fmt: skip


@pytest.mark.parametrize(
    ("architecture", "settings", "words"),
    [
        (GPT2, {"my_setting": 1}, "'my_setting' is no setting that an import knows"),
        (GPT2, {"n_emdb": 16}, "did you mean 'n_embd'?"),
        (GPT2, {"hidden_size": 32}, "hidden_size: another name of n_embd, which is 16; got 32"),
        (GPT2, {"scale_attn_weights": False}, "scale_attn_weights: expected True, got False"),
        (GPT2, {"add_cross_attention": True}, "add_cross_attention: expected False, got True"),
        (GPT2, {"pruned_heads": {"0": [1]}}, "pruned_heads: expected {} or None, got {'0': [1]}"),
        (GPT2, {"n_layer": True}, "n_layer: expected a value like 12, got True"),
        (GPT2, {"n_embd": "16"}, "n_embd: expected a value like 768, got '16'"),
        (GPT2, {"vocab_size": 301}, "vocab_size: 301, but the model's embedding has 300 rows"),
        (GPT2, {"quantization_config": {"load_in_8bit": True}}, "quantization_config: expected None"),
        (GPT2, {"auto_map": {"AutoModelForCausalLM": "modeling.My"}}, "auto_map: expected None"),
        (GPT2, {"dtype": "float8_e4m3fn"}, "dtype: expected None or 'float32'"),
        (GPT2, {"torch_dtype": "int8"}, "torch_dtype: expected None or 'float32'"),
        (GPT2, {"model_type": "gptj"}, "model_type: expected 'gpt2', got 'gptj'"),
        (GPT2, {"eos_token_id": [2, 3]}, "eos_token_id: expected one token's id, got [2, 3]"),
        (GPT2, {"architectures": [BERT, GPT2]}, "architectures: expected one of MarianMTModel, "),
        (GPT2, {"architectures": ["MistralForCausalLM"]}, "got MistralForCausalLM"),
        (NEOX, {"use_parallel_residual": ...}, "use_parallel_residual: expected False, got nothing, which means True"),
        (NEOX, {"attention_bias": False}, "attention_bias: expected True, got False"),
        (NEOX, {"head_dim": 4}, "'head_dim' is no setting that an import knows"),
        (NEOX, {"rope_parameters": {"rope_type": "linear", "factor": 2.0}},
         "rope_parameters.rope_type: expected 'default'"),
        (LLAMA, {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_parameters.rope_type: expected 'default'"),
        (LLAMA, {"rope_parameters": {"rope_theta": 1e4, "factor": 2.0}}, "rope_parameters.factor: no setting"),
        (LLAMA, {"partial_rotary_factor": 0.5}, "partial_rotary_factor: expected 1.0 or None, got 0.5"),
        (LLAMA, {"sliding_window": 8}, "'sliding_window' is no setting"),
        (LLAMA, {"layer_types": ["sliding_attention"]}, "'layer_types' is no setting"),
        (BERT, {"is_decoder": True}, "is_decoder: expected False, got True"),
        (BERT, {"position_embedding_type": "relative_key"}, "position_embedding_type: expected 'absolute'"),
        (CLASSIFIER, {"problem_type": "regression"}, "problem_type: expected None or 'single_label"),
        (CLASSIFIER, {"id2label": {"0": "a", "2": "c"}}, "id2label: expected a name for each of the numbers 0, 1, 2"),
        (CLASSIFIER, {"id2label": {"0": "a", "1": "a", "2": "b"}}, "id2label: expected a name of its own"),
        (CLASSIFIER, {"id2label": {"0": "a", "1": "b"}}, "'classifier.weight': expected (2, 16), got (3, 16)"),
        (CLASSIFIER, {"id2label": ..., "label2id": ...}, "'classifier.weight': expected (2, 16), got (3, 16)"),
        (CLASSIFIER, {"id2label": {"0": "a"}}, "one label means regression"),
        (CLASSIFIER, {"num_labels": 4}, "num_labels: expected 3, as many as id2label has, got 4"),
        (T5, {"feed_forward_proj": "odd-gelu"}, "feed_forward_proj: expected an activation or gated-…"),
        (T5, {"dense_act_fn": "mish"}, "dense_act_fn: expected one of"),
        (T5, {"decoder_start_token_id": ...}, "decoder_start_token_id: missing, and the library has no default"),
        (MARIAN, {"tie_word_embeddings": False}, "tie_word_embeddings: expected True, got False"),
        (MARIAN, {"normalize_before": True}, "normalize_before: expected False, got True"),
        (MARIAN, {"decoder_attention_heads": 4}, "decoder_attention_heads: expected that of the encoder, 2, got 4"),
        (MARIAN, {"decoder_vocab_size": 200}, "decoder_vocab_size: 200, but the model's embedding has 300 rows"),
        (VIT, {"qkv_bias": False}, "qkv_bias: expected True, got False"),
        (VIT, {"image_size": [8, 12]}, "image_size: expected the side of a square in pixels, got [8, 12]"),
        (VIT, {"problem_type": "multi_label_classification"}, "problem_type: expected None"),
    ],
)  # fmt: skip
def test_a_setting_that_is_not_computed_is_refused_by_name(
    architecture: str, settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    write(architecture, tmp_path)
    change(tmp_path, settings)
    if "decoder_start_token_id" in settings:
        (tmp_path / "generation_config.json").unlink()
    assert words in refusal(tmp_path)


@pytest.mark.parametrize(
    ("architecture", "settings"),
    [
        (GPT2, {"n_ctx": 1024, "task_specific_params": {"text-generation": {"do_sample": True}},
         "torch_dtype": "float16"}),
        (GPT2, {"num_hidden_layers": 1, "eos_token_id": [3], "use_bfloat16": False, "pruned_heads": {}}),
        (NEOX, {"rope_parameters": ..., "rotary_pct": 0.5, "rotary_emb_base": 500}),
        (NEOX, {"rope_parameters": ...}),
        (LLAMA, {"rope_parameters": ..., "rope_theta": 300.0, "rope_scaling": None}),
        (LLAMA, {"rope_parameters": ..., "head_dim": ..., "num_key_value_heads": ...}),
        (BERT, {"gradient_checkpointing": False, "position_embedding_type": "absolute", "hidden_act": ...}),
        (CLASSIFIER, {"id2label": {"2": "c", "0": "a", "1": "b"}, "label2id": ..., "_num_labels": 3}),
        (T5, {"dense_act_fn": ..., "is_gated_act": ..., "scale_decoder_outputs": ..., "tie_word_embeddings": False}),
        (T5, {"dense_act_fn": "silu", "n_positions": 512, "output_past": True}),
        (MARIAN, {"normalize_before": False, "static_position_embeddings": True, "num_beams": 6, "max_length": 512,
                  "bad_words_ids": [[0]], "activation_function": ..., "decoder_vocab_size": ...}),
        (VIT, {"image_size": [8, 8], "patch_size": [4, 4], "qkv_bias": ...}),
    ],
)  # fmt: skip
def test_older_keys_and_left_out_keys_mean_what_they_mean_to_the_library(
    architecture: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    write(architecture, tmp_path)
    change(tmp_path, settings)
    imported = read_folder(tmp_path)
    assert difference(imported, tmp_path) <= 1e-5
    if "id2label" in settings:
        assert imported.labels == ("a", "b", "c")


WEIGHT = {GPT2: "transformer.h.0.mlp.c_fc.weight", BERT: "bert.encoder.layer.0.output.dense.weight"}


@pytest.mark.parametrize(
    ("architecture", "edit", "words"),
    [
        (GPT2, lambda t: t.update({WEIGHT[GPT2]: t[WEIGHT[GPT2]].char(),
         "transformer.h.0.mlp.c_fc.SCB": torch.ones(64)}),
         "'transformer.h.0.mlp.c_fc.weight': expected values of type float32, float16, bfloat16, got I8"),
        (GPT2, lambda t: t.update({"transformer.h.0.mlp.c_fc.SCB": torch.ones(64)}), "'transformer.h.0.mlp.c_fc.SCB'"),
        (GPT2, lambda t: t.update({WEIGHT[GPT2]: t[WEIGHT[GPT2]].to(torch.float8_e4m3fn)}), "got F8_E4M3"),
        (GPT2, lambda t: t.update({WEIGHT[GPT2] + "_scale": torch.ones(1)}), "c_fc.weight_scale', which a GPT-2"),
        (GPT2, lambda t: t.update({WEIGHT[GPT2]: t[WEIGHT[GPT2]].double()}), "got F64"),
        (GPT2, lambda t: t.update({WEIGHT[GPT2]: t[WEIGHT[GPT2]].t()}), "expected (64, 16), got (16, 64)"),
        (GPT2, lambda t: t.update({"transformer.h.0.attn.c_attn.weight": torch.ones(3)}),
         "'transformer.h.0.attn.c_attn"),
        (GPT2, lambda t: t.update({"transformer.h.1.ln_1.weight": torch.ones(16)}),
         "its weights have 'transformer.h.1.ln_1"),
        (GPT2, lambda t: t.update({"wte.weight": torch.ones(300, 16)}), "its weights have 'wte.weight'"),
        (GPT2, lambda t: t.update({"transformer.h.0.attn.bias": torch.ones(1, 1, 20, 20)}), "is not the mask of later"),
        (GPT2, lambda t: t.pop("transformer.ln_f.bias"), "its weights have no 'transformer.ln_f.bias'"),
        (NEOX, lambda t: t.update({"gpt_neox.layers.0.attention.rotary_emb.inv_freq": torch.tensor([1.0, 0.5])}),
         "is not the rotation that its settings describe"),
        (NEOX, lambda t: t.pop("embed_out.weight"), "its weights have no 'lm_head.weight'"),
        (NEOX, lambda t: t.update({"lm_head.weight": torch.ones(300, 16)}), "is stored beside"),
        (BERT, lambda t: t.update({"bert.embeddings.position_ids": torch.arange(20).flip(0)}), "is not the numbers of"),
        (BERT, lambda t: t.pop("cls.predictions.bias"), "its weights have no 'cls.predictions.bias'"),
        (MARIAN, lambda t: t.update({"lm_head.weight": torch.ones(300, 16)}),
         "'lm_head.weight' differs from 'model.shared"),
        (MARIAN, lambda t: t.update({"model.encoder.embed_positions.weight": torch.ones(19, 16)}), "expected (20, 16)"),
        (T5, lambda t: t.update({"decoder.embed_tokens.weight": torch.ones(300, 16)}),
         "'decoder.embed_tokens.weight' differs"),
        (CLASSIFIER, lambda t: t.pop("classifier.bias"), "its weights have no 'classifier.bias'"),
        (VIT, lambda t: t.update({"vit.embeddings.position_embeddings": torch.ones(1, 6, 16)}), "expected (5, 16)"),
    ],
)  # fmt: skip
def test_a_tensor_that_is_not_used_is_refused_by_name(
    architecture: str, edit: Callable[..., Any], words: str, tmp_path: Path
) -> None:
    write(architecture, tmp_path)
    reweigh(tmp_path, edit)
    assert words in refusal(tmp_path)


def half(tensors: dict[str, torch.Tensor]) -> None:
    tensors.update({name: tensor.half() for name, tensor in tensors.items()})


def without_prefix(tensors: dict[str, torch.Tensor]) -> None:
    renamed = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    tensors.clear()
    tensors.update(renamed)


@pytest.mark.parametrize(
    ("architecture", "edit"),
    [
        (GPT2, half),
        (GPT2, without_prefix),
        (GPT2, lambda t: t.update({"transformer.h.0.attn.bias": torch.ones(1, 1, 20, 20, dtype=torch.uint8).tril()})),
        (GPT2, lambda t: t.update({"transformer.h.0.attn.masked_bias": torch.tensor(-1e4)})),
        (GPT2, lambda t: t.update({"lm_head.weight": t["transformer.wte.weight"].clone()})),
        (GPT2, lambda t: t.update({"lm_head.weight": torch.ones(300, 16)})),  # both are there and differ: not tied
        (NEOX, lambda t: t.update({"gpt_neox.layers.0.attention.rotary_emb.inv_freq": torch.tensor([1.0])})),
        (LLAMA, lambda t: t.update({"model.layers.0.self_attn.rotary_emb.inv_freq": 1e4 ** -torch.arange(0, 1, 0.25)})),
        (BERT, lambda t: t.update({"bert.embeddings.position_ids": torch.arange(20)[None]})),
        (BERT, lambda t: t.update({"cls.seq_relationship.weight": torch.ones(2, 16),
         "bert.pooler.dense.bias": torch.ones(16)})),
        (BERT, lambda t: t.update({"cls.predictions.decoder.bias": t.pop("cls.predictions.bias")})),
        (BERT, lambda t: t.update({"cls.predictions.decoder.weight": torch.ones(300, 16)})),
        (T5, lambda t: t.update({"lm_head.weight": torch.randn(300, 16)})),
        (T5, lambda t: t.update({"encoder.embed_tokens.weight": t["shared.weight"].clone()})),
        (MARIAN, lambda t: t.pop("final_logits_bias")),
        (MARIAN, lambda t: t.update({"model.decoder.embed_positions.weight": torch.randn(20, 16)})),  # one of two
        (MARIAN, lambda t: t.update({"lm_head.weight": t.pop("model.shared.weight")})),
        (VIT, lambda t: t.update({"vit.pooler.dense.weight": torch.ones(16, 16),
         "vit.pooler.dense.bias": torch.ones(16)})),
    ],
)  # fmt: skip
def test_tensors_under_other_names_or_twice_mean_what_they_mean_to_the_library(
    architecture: str, edit: Callable[..., Any], tmp_path: Path
) -> None:
    write(architecture, tmp_path)
    reweigh(tmp_path, edit)
    assert difference(read_folder(tmp_path), tmp_path) <= 1e-5


def test_a_masked_language_model_with_an_output_layer_of_its_own(tmp_path: Path) -> None:
    write(BERT, tmp_path / "theirs", tie_word_embeddings=False)
    imported = read_folder(tmp_path / "theirs")
    assert "head.linear.weight" in imported.weights
    assert difference(imported, tmp_path / "theirs") <= 1e-5


def shards(folder: Path) -> tuple[Path, dict[str, str]]:
    write(GPT2, folder)
    model = transformers.GPT2LMHeadModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="8KB")
    index = folder / "model.safetensors.index.json"
    return index, json.loads(index.read_text())["weight_map"]


def test_shards_are_read_and_whatever_is_wrong_with_them_is_refused(tmp_path: Path) -> None:
    index, names = shards(tmp_path)
    assert difference(read_folder(tmp_path), tmp_path) <= 1e-5

    def refused(weight_map: dict[str, str]) -> str:
        index.write_text(json.dumps({"weight_map": weight_map}))
        return refusal(tmp_path)

    first, last = sorted(set(names.values()))[0], sorted(set(names.values()))[-1]
    assert "leads out of the folder" in refused({**names, "x": f"../{first}"})
    assert "leads out of the folder" in refused({**names, "x": "/etc/passwd"})
    assert "names model-9.safetensors, which is missing" in refused({**names, "x": "model-9.safetensors"})
    assert "lacks 'x'" in refused({**names, "x": first})
    assert "weight_map: expected the name of a file" in refused({})
    some = next(name for name, file in names.items() if file == first)
    assert f"has, and the index does not name, '{some}'" in refused({k: v for k, v in names.items() if k != some})
    twice = next(name for name, file in names.items() if file == last)
    extra = load_file(tmp_path / first)
    save_file({**extra, twice: load_file(tmp_path / last)[twice]}, tmp_path / first)
    assert f"has, and the index does not name, '{twice}'" in refused(names)
    save_file(extra, tmp_path / first)
    index.write_text(json.dumps({"weight_map": names}))
    save_file(extra, tmp_path / "model.safetensors")
    assert "has both model.safetensors and model.safetensors.index.json" in refusal(tmp_path)


def test_adapters_are_refused(tmp_path: Path) -> None:
    write(GPT2, tmp_path)
    change(tmp_path, {"peft_type": "LORA"}, "adapter_config.json")
    assert "adapter_config.json: adapters are not read" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("architecture", "settings", "search", "noted"),
    [
        (MARIAN, {}, {"kind": "greedy"}, ""),
        (MARIAN, {"num_beams": 6, "max_length": 41, "length_penalty": 0.8, "bad_words_ids": [[0]]},
         {"kind": "beam", "size": 6, "length_penalty": 0.8, "max_length": 40}, ""),
        (MARIAN, {"max_new_tokens": 30, "min_length": 4, "no_repeat_ngram_size": 3},
         {"kind": "greedy", "max_length": 30, "min_length": 3, "no_repeat_ngram": 3}, ""),
        (GPT2, {"do_sample": True, "temperature": 0.7, "top_p": 0.9, "top_k": 0},
         {"kind": "sample", "temperature": 0.7, "top_p": 0.9}, ""),
        (GPT2, {"do_sample": True}, {"kind": "sample", "temperature": 1.0, "top_p": 1.0, "top_k": 50}, ""),
        (GPT2, {"max_length": 50}, {"kind": "greedy", "max_length": 50}, "max_length counts the prompt there"),
        (GPT2, {"repetition_penalty": 1.2, "suppress_tokens": [9]}, {"kind": "greedy"},
         "generation_config.json has settings of generation that regard does not: repetition_penalty, suppress_tokens"),
        (GPT2, {"do_sample": True, "num_beams": 3}, {"kind": "sample", "temperature": 1.0, "top_p": 1.0, "top_k": 50},
         "regard does not: num_beams"),
    ],
)  # fmt: skip
def test_the_search_of_a_folder_becomes_the_runs(
    architecture: str, settings: dict[str, Any], search: dict[str, Any], noted: str, tmp_path: Path
) -> None:
    write(architecture, tmp_path)
    change(tmp_path, settings, "generation_config.json")
    imported = read_folder(tmp_path)
    assert imported.search == search
    assert noted in " ".join(imported.notes)
    (tmp_path / "generation_config.json").unlink()
    if not noted:
        change(tmp_path, settings)  # older folders have them in config.json
        assert read_folder(tmp_path).search == search


def test_generation_is_refused_by_name(tmp_path: Path) -> None:
    write(MARIAN, tmp_path)
    for settings, words in [
        ({"forced_bos_token_id": 9}, "generation_config.json: forced_bos_token_id: expected None, got 9"),
        ({"eos_token_id": [3, 4]}, "generation_config.json: eos_token_id: expected one token's id, got [3, 4]"),
        ({"eos_token_id": 4}, "eos_token_id: expected that of config.json, 3, got 4"),
        ({"my_penalty": 4}, "'my_penalty' is no setting"),
        ({"num_beams": 0}, "num_beams: expected a number of beams, got 0"),
        ({"temperature": "hot"}, "temperature: expected a value like 1.0, got 'hot'"),
    ]:
        before = (tmp_path / "generation_config.json").read_text()
        change(tmp_path, settings, "generation_config.json")
        assert words in refusal(tmp_path)
        (tmp_path / "generation_config.json").write_text(before)


def test_an_import_compares_itself_with_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(LLAMA, tmp_path / "theirs")
    said: list[str] = []
    run = api.import_run(tmp_path / "theirs", tmp_path / "run", say=said.append)
    start = "largest difference of a logit from transformers on random inputs: "
    assert said[0].startswith(start)
    assert float(said[0].removeprefix(start)) < 1e-5
    assert run.recipe.search is not None
    monkeypatch.setattr(comparison, "find_spec", lambda name: None)
    api.import_run(tmp_path / "theirs", tmp_path / "uncompared", say=said.append)
    assert "not compared with transformers, which is not installed" in said


def test_an_import_that_computes_something_else_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(LLAMA, tmp_path / "theirs")
    load = comparison._load

    def damaged(*given: Any) -> Any:
        model: Any = load(*given)
        torch.nn.init.ones_(model.model.layers[0].mlp.down_proj.weight)
        return model

    monkeypatch.setattr(comparison, "_load", damaged)
    with pytest.raises(Failure, match="so nothing was imported"):
        api.import_run(tmp_path / "theirs", tmp_path / "run")
    assert [file.name for file in tmp_path.iterdir()] == ["theirs"]


def test_a_nan_in_any_row_fails_the_comparison_with_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(LLAMA, tmp_path / "theirs")
    texts = comparison._texts

    def with_nan(*arguments: Any) -> Any:
        ours, theirs = texts(*arguments)
        ours[-1][-1, -1] = float("nan")
        return ours, theirs

    monkeypatch.setattr(comparison, "_texts", with_nan)
    with pytest.raises(Failure, match="from transformers on random inputs: nan"):
        api.import_run(tmp_path / "theirs", tmp_path / "run")
