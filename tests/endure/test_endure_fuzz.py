"""Any bytes in files of data, recipes, run folders, models from elsewhere and requests: a sentence at worst."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz_targets import NAMES, Targets
from fuzz_trials import inputs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# The server's threads run in this process, and may use `random` while Hypothesis draws, which it then warns about.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")
EXAMPLES = {"recipe": 40, "readers": 40, "run": 15, "import": 15, "http": 40}


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Targets]:
    with Targets(tmp_path_factory.mktemp("fuzz")) as made:
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_themselves_are_taken(targets: Targets, name: str):
    assert [targets.try_one(name, seed) for seed in targets.seeds(name)].count("taken") > len(targets.seeds(name)) / 2


@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_are_taken_or_refused_with_a_sentence(targets: Targets, name: str):
    @settings(max_examples=EXAMPLES[name], suppress_health_check=list(HealthCheck))
    @given(inputs(targets.seeds(name)))
    def survives(data: bytes) -> None:
        assert targets.try_one(name, data) in ("taken", "refused")

    survives()


@given(st.binary(max_size=50))
@settings(max_examples=5)
def test_a_target_that_fails_or_hangs_would_be_noticed(data: bytes):
    class Broken(Targets):
        def _broken(self, data: bytes) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Broken(Path()).try_one("broken", data)
