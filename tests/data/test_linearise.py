"""Trees as brackets: nothing is lost on the way there and back, and whatever a model writes can be read."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import dependency_trees, head_lists

from regard.data.linearise import Tree, nesting_heads, read_brackets, write_brackets

DOG = Tree(("The", "dog", "sleeps", "."), (2, 3, 0, 3), ("det", "nsubj", "root", "punct"))


def test_a_sentence_reads_as_it_is_nested():
    assert write_brackets(DOG) == "(root (nsubj (det The ) dog ) sleeps (punct . ) )"


def test_crossing_arcs_say_how_far_their_head_is():
    words = tuple(["A", "hearing", "is", "scheduled", "on", "the", "issue", "today"])
    tree = Tree(words, (2, 4, 4, 0, 7, 7, 2, 4), ("det", "nsubj", "aux", "root", "case", "det", "nmod", "obl"))
    written = write_brackets(tree)
    assert written == (
        "(root (nsubj (det A ) hearing ) (aux is ) scheduled (nmod@-5 (case on ) (det the ) issue ) (obl today ) )"
    )
    assert read_brackets(written) == tree


@given(dependency_trees())
def test_nothing_is_lost(tree: Tree):
    written = write_brackets(tree)
    assert read_brackets(written) == tree
    assert "\n" not in written


@given(dependency_trees())
def test_the_words_without_their_brackets_are_the_sentence(tree: Tree):
    symbols = [symbol for symbol in write_brackets(tree).split(" ") if not symbol.startswith(("(", ")"))]
    assert [read_brackets(symbol).words for symbol in symbols] == [(word,) for word in tree.words]


@given(head_lists())
def test_lifted_heads_do_not_cross_and_are_ancestors(heads: list[int]):
    nested = nesting_heads(heads)
    arcs = [tuple(sorted((word, head))) for word, head in enumerate(nested, 1)]
    assert not [(a, b) for a in arcs for b in arcs if a[0] < b[0] < a[1] < b[1]]
    above = nx.DiGraph((word, head) for word, head in enumerate(heads, 1))
    assert all(head in nx.descendants(above, word) for word, head in enumerate(nested, 1))
    if nested == list(heads):
        assert "@" not in write_brackets(Tree(("w",) * len(heads), tuple(heads), ("r",) * len(heads)))


SYMBOLS = st.sampled_from(["(root", "(obj", "(obj@-2", "(x@3", "(x@99999999999", "(", ")", ")", "dog", "cat", "", "\\"])


@given(st.lists(SYMBOLS).map(" ".join))
def test_whatever_was_written_is_a_tree(text: str):
    tree = read_brackets(text)
    assert list(tree.words) == [symbol for symbol in text.split(" ") if symbol in ("dog", "cat", "\\")]
    assert len(tree.words) == len(tree.heads) == len(tree.relations)
    if tree.words:
        graph = nx.DiGraph((head, word) for word, head in enumerate(tree.heads, 1))
        assert nx.is_arborescence(graph)
        assert tree.heads.count(0) == 1


@given(st.text(max_size=40))
def test_any_text_is_read_without_an_error(text: str):
    read_brackets(text)


@pytest.mark.parametrize(
    ("written", "heads", "relations"),
    [
        ("(root (det The ) dog", (2, 0), ("det", "root")),
        ("(root dog ) ) ) (obj cat )", (0, 1), ("root", "obj")),
        ("(root (x (det The ) ) dog )", (2, 0), ("det", "root")),
        ("(root dog cat )", (0, 1), ("root", "")),
        ("(root a (x@7 b ) )", (0, 1), ("root", "x")),
        ("(root a (x@1 b (y c ) ) )", (0, 1, 2), ("root", "x", "y")),
    ],
)
def test_how_malformed_brackets_are_mended(written: str, heads: tuple[int, ...], relations: tuple[str, ...]):
    tree = read_brackets(written)
    assert (tree.heads, tree.relations) == (heads, relations)


def test_a_very_deep_tree_is_no_deeper_than_memory():
    size = 3000
    tree = Tree(("w",) * size, (*range(2, size + 1), 0), ("r",) * size)
    assert read_brackets(f"{'(r ' * size}{'w ) ' * size}".strip()) == tree
