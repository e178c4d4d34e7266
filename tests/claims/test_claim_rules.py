"""Rules on constructed numbers: each claim can hold, be refuted and stay open, and the numbers alone decide."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.claims import CLAIMS
from regard.claims.claim import Finding, at_least, at_most, both, overall

LADDER = [[10.0**n, 5.0 * 10 ** (-0.1 * n)] for n in range(1, 6)]
FLAT = [[10.0**n, 5.0] for n in range(1, 6)]
BENT = [[10.0, 5.0], [100.0, 3.5], [1000.0, 2.75], [10000.0, 2.4], [100000.0, 2.2]]

HOLDS: dict[str, dict[str, Any]] = {
    "f1": {"changes": {"none": 1e-7, "rotary": 0.1}, "accuracy": {"none": 0.5, "sinusoidal": 1.0}},
    "f2": {"lengths": [8, 16, 32], "rnn": [8, 16, 32], "windows": [4, 8, 16], "attention": [3, 3, 3]},
    "f3": {
        "lengths": [8, 16, 32],
        "chain": {"rnn": [8, 16, 32], "attention": [3, 3, 3]},
        "seconds": {"rnn": [1, 2, 4], "attention": [1, 1, 1]},
    },
    "f4": {
        "depths": [1, 4],
        "bend": {"attention alone": [1e-7, 1e-6], "and feed-forward": [0.4, 0.5], "and residuals": [1e-7, 1e-7]},
        "spread": {"attention alone": [0.7, 1e-6], "and feed-forward": [0.7, 1e-3], "and residuals": [0.9, 0.8]},
    },
    "f5": {"leaks": {"full": 0.0}, "leak_without_mask": 1.0, "guess": 0.0625, "masked": 0.062, "unmasked": 0.97},
    "f6": {
        "widths": [4, 64, 1024],
        "unscaled": {"variance": [4, 64, 1024], "largest": [0.2, 0.7, 0.95], "jacobian": [0.2, 0.2, 0.06]},
        "scaled": {"variance": [1, 1, 1], "largest": [0.1, 0.1, 0.1], "jacobian": [0.18, 0.18, 0.18]},
    },
    "f7": {
        "heads": [1, 4],
        "flops": {"standard": [100, 100], "narrow": [100, 50], "wide": [100, 400]},
        "trained": [0.4, 0.5],
        "untrained": [0.1, 0.1],
    },
    "f8": {
        "depths": [2, 4, 8],
        "loss": {"with": [0.2, 0.1, 0.1], "without": [1.0, 1.5, 2.7]},
        "rough": {"with": 0.0, "without": 0.1},
        "landscape": {"with": [[2, 2, 2], [2, 0, 2], [2, 2, 3]], "without": [[2, 1, 2], [2, 1, 2], [2, 1, 3]]},
        "reach": 1.0,
    },
    "f9": {
        "budget": 300,
        "steps": {"before": [100, 110], "after": [200, 220], "none": [300, 300]},
        "rate": {"before": 0.01, "after": 0.01, "none": 0.001},
        "curve": {"before": [2, 0.4], "after": [2, 0.4], "none": [2, 1]},
    },
    "f10": {
        "lengths": [32, 256],
        "trained": 32,
        "loss": {"sinusoidal": [2, 3], "rotary": [2, 3], "relative": [2, 2], "t5": [2, 2], "alibi": [2, 2]},
        "learned_refused": True,
    },
    "f11": {
        "lengths": [2048, 4096, 8192, 16384],
        "flops": {"full": [4, 16, 64, 256]},
        "seconds": {
            "full": [1, 4, 16, 64], "linformer": [1, 2, 4, 8], "bigbird": [1, 2, 4, 8], "window": [1, 2, 4, 8]
        },
        "by_width": {"64": 1, "128": 2},
    },
    "f12": {"places": [1, 2, 3], "guess": 0.1, "vector": [0.3, 0.5, 0.7], "attention": [1.0, 1.0, 1.0]},
    "f13": {
        "distances": [0, 1, 2],
        "gradient": {"rnn": [1, 0.1, 1e-5], "gru": [1, 0.5, 0.2], "lstm": [1, 0.8, 0.5]},
        "remembered": {"rnn": 0.1, "gru": 1.0, "lstm": 1.0},
        "lengths": [8, 16],
        "path": [8, 16],
    },
    "f14": {
        "heads": ["1 of layer 1 (encoder)", "2 of layer 1 (encoder)"],
        "chosen": 1,
        "cases": 10,
        "accuracy": 1.0,
        "margin": 8.0,
        "accuracy_without": [1.0, 0.8],
        "lost": [0.0, 0.3],
        "looks": [0.5, 0.9],
    },
    "f15": {
        "data": "a corpus",
        "systems": [
            {"name": "Transformer", "bleu": 38.0, "flops": 1e14, "family": "attention"},
            {"name": "lstm", "bleu": 30.0, "flops": 1e14, "family": "recurrent"},
            {"name": "convs2s", "bleu": 32.0, "flops": 1e14, "family": "windows"},
        ],
    },
    "f16": {"ladders": {"size": LADDER, "data": LADDER, "compute": LADDER}},
    "f17": {
        "bend": {
            "all three": 0.5, "softmax alone": 0.4, "feed-forward bend alone": 0.2, "layer norm alone": 1e-7,
            "none of them": 1e-7,
        }
    },
}  # fmt: skip

REFUTES: dict[str, list[tuple[str, Any]]] = {
    "f1": [("changes.none", 0.2), ("changes.rotary", 1e-7), ("accuracy.none", 0.9), ("accuracy.sinusoidal", 0.5)],
    "f2": [("rnn", [8, 8, 8]), ("windows", [8, 16, 32]), ("attention", [3, 6, 12])],
    "f3": [("chain.rnn", [8, 8, 8]), ("chain.attention", [8, 16, 32])],
    "f4": [("bend.attention alone", [0.3, 0.3]), ("bend.and feed-forward", [1e-7, 1e-7])],
    "f5": [("leaks.full", 0.5), ("masked", 0.5), ("unmasked", 0.1)],
    "f6": [("unscaled.variance", [4, 4, 4]), ("scaled.variance", [1, 2, 4]), ("unscaled.largest", [0.1, 0.1, 0.1])],
    "f7": [("flops.standard", [100, 400]), ("trained", [0.1, 0.1])],
    "f8": [("loss.without", [1.0, 1.0, 1.0]), ("loss.with", [0.1, 1.0, 2.0]), ("rough.without", 0.0)],
    "f9": [("steps.none", [90, 90])],
    "f10": [("loss.sinusoidal", [2, 2]), ("learned_refused", False), ("loss.alibi", [2, 3]), ("loss.t5", [2, 3])],
    "f11": [("flops.full", [1, 2, 4, 8]), ("seconds.full", [1, 2, 4, 8]), ("seconds.bigbird", [1, 4, 16, 64])],
    "f12": [("attention", [0.3, 0.5, 0.7]), ("vector", [0.7, 0.5, 0.3])],
    "f13": [("gradient.rnn", [1, 0.9, 0.6]), ("path", [8, 8])],
    "f14": [("lost", [0.0, 0.01]), ("looks", [0.5, 0.5])],
    "f15": [("systems.1.bleu", 39.0), ("systems.2.bleu", 38.5)],
    "f16": [
        ("ladders.size", FLAT),
        ("ladders.data", list(map(list, zip([1, 10, 100, 1000], [5, 1, 4, 2], strict=True)))),
    ],
    "f17": [("bend.layer norm alone", 0.2), ("bend.softmax alone", 1e-7)],
}

LEAVES_OPEN: dict[str, tuple[str, Any]] = {
    "f1": ("changes.rotary", 1e-4),
    "f2": ("rnn", [8, 14, 26]),
    "f3": ("chain.rnn", [8, 14, 26]),
    "f4": ("bend.attention alone", [1e-3, 1e-3]),
    "f5": ("unmasked", 0.7),
    "f6": ("unscaled.largest", [0.1, 0.3, 0.6]),
    "f7": ("trained", [0.15, 0.15]),
    "f8": ("rough.without", 0.01),
    "f9": ("steps.none", [115, 116]),
    "f10": ("loss.t5", [2, 2.2]),
    "f11": ("seconds.full", [1, 2.8, 7.8, 22]),
    "f12": ("vector", [0.5, 0.52, 0.55]),
    "f13": ("gradient.rnn", [1, 0.5, 0.2]),
    "f14": ("accuracy", 0.5),
    "f15": ("systems.1.bleu", 37.5),
    "f16": ("ladders.size", BENT),
    "f17": ("bend.layer norm alone", 1e-3),
}


def changed(name: str, path: str, value: Any) -> dict[str, Any]:
    tree = deepcopy(HOLDS[name])
    *above, last = path.split(".")
    place: Any = tree
    for key in above:
        place = place[int(key) if isinstance(place, list) else key]
    place[last] = value
    return tree


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_holds_where_all_that_it_says_was_measured(name: str):
    findings = CLAIMS[name].check(HOLDS[name])
    assert [one for one in findings if one.verdict != "holds"] == []


@pytest.mark.parametrize(
    ("name", "change"), [(name, change) for name, changes in REFUTES.items() for change in changes]
)
def test_one_thing_that_was_not_measured_refutes_it(name: str, change: tuple[str, Any]):
    assert overall(CLAIMS[name].check(changed(name, *change))) == "does not hold"


@pytest.mark.parametrize("name", CLAIMS)
def test_numbers_between_the_two_leave_it_open(name: str):
    assert overall(CLAIMS[name].check(changed(name, *LEAVES_OPEN[name]))) == "inconclusive"


@pytest.mark.parametrize("name", CLAIMS)
def test_the_headline_follows_the_numbers(name: str):
    claim = CLAIMS[name]
    told = {claim.headline(changed(name, *change)) for change in REFUTES[name]}
    assert told - {claim.headline(HOLDS[name])}


@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(0, 5))
def test_at_most_mirrors_at_least(value: float, enough: float, gap: float):
    assert at_most(value, enough, enough + gap) == at_least(-value, -enough, -enough - gap)


@given(st.lists(st.sampled_from(["holds", "does not hold", "inconclusive"]), min_size=1))
def test_one_refutation_outweighs_everything(verdicts: list[Any]):
    found = overall([Finding("", "", verdict) for verdict in verdicts])
    assert found == both(*verdicts)
    assert (found == "does not hold") == ("does not hold" in verdicts)
    assert (found == "holds") == (set(verdicts) == {"holds"})


def test_no_number_proves_nothing():
    assert at_least(float("nan"), 1, 0) == at_most(float("nan"), 0, 1) == "inconclusive"
