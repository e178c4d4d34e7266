"""Schemathesis on the OpenAPI document: whatever it sends, the answer is documented, well formed and no accident."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.generation import GenerationMode

# The server runs in this process: its threads may use `random` while Hypothesis draws, which it then warns about.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")
CONFIG = SchemathesisConfig.from_dict(
    {
        # 400 and 413 are for what a schema cannot say, such as which tokens a run has and how many a text is.
        "checks": {
            "positive_data_acceptance": {"expected-statuses": ["2xx", "400", "404", "413"]},
            "negative_data_rejection": {"expected-statuses": ["400", "404", "413", "415", "422"]},
        },
    }
)


@pytest.fixture(scope="module")
def document(server: str) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{server}/openapi.json", config=CONFIG)


ROUTES = [
    "POST /translate", "POST /translate_file", "GET /download_file/{name}", "GET /languages",
    "POST /v1/completions", "GET /v1/models", "GET /v1/models/{name}",
    "POST /classify", "POST /attention", "POST /images", "GET /runs/{name}/metrics", "GET /", "GET /health",
    "GET /metrics",
]  # fmt: skip

GIVEN = ("POST /translate", "POST /v1/completions", "POST /classify", "POST /attention", "POST /images", "GET /")
"""Routes that can be given what their schema does not allow."""
TRIALS = [(route, mode) for route in ROUTES for mode in GenerationMode if mode.is_positive or route in GIVEN]

SLOW = ("POST /attention", "GET /")


def try_out(document: schemathesis.BaseSchema, route: str, mode: GenerationMode, examples: int) -> None:
    method, path = route.split()
    strategy = document[path][method].as_strategy(generation_mode=mode)

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def every_answer_is_documented(case: schemathesis.Case) -> None:
        case.call_and_validate(timeout=60)

    every_answer_is_documented()


def test_all_routes_are_tried(document: schemathesis.BaseSchema):
    found = [operation.ok() for operation in document.get_all_operations()]
    assert sorted(f"{one.method.upper()} {one.path}" for one in found) == sorted(ROUTES)


@pytest.mark.parametrize(("route", "mode"), TRIALS)
def test_every_answer_is_documented(document: schemathesis.BaseSchema, route: str, mode: GenerationMode):
    try_out(document, route, mode, examples=2 if route in SLOW else 8)


@pytest.mark.slow
@pytest.mark.parametrize(("route", "mode"), TRIALS)
def test_every_answer_is_documented_at_length(document: schemathesis.BaseSchema, route: str, mode: GenerationMode):
    try_out(document, route, mode, examples=20 if route in SLOW else 200)
