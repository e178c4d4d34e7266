"""Images from class folders, zips, IDX files and tables: what is read, and what is refused with its place."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_files import noise, png, write_folders, write_idx, write_zip
from PIL import Image

from regard.data.check import check_sources
from regard.data.examples import DescribedPicture, LabelledPicture
from regard.data.images.decoding import Canvas
from regard.data.images.files import MOST_PIXELS
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, DataError


def labelled(base: Path, **source) -> list[LabelledPicture]:
    return [example for example in read_examples(SourceConfig(**source), base) if isinstance(example, LabelledPicture)]


def test_class_folders(tmp_path: Path):
    write_folders(tmp_path / "train", {"dog": 3, "cat": 2})
    (tmp_path / "train" / "dog" / ".DS_Store").write_bytes(b"left behind")
    found = labelled(tmp_path, images="train")
    assert [example.label for example in found] == ["cat"] * 2 + ["dog"] * 3
    assert found[2].picture.file == tmp_path / "train" / "dog" / "000.png"
    np.testing.assert_array_equal(Canvas(6).picture(found[2].picture), noise(0))


def test_a_zip_of_class_folders_gives_the_same(tmp_path: Path):
    members = {f"all/{name}/{i}.png": png(noise(i)) for i, name in enumerate(["b", "a", "b"])}
    write_zip(tmp_path / "train.zip", {"all/": b"", **members, "__MACOSX/b/._0.png": b"?"})
    found = labelled(tmp_path, images="train.zip")
    assert [(example.label, example.picture.member) for example in found] == [
        ("a", "all/a/1.png"), ("b", "all/b/0.png"), ("b", "all/b/2.png"),
    ]  # fmt: skip
    np.testing.assert_array_equal(Canvas(6).picture(found[1].picture), noise(0))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_files(tmp_path: Path, suffix: str):
    images = np.stack([noise(number, channels=1) for number in range(4)])
    write_idx(tmp_path / f"images{suffix}", images)
    write_idx(tmp_path / f"labels{suffix}", np.array([7, 0, 9, 0]))
    found = labelled(tmp_path, images=f"images{suffix}", labels=f"labels{suffix}")
    assert [example.label for example in found] == ["7", "0", "9", "0"]
    np.testing.assert_array_equal(Canvas(6, 1).picture(found[2].picture)[..., 0], images[2])


@pytest.mark.parametrize("record", [True, False])
def test_parquet_with_bytes(tmp_path: Path, record: bool):
    data = [png(noise(number), "BMP") for number in range(3)]
    column = [{"bytes": one, "path": None} for one in data] if record else data
    pq.write_table(pa.table({"img": column, "label": [2, 0, 2]}), tmp_path / "x.parquet")
    found = labelled(tmp_path, file="x.parquet", image="img", label="label")
    assert [example.label for example in found] == ["2", "0", "2"]
    np.testing.assert_array_equal(Canvas(6).picture(found[1].picture), noise(1))


def test_captions_name_files_from_their_own_folder(tmp_path: Path):
    folder = tmp_path / "set"
    (folder / "pictures").mkdir(parents=True)
    (folder / "pictures" / "one.png").write_bytes(png(noise(1)))
    (folder / "captions.tsv").write_text("file\tcaption\npictures/one.png\ta red circle\n")
    source = SourceConfig(file="set/captions.tsv", image="file", target="caption")
    (example,) = read_examples(source, tmp_path)
    assert isinstance(example, DescribedPicture)
    assert example.target == "a red circle"
    np.testing.assert_array_equal(Canvas(6).picture(example.picture), noise(1))


def test_parts_are_by_place_or_by_content(tmp_path: Path):
    write_folders(tmp_path / "train", {"a": 10, "b": 10})
    (tmp_path / "train" / "b" / "again.png").write_bytes((tmp_path / "train" / "a" / "000.png").read_bytes())
    by_place = [len(labelled(tmp_path, images="train", part=part)) for part in ("0%-50%", "50%-100%")]
    assert by_place == [10, 11]
    parts = [labelled(tmp_path, images="train", part=part, shuffle=True) for part in ("0%-60%", "60%-100%")]
    keys = [{example.key for example in part} for part in parts]
    assert len(parts[0]) + len(parts[1]) == 21
    assert not keys[0] & keys[1]
    assert len(labelled(tmp_path, images="train", limit=3)) == 3


# What is refused


def decoded(base: Path, **source) -> list[np.ndarray]:
    canvas = Canvas(6, 1 if "labels" in source else 3)
    return [canvas.picture(example.picture) for example in labelled(base, **source)]


def refused(base: Path, match: str, **source) -> None:
    with pytest.raises(DataError, match=match):
        decoded(base, **source)


def test_idx_files_that_are_wrong(tmp_path: Path):
    images = np.stack([noise(number, channels=1) for number in range(4)])
    write_idx(tmp_path / "images", images)
    write_idx(tmp_path / "labels", np.arange(4))
    write_idx(tmp_path / "few", np.arange(3))
    write_idx(tmp_path / "short", images, count=5)
    write_idx(tmp_path / "five", np.arange(5))
    write_idx(tmp_path / "long", images, count=3)
    (tmp_path / "cut.gz").write_bytes(write_idx(tmp_path / "whole.gz", images).read_bytes()[:-12])
    (tmp_path / "stub").write_bytes(struct.pack(">2I", 0x803, 4))
    refused(tmp_path, r"few: 3 labels, but .*images has 4 images", images="images", labels="few")
    refused(
        tmp_path, r"images: expected an IDX file of labels .0x00000801.*means images", images="images", labels="images"
    )
    refused(tmp_path, r"labels: expected an IDX file of images", images="labels", labels="labels")
    refused(
        tmp_path, r"short: cut short: the header promises 5 items, item 5 is not whole", images="short", labels="five"
    )
    refused(tmp_path, r"long: has more than the 3 items", images="long", labels="few")
    refused(tmp_path, r"cut\.gz: cut off", images="cut.gz", labels="labels")
    refused(tmp_path, r"stub: cut short: expected a header of 16 bytes, got 8", images="stub", labels="labels")
    refused(tmp_path, r"images: an IDX file of images needs its labels", images="images")
    refused(tmp_path, r"nowhere: no such file", images="nowhere", labels="labels")


def test_an_idx_header_that_claims_too_much_is_refused_before_anything_is_read(tmp_path: Path):
    (tmp_path / "huge").write_bytes(struct.pack(">4I", 0x803, 4, 1 << 20, 1 << 20))
    write_idx(tmp_path / "labels", np.arange(4))
    refused(tmp_path, r"huge: images of 1,048,576 × 1,048,576 pixels", images="huge", labels="labels")


@pytest.mark.parametrize("name", ["../out/a.png", "a/../../b.png", "/etc/a.png", "a\\..\\b.png"])
def test_a_zip_member_that_leads_out_is_refused(tmp_path: Path, name: str):
    write_zip(tmp_path / "x.zip", {"a/1.png": png(noise(1)), name: png(noise(2))})
    refused(tmp_path, r"x\.zip: the member .* leads out of the archive", images="x.zip")


def test_zips_and_folders_that_are_wrong(tmp_path: Path):
    whole = write_zip(tmp_path / "x.zip", {"a/1.png": png(noise(1)), "a/2.png": b"no image"})
    (tmp_path / "cut.zip").write_bytes(whole.read_bytes()[:-30])
    write_zip(tmp_path / "text.zip", {"a/notes.txt": b"hello"})
    write_zip(tmp_path / "flat.zip", {"1.png": png(noise(1))})
    refused(tmp_path, r"x\.zip: a/2\.png: no image", images="x.zip")
    refused(tmp_path, r"cut\.zip: not a \.zip file, or a damaged one", images="cut.zip")
    refused(tmp_path, r"text\.zip: a/notes\.txt: no image: its name ends in none of", images="text.zip")
    refused(tmp_path, r"flat\.zip: 1\.png: expected in a folder whose name is its label", images="flat.zip")
    refused(tmp_path, r"nowhere: no such file", images="nowhere")
    (tmp_path / "empty").mkdir()
    refused(tmp_path, r"empty: no examples", images="empty")


def test_tables_that_are_wrong(tmp_path: Path):
    (tmp_path / "x.tsv").write_text("file\tlabel\nmissing.png\tcat\n")
    refused(tmp_path, r"x\.tsv:2: no such image: .*missing\.png", file="x.tsv", image="file", label="label")
    pq.write_table(pa.table({"img": pa.array([None], pa.binary()), "label": [2]}), tmp_path / "x.parquet")
    refused(
        tmp_path, r"x\.parquet:1: column 'img': expected an image's bytes", file="x.parquet", image="img", label="label"
    )
    pq.write_table(pa.table({"img": [b"\x89PNG..."], "label": [2]}), tmp_path / "y.parquet")
    refused(tmp_path, r"y\.parquet: row 1: no image", file="y.parquet", image="img", label="label")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({"images": "a", "label": "b"}, "label: cannot stand beside 'images'"),
        ({"images": "a", "file": "b"}, "images: cannot stand beside 'file'"),
        ({"image": "a", "label": "b"}, "file"),
        ({"file": "a.tsv", "image": "b"}, "image: needs a label = … or a target = …"),
        ({"file": "a.tsv", "image": "b", "text": "c", "label": "d"}, "image: needs a label"),
        ({"file": "a.tsv", "source": "b", "target": "c", "labels": "d"}, "labels"),
    ],
)
def test_sources_that_cannot_be(source, problem: str):
    with pytest.raises(ConfigError, match=problem):
        SourceConfig(**source)


def test_a_check_of_images_finds_duplicates_and_leaks(tmp_path: Path):
    write_folders(tmp_path / "train", {"a": 2, "b": 2})
    (tmp_path / "train" / "b" / "same.png").write_bytes((tmp_path / "train" / "a" / "000.png").read_bytes())
    write_folders(tmp_path / "test", {"a": 1, "c": 1})
    sources = {name: SourceConfig(images=name) for name in ("train", "test")}
    kinds = {summary.kind: summary.count for summary in check_sources(sources, tmp_path).summaries}
    assert kinds["duplicate"] == 1
    assert kinds["leak"] == 2


# Decoding


def test_every_colour_becomes_what_the_model_takes():
    grey, colours = noise(1, channels=1), noise(2)
    np.testing.assert_array_equal(Canvas(6, 3).pixels(png(grey), "x"), np.repeat(grey[..., None], 3, 2))
    expected = np.asarray(Image.fromarray(colours).convert("L"))
    np.testing.assert_array_equal(Canvas(6, 1).pixels(png(colours), "x")[..., 0], expected)
    clear = np.zeros((6, 6, 4))
    assert (Canvas(6).pixels(png(clear), "x") == 255).all()  # what is transparent shows white


def test_another_size_is_refused_unless_that_is_set():
    image = png(np.concatenate([noise(1, 6), noise(2, 6)], axis=1))
    with pytest.raises(DataError, match=r"x: an image of 12 × 6 pixels, the model takes 6 × 6; set task\.resize"):
        Canvas(6).pixels(image, "x")
    assert Canvas(6, resize="stretch").pixels(image, "x").shape == (6, 6, 3)
    cut = Canvas(6, resize="crop").pixels(image, "x")
    np.testing.assert_array_equal(cut, np.concatenate([noise(1, 6)[:, 3:], noise(2, 6)[:, :3]], axis=1))


@given(st.integers(0, 120))
def test_an_image_cut_anywhere_is_an_error_with_its_name(size: int):
    whole = png(noise(3, 12))
    with pytest.raises(DataError, match=r"^cats/17\.png: "):
        Canvas(12).pixels(whole[: min(size, len(whole) - 20)], "cats/17.png")


@given(st.binary(max_size=200))
def test_any_bytes_are_an_image_or_an_error(data: bytes):
    for start in (b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"P6 ", b"\xff\xd8\xff", b"RIFF", b"II*\0"):
        with pytest.raises(DataError):
            Canvas(1 << 14).pixels(start + data, "x")


def test_a_decompression_bomb_is_refused_before_it_is_decoded():
    side = 1 << 14
    assert side * side > MOST_PIXELS
    header = struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    ]
    with pytest.raises(DataError, match=r"bomb\.png: the image claims"):
        Canvas(6, resize="stretch").pixels(b"\x89PNG\r\n\x1a\n" + b"".join(parts), "bomb.png")


def test_sixteen_bits_are_refused_rather_than_cut_off():
    stream = io.BytesIO()
    Image.fromarray(np.full((6, 6), 1000, np.uint16)).save(stream, "PNG")
    with pytest.raises(DataError, match="more than eight bits"):
        Canvas(6, 1).pixels(stream.getvalue(), "x")
