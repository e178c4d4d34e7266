"""Each of the ten parts in a real browser, opened from disk with the network off; its numbers are the model's."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import api
from regard.look import render
from regard.nn.attention.reference import AttentionSteps, record_attention
from regard.nn.layout import Sequences
from regard.text.special_tokens import BOS, EOS

TEXT = "The animal did not cross the street because it was too tired."
EXACT = 1e-4


@pytest.fixture(scope="module")
def recorded(run: api.Run, tree: dict[str, Any]) -> dict[str, list[AttentionSteps]]:
    """The same pass, recorded without the page's help."""
    task: Any = run.task
    target = [BOS, *task.target.encode(tree["output"])]
    assert task.target.tokens(target) == tree["sentences"]["target"]["tokens"]
    with record_attention(run.model) as seen, torch.no_grad():
        run.model(Sequences.padded([[*task.source.encode(TEXT), EOS]]), Sequences.padded([target]))
    return seen


def choose(page: Any, tab: str, layer: int, head: int) -> None:
    page.get_by_role("tab", name=tab).click()
    page.locator(f'.small[data-layer="{layer}"][data-head="{head}"]').click()


def walk_to(page: Any, query: int, key: int) -> str:
    """Walks over the matrix by keyboard, from its first cell."""
    matrix = page.locator("#head .over")
    matrix.focus()
    matrix.press("Escape")
    matrix.press("Enter")
    for name, times in (("ArrowDown", query), ("ArrowRight", key)):
        for _ in range(times):
            matrix.press(name)
    return page.locator("#head .readout").inner_text()


def test_1_sentence_bar_shows_what_is_read_and_written(opened: Any, tree: dict[str, Any]):
    page = opened()
    words = page.locator('#sentence .word[data-side="source"]').all_inner_texts()
    assert words == [*TEXT.rstrip(".").split(), ".", "<eos>"]
    written = page.locator('#sentence .word[data-side="target"]').all_inner_texts()
    assert "".join(written[1:]) == tree["output"].replace(" ", "")
    assert "Forced target" in page.locator("#sentence").inner_text()
    assert "regard serve" in page.locator("#sentence").inner_text()
    page.locator("#sentence .word", has_text="it").first.click()
    assert "“it” attends to" in page.locator("#head .readout").inner_text()


def test_2_overview_sorts_all_heads_of_each_kind(opened: Any, tree: dict[str, Any]):
    page = opened()
    for group in tree["groups"]:
        page.get_by_role("tab", name=group["title"]).click()
        assert page.locator("#overview .small").count() == sum(layer["heads"] for layer in group["layers"])
    page.get_by_role("tab", name="Cross-attention").click()
    layers = next(group for group in tree["groups"] if group["name"] == "cross")["layers"]
    for measure in ("entropy", "distance", "previous", "alignment"):
        page.get_by_label("Sort by").select_option(measure)
        shown = [
            float(text.split("·")[1].split()[0]) for text in page.locator("#overview .small span").all_inner_texts()
        ]
        true = sorted((value for layer in layers for value in layer["measures"][measure]), reverse=True)
        assert shown == pytest.approx(true, abs=0.006)


@pytest.mark.parametrize(
    ("tab", "module"),
    [
        ("Encoder", "encoder.blocks.1.attention"),
        ("Decoder", "decoder.blocks.1.attention"),
        ("Cross-attention", "decoder.blocks.1.cross"),
    ],
)
def test_3_one_head_says_the_exact_weights(
    opened: Any, recorded: dict[str, list[AttentionSteps]], tab: str, module: str
):
    page = opened()
    page.get_by_label("join pieces into words").uncheck()
    choose(page, tab, 1, 1)
    weights = recorded[module][0].weights[0, 1]
    for query, key in ((0, 0), (3, 2), (2, 1)):
        told = walk_to(page, query, key)
        assert float(told.split(": ")[1].split()[0]) == pytest.approx(float(weights[query, key]), abs=EXACT)


def test_3_words_join_their_pieces(opened: Any, recorded: dict[str, list[AttentionSteps]], tree: dict[str, Any]):
    page = opened()
    choose(page, "Encoder", 0, 0)
    weights = recorded["encoder.blocks.0.attention"][0].weights[0, 0].numpy()
    words = np.array(tree["sentences"]["source"]["words"])
    joined = np.stack([weights[:, words == word].sum(1) for word in range(words.max() + 1)], 1)
    query, key = 8, 6
    expected = joined[words == query].mean(0)[key]
    told = walk_to(page, query, key)
    assert told.startswith("“it” → “street”")
    assert float(told.split(": ")[1].split()[0]) == pytest.approx(expected, abs=EXACT)


def test_3_weightings_pin_and_pointer(opened: Any):
    page = opened()
    told = {}
    for weighting in ("raw", "rollout", "norm"):
        page.get_by_label("Weighting").select_option(weighting)
        told[weighting] = walk_to(page, 2, 3)
    assert len(set(told.values())) == 3
    assert told["raw"].endswith("(pinned)")
    page.locator("#head .over").press("Escape")
    assert page.locator("#head .readout").inner_text() == "Point at a cell to read its weight."
    box = page.locator("#head .lines canvas").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 20)
    assert page.locator("#head .readout").inner_text().startswith("“The” attends to")
    page.mouse.move(box["x"] + box["width"] - 60, box["y"] + 20)
    assert page.locator("#head .readout").inner_text().startswith("“The” is attended to by")


def test_4_four_steps_show_the_model_s_numbers(opened: Any, recorded: dict[str, list[AttentionSteps]]):
    page = opened()
    page.get_by_label("join pieces into words").uncheck()
    choose(page, "Decoder", 0, 1)
    walk_to(page, 2, 0)
    steps = recorded["decoder.blocks.0.attention"][0]
    more = page.locator("#steps .more")
    if more.count():
        more.click()

    def column(name: str) -> list[float]:
        texts = page.locator(f'#steps td[data-step="{name}"]').all_inner_texts()
        return [float(text.strip().replace("−∞", "-inf").replace("−", "-")) for text in texts]

    for name in ("scores", "scaled", "masked", "weights"):
        true = getattr(steps, name)[0, 1, 2].tolist()
        assert column(name) == pytest.approx(true, abs=6e-3)
    assert column("masked")[3] == -np.inf


def test_5_generation_steps_temperature_and_nucleus(opened: Any, tree: dict[str, Any]):
    page = opened()
    step = tree["generation"]["steps"][1]
    page.get_by_label("one step on").click()
    assert page.locator("#generation .bars .label").first.inner_text() == step["top"][0][0]
    amounts = lambda: page.locator("#generation .bars .amount").all_inner_texts()  # noqa: E731
    assert float(amounts()[0].split()[0]) == pytest.approx(100 * np.exp(step["top"][0][1]), abs=0.06)
    page.get_by_label("Temperature").fill("0.5")
    squared = sum(np.exp(2 * p) for _, p in step["top"]) + sum(n * np.exp(2 * p) for n, p in step["tail"])
    assert float(amounts()[0].split()[0]) == pytest.approx(100 * np.exp(2 * step["top"][0][1]) / squared, abs=0.06)
    page.get_by_label("Temperature").fill("1")
    page.get_by_label("Top-p").fill("0.2")
    reached = np.cumsum([0, *(np.exp(p) for _, p in step["top"])])
    kept = int((reached[:-1] < 0.2).sum())
    assert page.locator("#generation .bars .dropped").count() == len(step["top"]) - kept
    if kept < len(step["top"]):
        assert float(amounts()[0].split()[0]) == pytest.approx(100 * reached[1] / reached[kept], abs=0.06)


def test_5_beam_tree_has_every_branch(opened: Any, tree: dict[str, Any]):
    page = opened()
    branches = tree["generation"]["beam"]["branches"]
    assert page.locator("#generation .leaf").count() == len(branches)
    assert page.locator("#generation .leaf.pruned").count() == sum(branch[5] == "pruned" for branch in branches) > 0
    page.get_by_label("show pruned branches").uncheck()
    assert page.locator("#generation .leaf.pruned").count() == 0
    won = page.locator("#generation .leaf.won title").all_text_contents()
    assert all("log-probability" in text for text in won)


def test_6_positions_and_shuffling(opened: Any, tree: dict[str, Any]):
    page = opened()
    assert page.locator("#positions h2").inner_text() == "Positions: sinusoidal"
    assert page.locator("#positions figure").count() == 3
    page.get_by_role("button", name="Shuffle the words").click()
    assert page.locator("#positions .moved").count() == len(tree["shuffles"][0]["tokens"])
    assert tree["shuffles"][0]["output"] in page.locator("#positions .shuffled").inner_text()


def test_7_paths_are_counted_and_played(opened: Any):
    page = opened(reduced_motion="no-preference")
    page.locator("#paths select").first.select_option("1")
    page.locator("#paths select").last.select_option("9")
    counts = page.locator("#paths .count").all_text_contents()
    assert counts == ["8 steps", "4 layers", "1 layer"]
    assert "at least 1 layer lies" in page.locator("#paths .readout").inner_text()
    assert re.search(r"By gradient, .* has \d+\.\d % of all influence", page.locator("#paths .readout").inner_text())
    page.get_by_role("button", name="Play").click()
    page.wait_for_selector("#paths .hop.moving")


def test_8_coreference_says_that_this_model_fails(opened: Any, tree: dict[str, Any]):
    page = opened()
    assert not tree["coreference"]["right"]
    assert "This model gets" in page.locator("#coreference .verdict.failed").inner_text()
    assert page.locator("#coreference .panel").count() == 2
    chosen = int(page.locator("#coreference select").input_value())
    page.get_by_label("switch this head off", exact=True).check()
    sentence = tree["coreference"]["sentences"][0]
    moved = max(abs(a - b) for a, b in zip(sentence["without"][chosen], sentence["probabilities"], strict=True))
    told = page.locator("#coreference .moves").first.inner_text()
    assert ("points" in told) == (moved >= 0.0005)
    assert page.get_by_text("difference: the second sentence minus the first").count() == 1


def test_8_coreference_says_that_a_model_is_right(opened: Any, tree: dict[str, Any], tmp_path: Any):
    right = {**tree["coreference"], "right": True}
    file = tmp_path / "right.html"
    file.write_text(render({**tree, "coreference": right}), encoding="utf-8")
    assert opened(file).locator("#coreference .verdict").inner_text() == "This model gets both right."


def test_9_training_has_curves_resume_marks_and_checkpoints(opened: Any, tree: dict[str, Any]):
    page = opened()
    assert page.locator("#training .uplot").count() == 3
    trained = [line for line in tree["training"] if line.get("split") in ("train", "valid")]
    assert int(page.locator("#training .plot").first.get_attribute("data-points")) == len(
        {line["step"] for line in trained}
    )
    assert "Resumed after step 16" in page.locator("#training").inner_text()
    slider = page.get_by_label("Checkpoint")
    pictures = set()
    for place in range(len(tree["snapshots"])):
        slider.fill(str(place))
        assert f"after step {tree['snapshots'][place]['step']}" in page.locator("#training").inner_text()
        pictures.add(page.locator(".forming canvas").evaluate("canvas => canvas.toDataURL()"))
    assert len(pictures) == len(tree["snapshots"]) == 3


def test_10_two_models_that_write_differently(opened: Any, run: api.Run, tmp_path: Path):
    one = api.attention(run, TEXT, "Die Straße war zu breit.", length=16, beam=2)
    other = api.attention(api.load(run.folder, "cpu", "step-8"), TEXT, "Das Tier war zu müde.", length=16, beam=2)
    file = tmp_path / "two.html"
    file.write_text(render({**one, "against": other}), encoding="utf-8")
    shown = opened(file).locator("#compare")
    assert shown.locator(".output").all_inner_texts() == [one["output"], other["output"]]
    assert "The outputs differ." in shown.inner_text()


def test_10_two_runs_side_by_side_and_a_permanent_note(opened: Any, tree: dict[str, Any]):
    page = opened()
    assert page.locator("#compare .panel").count() == 2
    assert page.locator("#compare .output").all_inner_texts() == [tree["output"]] * 2
    assert "Both outputs are the same." in page.locator("#compare").inner_text()
    note = page.locator(".note")
    for top in (0, 3000):
        page.evaluate(f"scrollTo(0, {top})")
        assert "Attention is not explanation." in note.inner_text()
        assert note.bounding_box()["y"] < 900
