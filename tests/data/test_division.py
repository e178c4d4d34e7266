from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_files import write_lines, write_text

from regard import api
from regard.data.settings import DataConfig
from regard.data.source_reader import read_examples
from regard.data.sources import SourceConfig, parse_part
from regard.errors import ConfigError, DataError
from regard.run.recipe import resolve_recipe

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def both(source: SourceConfig) -> tuple[list, list]:
    data = DataConfig(train=source)
    return list(read_examples(data.split("train"))), list(read_examples(data.split("valid")))


def labelled(folder: Path, rows: list[tuple[str, str]], **settings) -> SourceConfig:
    file = write_lines(folder / "all.tsv", [f"{text}\t{label}" for text, label in rows])
    return SourceConfig(file=str(file), text=0, label=1, header=False, **settings)


@same_folder
@given(rows=st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abcdefgh")), min_size=1, max_size=80))
def test_what_is_held_out_has_no_label_that_training_lacks(tmp_path, rows):
    source = labelled(tmp_path, [(f"text {number}", label) for number, label in rows])
    keys = {number: {label for other, label in rows if other == number} for number, _ in rows}
    shared = Counter(label for labels in keys.values() for label in labels)
    possible = len(keys) > 1 and any(all(shared[label] > 1 for label in labels) for labels in keys.values())
    if not possible:
        with pytest.raises(ConfigError, match=r"data\.valid: needed: data\.train has "):
            both(source)
        return
    train, valid = both(source)
    assert {example.label for example in valid} <= {example.label for example in train}
    assert valid
    assert not {example.text for example in valid} & {example.text for example in train}
    assert sorted(example.location.line for example in train + valid) == list(range(1, len(rows) + 1))


def test_a_rare_label_stays_in_training_wherever_chance_puts_it(tmp_path):
    for number in range(60):
        rows = [(f"common {index}", "common") for index in range(30)] + [(f"rare {number}", "rare")]
        train, valid = both(labelled(tmp_path, rows))
        assert "rare" in {example.label for example in train}
        assert valid


def test_the_recipe_says_how_much_is_held_out(tmp_path):
    source = labelled(tmp_path, [(f"text {index}", "ab"[index % 2]) for index in range(2000)])
    held = [len(list(read_examples(DataConfig(train=source, held_out=share).split("valid")))) for share in (0.01, 0.5)]
    assert held[0] == pytest.approx(20, abs=15)
    assert held[1] == pytest.approx(1000, abs=100)


def test_a_limit_counts_before_the_division(tmp_path):
    rows = [(f"text {index}", "ab"[index % 2]) for index in range(100)] + [("last", "z")]
    train, valid = both(labelled(tmp_path, rows, limit=100))
    assert len(train) + len(valid) == 100
    assert {example.label for example in train} == {"a", "b"}


def test_large_data_is_divided_by_hash_as_a_part_would_be(tmp_path):
    file = write_lines(tmp_path / "all.tsv", [f"source {number}\ttarget {number}" for number in range(2000)])
    source = SourceConfig(file=str(file), source=0, target=1, header=False)
    train, valid = both(source)
    assert valid == list(read_examples(source.but(part="95%-100%", shuffle=True)))
    assert train == list(read_examples(source.but(part="0%-95%", shuffle=True)))


@pytest.mark.parametrize(
    "text", ["a\nb", "a line\n\n\n", "first\nsecond and much longer than the first\n", "x\n" * 200]
)
def test_of_a_running_text_the_last_lines_are_held_out(tmp_path, text):
    source = SourceConfig(file=str(write_text(tmp_path / "all.txt", text)))
    if text == "a line\n\n\n":
        with pytest.raises(ConfigError, match=r"data\.valid: needed: data\.train is a text of one line"):
            both(source)
        return
    train, valid = both(source)
    assert "".join(line.text + line.end for line in train + valid) == text
    assert "".join(line.text for line in valid).strip()
    assert train
    if len(text) > 100:
        assert len(valid) == len(parse_part("95%-100%").of(200))


def test_nothing_to_divide_is_said_of_the_file(tmp_path):
    source = SourceConfig(file=str(write_text(tmp_path / "all.txt", "")))
    with pytest.raises(DataError, match=r"all\.txt: no examples"):
        both(source)


class Silent(api.Watcher):
    """Says nothing."""


@pytest.mark.parametrize("rows", [
    [("good", "pos"), ("fine", "pos"), ("bad", "neg")],
    [("good", "pos"), ("fine", "pos"), ("bad", "neg"), ("dull", "neg")],
    [("good", "pos"), ("fine", "pos"), ("nice", "pos"), ("bad", "neg"), ("so so", "neutral")],
])  # fmt: skip
def test_three_to_five_examples_train(tmp_path, rows):
    train = {**labelled(tmp_path, rows).tree()}
    tree = {
        "task": "classification",
        "data": {"train": {name: value for name, value in train.items() if value is not None}},
        "tokenizer": "word",
        "model": {"kind": "encoder", "width": 8, "depth": 1, "heads": 1},
        "train": {"steps": 1, "precision": "float32", "compile": "off", "device": "cpu"},
    }
    run = api.train(resolve_recipe(tree), out=tmp_path / "run", watcher=Silent())
    assert len(run.task.vocabularies.labels) == len({label for _, label in rows})
    assert api.evaluate(run, "valid").examples == 1


def test_two_examples_of_two_classes_need_validation_data(tmp_path):
    with pytest.raises(ConfigError, match=r"data\.valid: needed: data\.train has no class with two different texts"):
        both(labelled(tmp_path, [("good", "pos"), ("bad", "neg")]))
