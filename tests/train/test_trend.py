"""Smoothed losses, speeds and trends, and the lines made of them."""

import io
import math
import re

import pytest
from rich.console import Console

from regard.progress import VERBOSITY
from regard.train.progress import Bar, Lines, Progress, Quiet, make_watcher
from regard.train.trend import SmoothedLoss, Speed, shown_scores, shown_value, sparkline, verdict


def line(step: int, loss: float = 2.0, **more: float) -> dict:
    return {"step": step, "split": "train", "loss": loss, "lr": 1e-3, "tokens": 100 * step, "seconds": 0.1 * step,
            "tokens_per_second": 1000.0, "flops_per_second": 1e9, **more}  # fmt: skip


def test_a_smoothed_loss_begins_at_the_first_and_follows():
    smoothed = SmoothedLoss(10)
    assert smoothed.add(4.0) == pytest.approx(4.0)
    assert smoothed.add(math.nan) == pytest.approx(4.0)
    assert all(3.0 <= smoothed.add(3.0) <= 4.0 for _ in range(100))
    assert smoothed.value == pytest.approx(3.0, abs=0.01)


def test_speed_leaves_validations_out():
    now = iter([0.0, 1.0, 6.0, 106.0, 107.0])
    speed = Speed(lambda: next(now))
    assert [speed.add(0), speed.add(100), speed.add(600)] == [None, 100.0, 100.0]
    speed.pause()
    assert [speed.add(600), speed.add(700)] == [100.0, 100.0]


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([], ""), ([1.0], ""), ([1.0, 2.0], "▁█"), ([3.0, 1.0, 2.0], "█▁▅"), ([2.0, 2.0], "▁▁"), ([math.nan, 1, 2], "▁█")],
)
def test_trends_are_drawn_from_low_to_high(values: list[float], drawn: str):
    assert sparkline(values) == drawn
    assert sparkline(values, unicode=False).isascii()


@pytest.mark.parametrize(
    ("values", "metric", "said"),
    [
        ([2.0], "loss", ""),
        ([2.0, 1.0], "loss", "↓ best so far"),
        ([1.0, 2.0], "loss", "↑ worse"),
        ([1.0, 3.0, 2.0], "loss", "↓ better"),
        ([1.0, 3.0, 3.0], "loss", "as before"),
        ([10.0, 20.0], "bleu", "↑ best so far"),
        ([20.0, 10.0], "bleu", "↓ worse"),
        ([1.0, math.nan], "loss", ""),
    ],
)
def test_better_and_worse_follow_the_metric(values: list[float], metric: str, said: str):
    assert verdict(values, metric) == said
    assert verdict(values, metric, unicode=False).isascii()


def test_scores_are_shown_as_people_read_them():
    assert [shown_value(*pair) for pair in (("loss", 1.8134), ("accuracy", 0.841), ("bleu", 23.44))] == [
        "loss 1.813", "accuracy 84.1%", "BLEU 23.4",
    ]  # fmt: skip
    scores = {"step": 3, "chrf": 40.0, "bleu": 20.0, "loss": 2.0, "ter": 70.0}
    assert shown_scores(scores, "bleu") == "loss 2.000, BLEU 20.0, chrF 40.0"


def test_plain_lines_are_smoothed_throttled_and_narrow():
    stream = io.StringIO()
    with Lines(stream=stream) as watcher:
        watcher.started("bleu", [])
        for step in range(1, 200):
            watcher.step(line(step, loss=1.0 if step % 2 else 3.0), step / 200)
        watcher.measured({**line(200), "split": "valid", "bleu": 10.0})
        watcher.measured({**line(300), "split": "valid", "bleu": 12.0})
        watcher.detail("why")
    said = stream.getvalue().splitlines()
    assert len(said) == 3, "a line in ten seconds, and one for each validation"
    assert said[0].startswith("step 1  0%  loss 1.000  lr 1.0e-03")
    assert said[2] == "step 300  validation: loss 2.000, BLEU 12.0  _# ^ best so far"
    assert all(len(one) <= 80 for one in said)


def test_a_resumed_run_goes_on_with_its_trend():
    told = Progress()
    told.started(
        "loss", [{"split": "valid", "loss": 3.0}, {"split": "valid", "loss": 2.0, "averaged": 3}, {"event": "x"}]
    )
    assert told.validation({"step": 5, "loss": 2.5}, unicode=True)[-1] == "█▁ ↓ best so far"


@pytest.mark.parametrize("width", [80, 60, 40])
def test_the_bar_fits_its_terminal(width: int):
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=20)
    bar = Bar(console=console)
    for step in (1, 12_345, 1_234_567):
        bar.step(line(step), min(1.0, step / 1e6))
        (drawn,) = bar.lines(width)
        assert len(drawn) <= width
        assert drawn.startswith(f"step {step:,}")


def test_the_screen_shows_sentences_above_the_bar_and_leaves_no_bar():
    file = io.StringIO()
    with Bar(console=Console(file=file, force_terminal=True, width=80, height=20)) as bar:
        bar.started("loss", [])
        bar.step(line(1), 0.5)
        bar.say("a sentence that is longer than the terminal is wide, and is therefore cut between two of its words")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    assert "between\n  two of its words" in text.replace("\r", "") or "\n  " in text
    assert all(len(one) <= 80 for one in re.split(r"[\r\n]", text))


def test_quiet_and_verbose(capsys: pytest.CaptureFixture[str]):
    for verbosity, said in (("quiet", []), ("normal", ["note"]), ("verbose", ["reason", "note"])):
        token = VERBOSITY.set(verbosity)
        try:
            with make_watcher() as watcher:
                watcher.detail("reason")
                watcher.say("note")
            assert isinstance(watcher, Quiet) == (verbosity == "quiet")
        finally:
            VERBOSITY.reset(token)
        assert capsys.readouterr().err.split() == said
