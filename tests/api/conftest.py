"""The runs of the tour, trained for a few steps: the folder that examples and documents run in."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

STEPS = {"pairs": 2, "reviews": 4, "text": 4}


@pytest.fixture(scope="session")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `runs/pairs`, `runs/reviews` and `runs/text`."""
    import regard

    folder = tmp_path_factory.mktemp("tour")
    for name, steps in STEPS.items():
        few = {"data__valid__limit": 20} if name == "pairs" else {}
        regard.train(
            name, out=folder / "runs" / name, quiet=True,
            train={"steps": steps, "save_every": steps, "log_every": 1}, **few,
        )  # fmt: skip
    return folder


@pytest.fixture
def in_tour(tour: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tour)
    yield tour
    os.chdir(before)
