"""Folders with random settings, as transformers writes them: the same logits here, within 1e-5."""

from pathlib import Path

import pytest
from random_folders import ARCHITECTURES, difference, write_random

from regard.export.huggingface.import_model import read_folder

SEEDS = range(5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_settings_compute_the_same(architecture: str, seed: int, tmp_path: Path) -> None:
    settings = write_random(architecture, seed, tmp_path)
    imported = read_folder(tmp_path)
    assert imported.architecture.class_name == architecture
    assert difference(imported, tmp_path) <= 1e-5, settings


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_many_random_settings_compute_the_same(architecture: str, tmp_path: Path) -> None:
    for seed in range(len(SEEDS), 60):
        settings = write_random(architecture, seed, tmp_path / str(seed))
        assert difference(read_folder(tmp_path / str(seed)), tmp_path / str(seed)) <= 1e-5, settings
