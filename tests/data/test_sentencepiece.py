"""SentencePiece files: what the protocol's own classes wrote is read; what others may have written does no harm."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import DataError
from regard.text.sentencepiece import BPE, UNIGRAM, read_sentencepiece, write_unigram

PIECES = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("▁a", -1.5, 1), ("b", -2.0, 1), ("ab", -2.5, 1),
          ("a", -3.0, 1), ("▁", -3.5, 1), ("<sep>", 0.0, 4)]  # fmt: skip


def proto(found: list[tuple[str, float, int]] = PIECES, algorithm: int = 1, **normaliser: Any) -> Any:
    converter = pytest.importorskip("transformers.convert_slow_tokenizer")
    model = converter.import_protobuf().ModelProto()
    for text, score, kind in found:
        model.pieces.add(piece=text, score=score, type=kind)
    model.trainer_spec.model_type = algorithm
    model.trainer_spec.input.append("something else that a file holds")
    for name, value in normaliser.items():
        setattr(model.normalizer_spec, name, value)
    return model


def written(folder: Path, data: bytes) -> Path:
    file = folder / "spiece.model"
    file.write_bytes(data)
    return file


def test_a_file_is_read_as_its_protocol_says(tmp_path: Path) -> None:
    made = proto(algorithm=2, precompiled_charsmap=b"abc", add_dummy_prefix=False, remove_extra_whitespaces=False)
    made.trainer_spec.byte_fallback = True
    found = read_sentencepiece(written(tmp_path, made.SerializeToString()))
    assert [(one.text, one.score) for one in found.subwords] == [(text, score) for text, score, _ in PIECES]
    assert [one.kind for one in found.subwords][:4] == ["unknown", "control", "control", "normal"]
    assert (found.algorithm, found.byte_fallback, found.characters) == (BPE, True, b"abc")
    assert (found.dummy_prefix, found.squeeze) == (False, False)


def test_what_is_left_out_is_as_the_protocol_says(tmp_path: Path) -> None:
    found = read_sentencepiece(written(tmp_path, proto().SerializeToString()))
    assert (found.dummy_prefix, found.squeeze, found.byte_fallback, found.characters) == (True, True, False, b"")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    pieces = [("▁a", -1.5), ("b" * 200, -2.0), ("世界", -0.25)]
    model = read_sentencepiece(written(tmp_path, write_unigram(pieces, b"table" * 60)))
    assert [(one.text, one.score) for one in model.subwords[3:]] == pieces
    assert [(one.text, one.kind) for one in model.subwords[:3]] == [
        ("<unk>", "unknown"), ("<s>", "control"), ("</s>", "control"),
    ]  # fmt: skip
    assert (model.algorithm, model.characters, model.dummy_prefix) == (UNIGRAM, b"table" * 60, True)
    parsed = proto([])
    parsed.ParseFromString((tmp_path / "spiece.model").read_bytes())
    assert [(one.piece, one.score, one.type) for one in parsed.pieces[3:]] == [(*piece, 1) for piece in pieces]


def test_special_tokens_of_the_trainer_are_read(tmp_path: Path) -> None:
    made = proto()
    made.trainer_spec.unk_id, made.trainer_spec.bos_id, made.trainer_spec.eos_id = 3, -1, 7
    made.trainer_spec.eos_piece, made.trainer_spec.unk_piece = "<end>", "<what>"
    model = read_sentencepiece(written(tmp_path, made.SerializeToString()))
    assert (model.unknown_id, model.unknown_piece) == (3, "<what>")
    assert model.named == (("bos_token", -1, "<s>"), ("eos_token", 7, "<end>"), ("unk_token", 3, "<what>"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x0a\xff\xff\xff\xff\x0f", "it ends too early"),
        (b"\xff" * 11, "a number has no end"),
        (b"\x0b", "unknown type"),
        (b"\x0a\x02\x0a\x00", "expected one unknown piece"),
        (b"\x0a\x05\x0a\x01\xff\x18\x01", "not a SentencePiece model"),
        (b"\x0a\x05\x0a\x01a\x18\x63", "not a SentencePiece model"),
        (b"\x0a\x04\x0d\x00\x00\x00", "it ends too early"),
        (b"\x0a\x02\x08\x05", "field 1 has another type"),
        (b"\x0a\x02\x18\x02", "a piece is empty"),
        (b"\x08\x05", "field 1 is a number"),
        (b"", "expected one unknown piece"),
        (b"PK\x03\x04 a pickle in a zip", "not a SentencePiece model"),
    ],
)
def test_what_is_no_model_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_sentencepiece(written(tmp_path, data))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"algorithm": 4}, "it cuts into words or characters"),
        ({"found": [*PIECES, ("b", 0.0, 1)]}, "stands in it twice"),
        ({"found": [*PIECES, ("x" * 300, 0.0, 1)]}, "a piece of 300 characters"),
        ({"found": [*PIECES, ("x", float("nan"), 1)]}, "a score is no number"),
    ],
)
def test_models_that_cannot_run_here_are_refused(changed: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        read_sentencepiece(written(tmp_path, proto(**changed).SerializeToString()))
    assert words in str(error.value)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 80), st.binary(max_size=4))
def test_no_bytes_do_harm(tmp_path_factory: pytest.TempPathFactory, data: bytes, place: int, put: bytes) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = b"\x0a\x10\x0a\x05<unk>\x15" + struct.pack("<f", -1.0) + b"\x18\x02"
    for bytes_ in (data, whole[:place] + put + whole[place:]):
        try:
            read_sentencepiece(written(folder, bytes_))
        except DataError:
            continue
