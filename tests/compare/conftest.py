"""Runs of these tests are many and tiny: their curves, tested elsewhere, would take longer to draw than to train."""

import pytest

from regard.run import training


@pytest.fixture(autouse=True, scope="module")
def no_curves():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "curves", lambda *_: None)
        yield
