import pytest

from regard.data.columns import ColumnError, as_label, as_text, column_index, pick

RECORD = {"text": "hi", "translation": {"en": "dog", "de": "Hund"}, "target": ["one", "two"], "a.b": 1, "q": [{"a": 3}]}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("text", "hi"),
        ("translation.de", "Hund"),
        ("target.1", "two"),
        ("a.b", 1),
        ("q.0.a", 3),
        ("target", ["one", "two"]),
    ],
)
def test_columns_by_name_and_path(column, value):
    assert pick(RECORD, column) == value


def test_columns_of_lists_by_number():
    assert pick(["hello", "hallo"], 1) == "hallo"


@pytest.mark.parametrize(
    ("record", "column", "problem"),
    [
        (RECORD, "txet", "no column 'txet'; did you mean 'text'?"),
        (RECORD, "translation.fr", "no column 'translation.fr'; known: de, en"),
        (RECORD, "target.2", "no column 'target.2': the list has 2 values, counted from 0"),
        (RECORD, "text.en", "no column 'text.en': 'en' cannot be looked up in 'hi'"),
        ({}, "text", "no column 'text'; the row is empty"),
        (["a"], "text", "no column 'text': 'text' cannot be looked up in a list"),
        (None, 0, "no column '0': '0' cannot be looked up in nothing (null)"),
    ],
)
def test_missing_columns_say_what_is_there(record, column, problem):
    with pytest.raises(ColumnError) as raised:
        pick(record, column)
    assert str(raised.value) == problem


def test_table_columns():
    assert column_index(1, None, 2) == 1
    assert column_index("b", ["a", "b"], 2) == 1
    for column, names, problem in [
        (2, None, "no column 2: the table has 2 columns, counted from 0"),
        ("lable", ["text", "label"], "no column 'lable'; did you mean 'label'?"),
        ("a", ["a", "a"], "2 columns are called 'a'; give the number of one, counted from 0"),
        ("a", None, "no column 'a'; the table has no header"),
    ]:
        with pytest.raises(ColumnError) as raised:
            column_index(column, names, 2)
        assert str(raised.value) == problem


def test_a_list_of_texts_is_joined_and_nothing_else_becomes_text():
    assert as_text("a b", "x") == "a b"
    assert as_text(["a", "b c"], "x") == "a b c"
    assert as_text("für".encode(), "x") == "für"
    for value, got in [
        (None, "nothing (null)"),
        (3, "3"),
        ([], "an empty list"),
        (["a", 1], "a list"),
        ({"k": 1}, "a table with k"),
    ]:
        with pytest.raises(ColumnError, match="column 'x': expected text, got") as raised:
            as_text(value, "x")
        assert str(raised.value).endswith(got)
    with pytest.raises(ColumnError, match="column 'x' is not UTF-8 text"):
        as_text(b"\xff", "x")


def test_labels_of_every_type_become_text():
    assert [as_label(value, "x") for value in ["pos", 1, 2.0, False, 0]] == ["pos", "1", "2", "false", "0"]
    for value in (None, "", 0.5, ["a"], float("nan")):
        with pytest.raises(ColumnError, match="expected a label, got"):
            as_label(value, "x")
