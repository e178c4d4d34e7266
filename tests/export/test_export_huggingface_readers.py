"""Models that read and do not write, as Hugging Face folders: labels of images, tags of words, hidden words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import BERT, PICTURES, TEXTS, masked, picture, tagger, vision
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from regard.errors import ConfigError
from regard.export import parity
from regard.export.export import export_model
from regard.export.exported_model import ExportedModel, HeldOut
from regard.nn.layout import Sequences
from regard.text.special_tokens import EOS

WITHOUT_HEAD = {name: value for name, value in BERT.items() if name != "head"}
HIDDEN_WORDS = {"kind": "vocabulary", "transform": "gelu", "transform_epsilon": 1e-12, "bias": True}


def sent(exported: ExportedModel, held_out: HeldOut, folder: Path, layout: str) -> Path:
    found = export_model(exported, held_out, "huggingface", folder)
    assert found.layout == layout
    assert found.largest_difference <= parity.TOLERANCE
    assert found.identical == 1.0
    return folder


@pytest.mark.parametrize("channels", [3, 1])
def test_an_image_is_labelled_in_transformers_as_here(channels: int, tmp_path: Path) -> None:
    exported = vision(channels, "stretch")
    pictures = [picture(seed, channels=channels) for seed in range(3)]
    folder = sent(exported, HeldOut([], pictures=pictures), tmp_path / "out", "ViT")
    processor = AutoImageProcessor.from_pretrained(folder)
    model = AutoModelForImageClassification.from_pretrained(folder).eval()
    shape = (12, 10) if channels == 1 else (12, 10, 3)
    image = Image.fromarray(np.random.default_rng(9).integers(0, 256, shape, dtype=np.uint8))
    image.save(tmp_path / "other.png")
    given = np.asarray(image)[..., None] if channels == 1 else image  # grey images need their colour axis there
    theirs = model(**processor(given, return_tensors="pt")).logits
    assert exported.images is not None
    ours = exported.model(torch.from_numpy(exported.images.pixels(str(tmp_path / "other.png")))[None])
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
    assert [model.config.id2label[number] for number in range(3)] == list(exported.labels)


def test_an_image_processor_that_cannot_crop_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.resize: the image processor of a ViT stretches images, got 'crop'"):
        export_model(vision(resize="crop"), PICTURES, "huggingface", tmp_path / "out")


def test_words_are_tagged_in_transformers_as_here(tmp_path: Path) -> None:
    exported = tagger(**WITHOUT_HEAD)
    folder = sent(exported, TEXTS, tmp_path / "out", "BERT")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForTokenClassification.from_pretrained(folder)
    inputs = tokenizer(["The cat sleeps."], return_tensors="pt")
    ours = exported.model(Sequences.padded([[*exported.source.encode("The cat sleeps."), EOS]]))
    torch.testing.assert_close(ours, model(**inputs).logits, atol=1e-5, rtol=0)
    assert model.config.id2label[1] == "VERB"


def test_hidden_words_are_guessed_in_transformers_as_here(tmp_path: Path) -> None:
    exported = masked(**{**BERT, "head": HIDDEN_WORDS})
    folder = sent(exported, TEXTS, tmp_path / "out", "BERT")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder)
    inputs = tokenizer(["The dog sleeps."], return_tensors="pt")
    inputs["input_ids"][0, 1] = tokenizer.mask_token_id
    ours = exported.model(Sequences.padded(inputs["input_ids"].tolist()))
    torch.testing.assert_close(ours, model(**inputs).logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("exported", "words"),
    [
        (lambda: masked(**WITHOUT_HEAD), "model.head.transform: the BERT layout needs 'gelu', got nothing"),
        (lambda: tagger(), "model.norm_place: the BERT layout needs 'after', got 'before'"),
        (lambda: vision(class_token=False, position={"kind": "learned", "length": 4}), "model.class_token: the ViT"),
    ],
)
def test_what_no_layout_can_say_is_refused_by_name(exported: Any, words: str, tmp_path: Path) -> None:
    made = exported()
    with pytest.raises(ConfigError) as error:
        export_model(made, PICTURES if made.images else TEXTS, "huggingface", tmp_path / "out")
    assert str(error.value).startswith(words)
