"""Tables as they are printed, and stars only where they belong."""

import io

import pytest
from rich.console import Console

from regard.compare import table
from regard.compare.queue import Outcome
from regard.compare.significance import Verdict
from regard.compare.table import Row


def runs(*scores: float, params: int = 1_234_567, flops: float = 6.004e14) -> list[Outcome]:
    return [Outcome(metrics={"bleu": score}, params=params, flops=flops, seconds=90) for score in scores]


def verdict(p_value: float, agree: bool = True) -> Verdict:
    return Verdict(p_value, agree, True, "nrefs:1|test:bs")


@pytest.fixture
def rows() -> list[Row]:
    return [
        Row("transformer", runs(38.0, 39.0, 40.0), "bleu", None, 1e-3),
        Row("lstm & co_1", runs(35.0, 35.5, 36.0, params=99), "bleu", verdict(0.0004), 1e-3),
        Row("luck", runs(39.5, 38.0, 40.5), "bleu", verdict(0.01, agree=False), 1e-3),
        Row("even", runs(39.1, 39.2), "bleu", verdict(0.4321), 1e-3),
        Row("broken", [Outcome(problem="the loss is nan | 100 %")] * 3, "bleu", None, 1e-3),
    ]


CAPTION = "test data, mean ± deviation of 3 seeds; 6e+14 training FLOPs each."


def test_markdown(rows: list[Row]):
    assert table.markdown(rows, "bleu", CAPTION) == (
        "| system | BLEU | p | parameters | training FLOPs | minutes |\n"
        "| --- | --: | --: | --: | --: | --: |\n"
        "| transformer | 39.0 ± 1.0 |  | 1,234,567 | 6e+14 | 1.5 |\n"
        "| lstm & co_1 | 35.5 ± 0.5* | < 0.001 | 99 | 6e+14 | 1.5 |\n"
        "| luck | 39.3 ± 1.3 | 0.010 | 1,234,567 | 6e+14 | 1.5 |\n"
        "| even | 39.2 ± 0.1 | 0.432 | 1,234,567 | 6e+14 | 1.5 |\n"
        "| broken | – |  | – | – | – |\n"
        f"\n{CAPTION}\n\n- broken: failed with 3 of 3 seeds: the loss is nan | 100 %\n"
    )


def test_latex(rows: list[Row]):
    assert table.latex(rows[:2], "bleu", CAPTION) == (
        "% \\usepackage{booktabs}\n\\begin{tabular}{lrrrrr}\n\\toprule\n"
        "system & BLEU & p & parameters & training FLOPs & minutes \\\\\n\\midrule\n"
        "transformer & 39.0 $\\pm$ 1.0 &  & 1,234,567 & 6e+14 & 1.5 \\\\\n"
        "lstm \\& co\\_1 & 35.5 $\\pm$ 0.5$^*$ & $<$ 0.001 & 99 & 6e+14 & 1.5 \\\\\n"
        f"\\bottomrule\n\\end{{tabular}}\n% {CAPTION}\n"
    )


def test_terminal(rows: list[Row]):
    stream = io.StringIO()
    Console(file=stream, width=80).print(table.terminal(rows, "bleu"))
    lines = stream.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert any("35.5 ± 0.5*" in line and "< 0.001" in line for line in lines)


@pytest.mark.parametrize(
    ("metric", "score", "shown"),
    [("accuracy", 0.8125, "81.2"), ("loss", 1.23456, "1.235"), ("perplexity", 95.25, "95.2")],
)
def test_scores_are_shown_in_their_own_units(metric: str, score: float, shown: str):
    row = Row("one", [Outcome(metrics={metric: score})], metric, None, 1e-3)
    assert row.score(metric, table.digits_of([row], metric)) == shown
    assert table.heads(metric)[1].endswith(" (%)") == (metric == "accuracy")


def test_a_star_never_stands_at_a_figure_that_looks_the_same():
    first, close = runs(38.0, 39.0), runs(38.02, 39.02)
    rows = [Row("first", first, "bleu", None, 1e-3), Row("close", close, "bleu", verdict(0.01), 1e-3)]
    assert [row.score("bleu", table.digits_of(rows, "bleu")) for row in rows] == ["38.50 ± 0.71", "38.52 ± 0.71*"]
    without = [rows[0], Row("close", close, "bleu", verdict(0.6), 1e-3)]
    assert table.digits_of(without, "bleu") == 1


def test_the_caption_explains_the_star_only_where_there_is_a_test(rows: list[Row]):
    assert table.caption_of(rows[:1], "test", 3, "6e+14 training FLOPs each") == CAPTION
    assert "* differs from transformer: p < 0.05" in table.caption_of(rows, "test", 3, "6e+14 training FLOPs each")


def test_the_picture_shows_every_row_that_came_through(rows: list[Row]):
    by_name, by_flops = table.draw(rows, "bleu").axes
    assert [text.get_text() for text in by_name.get_yticklabels()] == ["transformer", "lstm & co_1*", "luck", "even"]
    assert by_flops.get_xscale() == "log"
