"""The picture of a run: what stands in it for short, long, resumed and single-validation runs."""

import math
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image

from regard.metrics.baseline import Baseline
from regard.train.curves import curves, draw, running_mean
from regard.train.log import MetricsLog

RESUME = {"event": "resume"}


def train_lines(steps: range, **more: Any) -> list[dict[str, Any]]:
    return [{"step": step, "split": "train", "loss": 6 / (1 + step / 20), "lr": 1e-3, **more} for step in steps]


def valid_lines(steps: range, **scores: float) -> list[dict[str, Any]]:
    return [{"step": step, "split": "valid", "loss": 6.1 / (1 + step / 20), **scores} for step in steps]


def labels(axes: Any) -> list[str]:
    return axes.get_legend_handles_labels()[1]


def test_a_picture_can_be_opened_and_takes_the_place_of_an_older_one(tmp_path: Path):
    file, png = tmp_path / "metrics.jsonl", tmp_path / "curves.png"
    png.write_text("old")
    with MetricsLog(file) as log:
        for step in range(1, 300):
            numbers = {"tokens": 9 * step, "seconds": 0.5 * step, "tokens_per_second": 8.0, "flops": 1e9, "lr": 1e-3}
            log.write(step=step, split="train", loss=math.inf if step == 7 else 1 / step, **numbers)
            if step % 50 == 0:
                log.write(step=step, split="valid", loss=1 / step, accuracy=0.5, epoch=step / 100, **numbers)
    curves(file, png, "run: classification", "accuracy", [Baseline("always 'a'", {"loss": 0.6, "accuracy": 0.4})])
    height, width = image.imread(png).shape[:2]
    assert min(height, width) > 500
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.png", "metrics.jsonl"]


def test_losses_share_a_panel_with_the_best_marked_and_the_baseline_dashed():
    lines = [*train_lines(range(1, 9)), *valid_lines(range(4, 9, 4))]
    figure = draw(lines, "demo: translation", "loss", [Baseline("each token by its frequency", {"loss": 5.2})])
    loss = figure.axes[0]
    assert figure.get_suptitle() == "demo: translation"
    assert (loss.get_xlabel(), loss.get_ylabel()) == ("step", "loss (nats)")
    assert labels(loss) == [
        "training", "validation", "best: loss 4.357 at step 8", "trivial: loss 5.200 (each token by its frequency)",
    ]  # fmt: skip
    assert loss.lines[-1].get_linestyle() == "--"


def test_the_score_that_chooses_has_its_own_panel_and_its_best_is_marked_in_both():
    valid = [{"step": step, "split": "valid", "loss": loss, "chrf": 1.0, "bleu": bleu}
             for step, loss, bleu in ((10, 2.0, 5.0), (20, 1.5, 9.0), (30, 1.4, 8.0))]  # fmt: skip
    loss, score, *_ = draw([*train_lines(range(1, 31)), *valid], metric="bleu").axes
    assert score.get_ylabel() == "BLEU"
    assert "best: BLEU 9.0 at step 20" in labels(score)
    assert "kept: loss 1.500 at step 20" in labels(loss), "the best loss is another one"


def test_shares_are_drawn_in_per_cent():
    score = draw(valid_lines(range(1, 3), accuracy=0.25), metric="accuracy").axes[1]
    assert score.get_ylabel() == "accuracy (%)"
    assert list(score.lines[0].get_ydata()) == [25.0, 25.0]


@pytest.mark.parametrize(
    "lines", [[], train_lines(range(1, 2)), valid_lines(range(1, 2))], ids=["none", "one", "valid"]
)
def test_hardly_any_lines_make_a_picture_too(lines: list, tmp_path: Path):
    draw(lines, "short").savefig(tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 0


def test_a_long_curve_is_faint_with_its_running_mean_on_top():
    lines = [{"step": i, "split": "train", "loss": float(i % 2)} for i in range(500)]
    raw, mean = draw(lines).axes[0].lines
    assert (len(raw.get_xdata()), raw.get_alpha()) == (500, 0.25)
    assert max(abs(value - 0.5) for value in mean.get_ydata()[20:-20]) < 0.05


def test_the_running_mean_passes_over_what_is_no_number():
    assert running_mean([1.0, math.nan, 3.0, 3.0], 3)[1] == 2.0


def test_a_resumed_run_says_where():
    lines = [*train_lines(range(1, 9)), {**RESUME, "step": 4}, {**RESUME, "step": 0}]
    texts = [text.get_text() for text in draw(lines).axes[0].texts]
    assert texts == ["resumed"], "the beginning is no resumption"


def test_a_steep_beginning_does_not_press_the_rest_flat():
    lines = [{"step": i, "split": "train", "loss": 50.0 if i < 5 else 2 - i / 200} for i in range(1, 200)]
    assert draw(lines).axes[0].get_ylim()[1] < 3


def test_epochs_and_times_stand_above():
    lines = train_lines(range(1, 101))
    lines = [{**line, "seconds": line["step"], "epoch": line["step"] / 50} for line in lines]
    (above,) = [child for child in draw(lines).axes[0].child_axes]
    assert [tick.get_text() for tick in above.get_xticklabels()][-1] == "epoch 2.0, 1:40"
