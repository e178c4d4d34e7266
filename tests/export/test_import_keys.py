"""Every key of the library's configurations is honoured, irrelevant or refused, and its default is the library's."""

from dataclasses import MISSING, fields
from typing import Any

import pytest
import transformers
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from regard.export.huggingface.architecture import TRAINING, Architecture
from regard.export.huggingface.architectures import ARCHITECTURES
from regard.export.huggingface.architectures.bert import BERT
from regard.export.huggingface.architectures.vit import PROCESSOR_KEYS
from regard.export.huggingface.config_keys import Keys
from regard.export.huggingface.generation_config import GENERATION

IMPORTED = [one for one in ARCHITECTURES if one.imported]


def config_class(architecture: Architecture) -> Any:
    return getattr(transformers, architecture.class_name).config_class


def lists(keys: Keys) -> list[set[str]]:
    return [set(keys.honoured), set(keys.irrelevant), set(keys.refused), set(keys.noted)]


def assert_in_one_list(names: set[str], keys: Keys) -> None:
    for name in names:
        holding = [one for one in lists(keys) if name in one]
        assert len(holding) == 1, f"'{name}' is in {len(holding)} of the lists"
    assert sum(map(len, lists(keys))) == len(set().union(*lists(keys))), "a key is in two lists"
    assert all(keys.irrelevant.values())


@pytest.mark.parametrize("architecture", IMPORTED, ids=lambda architecture: architecture.class_name)
def test_each_key_of_a_configuration_is_in_one_list(architecture: Architecture) -> None:
    names = {field.name for field in fields(config_class(architecture))}
    assert_in_one_list(names, architecture.keys)
    assert names == set(architecture.keys.defaults), "the library's keys are not those that are written down"
    assert config_class(architecture).attribute_map == dict(architecture.keys.aliases)


@pytest.mark.parametrize("architecture", IMPORTED, ids=lambda architecture: architecture.class_name)
def test_defaults_are_the_librarys(architecture: Architecture) -> None:
    given = config_class(architecture)
    assert given.model_type == architecture.model_type
    defaults = {
        field.name: field.default if field.default is not MISSING else field.default_factory()  # type: ignore[misc]
        for field in fields(given)
    }
    assert dict(architecture.keys.defaults) == defaults
    assert {name: type(value) for name, value in defaults.items()} == {
        name: type(value) for name, value in architecture.keys.defaults.items()
    }


def test_defaults_that_the_library_computes() -> None:
    assert transformers.LlamaConfig().rope_parameters == {"rope_type": "default", "rope_theta": 1e4}
    assert transformers.GPTNeoXConfig().rope_parameters == {
        "rope_type": "default",
        "rope_theta": 1e4,
        "partial_rotary_factor": 0.25,
    }
    assert transformers.BertConfig().id2label == {0: "LABEL_0", 1: "LABEL_1"}
    assert transformers.T5Config().scale_decoder_outputs is True
    assert transformers.T5Config(tie_word_embeddings=False).scale_decoder_outputs is False
    assert transformers.T5Config(feed_forward_proj="gated-gelu").dense_act_fn == "gelu_new"
    assert transformers.MarianConfig().decoder_vocab_size == transformers.MarianConfig().vocab_size


def test_each_key_of_generation_is_in_one_list() -> None:
    names = set(vars(transformers.GenerationConfig()))
    assert_in_one_list(names, GENERATION)
    assert dict(GENERATION.defaults) == transformers.GenerationConfig._get_default_generation_params()
    assert all(value is None for value in vars(transformers.GenerationConfig()).values())


def test_each_key_of_an_image_processor_is_in_one_list() -> None:
    processor = ViTImageProcessorPil()
    names = set(processor.valid_kwargs.__annotations__)
    assert_in_one_list(names, PROCESSOR_KEYS)
    found = {name: getattr(processor, name, None) for name in names}
    found |= {name: list(found[name]) for name in ("image_mean", "image_std")}
    found["size"] = {"height": found["size"].height, "width": found["size"].width}
    assert {**found, "resample": int(found["resample"])} == dict(PROCESSOR_KEYS.defaults)


def test_the_lists_say_why() -> None:
    for architecture in IMPORTED:
        assert all(len(reason.split()) > 2 for reason in architecture.keys.irrelevant.values())
    assert BERT.keys.irrelevant["hidden_dropout_prob"] == TRAINING
