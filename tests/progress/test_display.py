"""Phases of work and how they are shown: on a terminal, in a file, or not at all."""

import io
import os
import threading
from contextlib import closing

import pytest
from rich.console import Console

from regard.progress import VERBOSITY, Phase, current_display, phase, shown_on, tracked
from regard.progress.display import (
    LineDisplay,
    LiveDisplay,
    bar,
    duration,
    fitted,
    is_live,
    is_unicode,
    make_display,
    phase_line,
    with_bar,
    wrapped,
)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_without_a_display_nothing_is_counted():
    assert current_display() is None
    assert list(tracked(iter("abc"), "reading")) == ["a", "b", "c"]
    with phase("storing") as advance:
        advance(3)


def test_short_phases_say_nothing_and_longer_ones_one_line(clock: list[float]):
    stream = io.StringIO()
    with shown_on(LineDisplay(lasting=True, stream=stream)):
        for _ in tracked(range(5), "reading", unit="pairs"):
            clock[0] += 0.05
        for _ in tracked(range(4), "storing", unit="pairs"):
            clock[0] += 0.3
    assert stream.getvalue() == "storing: 4 pairs in 1.2 s\n"


def test_long_phases_say_how_far_they_are_now_and_then(clock: list[float]):
    stream = io.StringIO()
    with shown_on(LineDisplay(lasting=True, stream=stream)):
        for _ in tracked(range(30), "storing", total=30, unit="pairs"):
            clock[0] += 1
    said = stream.getvalue().splitlines()
    assert said[:2] == ["storing: 2 pairs, 7% after 2.0 s", "storing: 12 pairs, 40% after 12 s"]
    assert said[-1] == "storing: 30 pairs in 30 s"
    assert len(said) == 4


def test_what_is_not_lasting_speaks_every_ten_seconds_only(clock: list[float]):
    stream = io.StringIO()
    with shown_on(LineDisplay(stream=stream)), phase("testing"):
        for _ in tracked(range(25), "measuring", unit="batches"):
            clock[0] += 1
    assert stream.getvalue().splitlines() == ["testing: 10 batches after 10 s", "testing: 20 batches after 20 s"]


def test_a_reader_that_is_left_early_ends_its_phase():
    display = LineDisplay(stream=io.StringIO())
    with shown_on(display):
        with closing(tracked(range(10), "reading")) as read:
            next(read)
            assert [one.label for one in display.phases] == ["reading"]
        assert display.phases == []


def test_other_threads_show_nothing():
    found = []
    with shown_on(LineDisplay(stream=io.StringIO())):
        thread = threading.Thread(target=lambda: found.append(current_display()))
        thread.start()
        thread.join()
    assert found == [None]


def test_the_live_line_counts_for_the_outermost_phase_and_fits():
    display = LiveDisplay(console=Console(file=Terminal(), force_terminal=True, width=80))
    with shown_on(display), phase("testing"), phase("generating", 200, "texts") as advance:
        advance(50)
        for width in (79, 40, 20):
            (line,) = display.lines(width)
            assert line.startswith("testing")
            assert len(line) <= width
        assert "25%" in display.lines(79)[0]
        display.stop()
    assert display.lines(79) == []


def test_the_live_line_leaves_standard_output_alone(capsys: pytest.CaptureFixture[str]):
    file = Terminal()
    display = LiveDisplay(console=Console(file=file, force_terminal=True, width=80))
    with shown_on(display), phase("testing"):
        display.start()
        print("a result")  # noqa: T201
        display.say("a note")
    assert capsys.readouterr().out == "a result\n"
    assert "a note" in file.getvalue()


def test_colours_follow_no_color(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    display = LiveDisplay(console=Console(file=(file := Terminal()), force_terminal=True, width=80))
    display.say("over-fitting since step 600")
    assert file.getvalue() == "over-fitting since step 600\n"


def test_which_display_suits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(make_display(stream=Terminal()), LiveDisplay)
    assert isinstance(make_display(stream=io.StringIO()), LineDisplay)
    monkeypatch.setenv("TERM", "dumb")
    assert not is_live(Terminal())
    token = VERBOSITY.set("quiet")
    assert make_display() is None
    VERBOSITY.reset(token)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (12, "12 s"), (133, "2:13"), (3733, "1:02:13")]
)
def test_durations(seconds: float, said: str):
    assert duration(seconds) == said


def test_lines_lose_their_optional_parts_first():
    parts = ["step 1", "12%", "loss 2.000", "lr 1.0e-03", "1,000 tokens/s"]
    assert fitted(parts, 80) == "  ".join(parts)
    assert fitted(parts, 40, (3, 4)) == "step 1  12%  loss 2.000  1,000 tokens/s"
    assert fitted(parts, 30, (3, 4)) == "step 1  12%  loss 2.000"
    assert len(with_bar(parts, 0.5, 79)) <= 79
    assert with_bar(parts, 0.5, 79).count("━") == with_bar(parts, 0.5, 79).count("─")


def test_streams_without_the_characters_get_plain_ones():
    with open(os.devnull, "w", encoding="latin-1") as stream:
        assert not is_unicode(stream)
    assert bar(0.5, 4, unicode=False) == "##--"
    assert phase_line(Phase("storing", "pairs", 4, 2), "storing", 60, unicode=False).isascii()


def test_sentences_are_cut_between_words_and_paths_stay_whole():
    text = "resume with: regard train " + "a" * 70 + "/recipe.toml --resume"
    assert f"{'a' * 70}/recipe.toml" in wrapped(text, 40)
    assert wrapped("short\n  regard serve runs/a", 40) == "short\n  regard serve runs/a"
