"""Runs of these tests are many and tiny: their curves, tested elsewhere, would take longer to draw than to train."""

import pytest

from regard.run import conclusion


@pytest.fixture(autouse=True, scope="module")
def no_curves():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conclusion, "curves", lambda *_: None)
        yield
