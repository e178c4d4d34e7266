"""The store of pixels, batches of images, and what changes at random."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_files import noise, write_folders

from regard.data.batches import BucketedConfig
from regard.data.counter_random import uniforms
from regard.data.images.decoding import Canvas
from regard.data.images.store import AugmentConfig, ImageStore, holed, lit, moved, open_image_store
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig
from regard.errors import DataError

NUMBER = {"a": 0, "b": 1}


def opened(base: Path, augment: AugmentConfig | None = None) -> ImageStore:
    source = SourceConfig(images="train")
    return open_image_store(
        lambda: read_examples(source, base),  # type: ignore[arg-type, return-value]
        lambda example: {"label": NUMBER[example.label]},  # type: ignore[union-attr]
        {},
        ("label",),
        canvas=Canvas(6),
        patches=9,
        cache=base / "cache",
        files=source.files(base),
        settings={"source": source.tree()},
        augment=augment,
    )


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    write_folders(tmp_path / "train", {"a": 5, "b": 3})
    return opened(tmp_path)


def test_pixels_labels_and_lengths(store: ImageStore):
    assert len(store) == 8
    assert store.labels["label"].tolist() == [0] * 5 + [1] * 3
    assert store.lengths["image"].tolist() == [9] * 8
    pixels = store.images(np.array([6, 0]))["image"]
    np.testing.assert_array_equal(pixels, np.stack([noise(6), noise(0)]))


def test_batches_hold_images_with_their_labels(store: ImageStore):
    batches = BucketedConfig().build(store, tokens_per_batch=27, seed=1)
    seen = []
    for step in range(batches.num_batches(0)):
        batch = batches.batch(0, step)
        assert len(batch.examples) <= 3
        for example, image, label in zip(batch.examples, batch.images["image"], batch.labels["label"], strict=True):
            np.testing.assert_array_equal(image, noise(int(example)))
            assert label == (example >= 5)
        seen += batch.examples.tolist()
    assert sorted(seen) == list(range(8))


def test_it_is_found_again_and_made_anew_when_an_image_changes(store: ImageStore, tmp_path: Path):
    made = set((tmp_path / "cache").iterdir())
    assert opened(tmp_path).folder == store.folder
    assert set((tmp_path / "cache").iterdir()) == made
    file = tmp_path / "train" / "a" / "000.png"
    file.write_bytes((tmp_path / "train" / "b" / "000.png").read_bytes())
    changed = opened(tmp_path)
    assert changed.folder != store.folder
    np.testing.assert_array_equal(changed.images(np.array([0]))["image"][0], noise(5))


def test_an_image_that_moves_to_another_class_has_its_label(store: ImageStore, tmp_path: Path):
    assert store.labels["label"].tolist() == [0] * 5 + [1] * 3
    (tmp_path / "train" / "a" / "004.png").rename(tmp_path / "train" / "b" / "!first.png")  # the order stays the same
    moved = opened(tmp_path)
    assert moved.labels["label"].tolist() == [0] * 4 + [1] * 4
    assert moved.fingerprint != store.fingerprint


def test_renamed_classes_change_the_fingerprint_and_a_moved_folder_does_not(store: ImageStore, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "train").rename(tmp_path / "elsewhere" / "train")
    assert opened(tmp_path / "elsewhere").fingerprint == store.fingerprint
    a, b, aside = (tmp_path / "elsewhere" / "train" / name for name in ("a", "b", "aside"))
    a.rename(aside)
    b.rename(a)
    aside.rename(b)
    assert opened(tmp_path / "elsewhere").fingerprint != store.fingerprint


def test_a_damaged_store_is_named(store: ImageStore, tmp_path: Path):
    file = store.album.folder / "image.pixels"
    data = bytearray(file.read_bytes())
    data[7] ^= 1
    file.write_bytes(data)
    with pytest.raises(DataError, match=r"damaged .the checksum of image\.pixels is wrong"):
        opened(tmp_path)


def test_a_corrupt_image_leaves_no_half_store(tmp_path: Path):
    write_folders(tmp_path / "train", {"a": 2, "b": 2})
    broken = tmp_path / "train" / "b" / "001.png"
    broken.write_bytes(broken.read_bytes()[:60])
    with pytest.raises(DataError, match=r"train/b/001\.png: a damaged image"):
        opened(tmp_path)
    assert not list((tmp_path / "cache").iterdir())


# What changes at random

EVERYTHING = AugmentConfig(shift=2, flip=True, light=0.3, cutout=3)


@given(st.integers(0, 1000), st.integers(0, 50), st.permutations(range(12)))
def test_changes_follow_from_seed_epoch_and_example_alone(seed: int, epoch: int, order: list[int]):
    images = np.stack([noise(number, 8) for number in range(12)])
    examples = np.arange(12) + 100
    whole = EVERYTHING.apply(images, examples, seed=seed, epoch=epoch)
    np.testing.assert_array_equal(
        EVERYTHING.apply(images[order], examples[order], seed=seed, epoch=epoch), whole[order]
    )
    one = EVERYTHING.apply(images[3:4], examples[3:4], seed=seed, epoch=epoch)
    np.testing.assert_array_equal(one[0], whole[3])
    other = EVERYTHING.apply(images, examples, seed=seed, epoch=epoch + 1)
    assert (other != whole).any()


def test_only_a_training_store_changes_its_images(store: ImageStore, tmp_path: Path):
    changing, some = opened(tmp_path, EVERYTHING), np.arange(8)
    assert changing.folder == store.folder  # the pixels are kept once
    np.testing.assert_array_equal(store.images(some, epoch=1)["image"], store.images(some, epoch=2)["image"])
    first, second = (changing.images(some, epoch=epoch)["image"] for epoch in (1, 2))
    assert (first != second).any()
    np.testing.assert_array_equal(first, changing.images(some, epoch=1)["image"])


def test_random_numbers_are_even():
    drawn = uniforms(np.arange(20_000), 7, seed=3, epoch=5)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    np.testing.assert_allclose(drawn.mean(0), 0.5, atol=0.01)
    np.testing.assert_allclose(np.corrcoef(drawn.T), np.eye(7), atol=0.03)


@given(st.integers(-3, 3), st.integers(-3, 3), st.booleans())
def test_a_move_is_a_crop_of_the_padded_image(down: int, right: int, mirrored: bool):
    image = noise(1, 7)
    padded = np.pad(image, ((3, 3), (3, 3), (0, 0)))
    crop = padded[3 - down : 10 - down, 3 - right : 10 - right]
    expected = crop[:, ::-1] if mirrored else crop
    found = moved(image[None], np.array([down]), np.array([right]), np.array([mirrored]))[0]
    np.testing.assert_array_equal(found, expected)


@given(st.floats(0.5, 1.5), st.floats(0.5, 1.5))
def test_light_multiplies_brightness_then_the_distance_from_the_mean(brightness: float, contrast: float):
    image = noise(2, 6)
    bright = image * brightness
    expected = (bright.mean() + (bright - bright.mean()) * contrast).clip(0, 255)
    found = lit(image[None], np.array([brightness]), np.array([contrast]))[0]
    assert found.dtype == np.uint8
    assert np.abs(found - expected).max() <= 0.5 + 1e-3


def test_a_hole_is_a_grey_square():
    images = np.zeros((2, 8, 8, 3), np.uint8)
    found = holed(images, np.array([[0.5, 0.5], [0.0, 0.0]]), 4)
    assert (found[0, 2:6, 2:6] == 128).all()
    assert found[0].sum() == 16 * 3 * 128
    assert found[1].sum() == 4 * 3 * 128  # only its corner lies inside


def test_shifts_reach_as_far_as_they_may_and_no_further():
    image = np.zeros((400, 9, 9, 1), np.uint8)
    image[:, 4, 4] = 255
    found = AugmentConfig(shift=2).apply(image, np.arange(400), seed=1, epoch=1)
    rows, columns = np.nonzero(found.sum((0, 3)))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (2, 6, 2, 6)


def test_light_keeps_grey_grey_and_leaves_the_size():
    images = np.stack([np.full((5, 5, 3), 100, np.uint8)] * 50)
    found = AugmentConfig(light=0.5).apply(images, np.arange(50), seed=1, epoch=1)
    assert found.dtype == np.uint8
    assert len({int(image[0, 0, 0]) for image in found}) > 10
    assert all((image == image[0, 0]).all() for image in found)
