"""Random dependency trees for properties, and sentences written as CoNLL-U."""

from collections.abc import Sequence

from hypothesis import strategies as st

from regard.data.linearise import Tree

LETTERS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\u2028\u2029")
FORMS = st.one_of(
    st.sampled_from(["the", "dog", "(", ")", "@", "\\", "a b", "@-1", "(x", "_", "\\s"]),
    st.text(LETTERS, min_size=1, max_size=6),
)


@st.composite
def head_lists(draw: st.DrawFn, most: int = 12) -> list[int]:
    """The head of each word, from one, 0 for the one root; arcs cross as they like."""
    size = draw(st.integers(1, most))
    order = draw(st.permutations(range(1, size + 1)))
    heads = [0] * size
    for place in range(1, size):
        heads[order[place] - 1] = order[draw(st.integers(0, place - 1))]
    return heads


@st.composite
def dependency_trees(draw: st.DrawFn) -> Tree:
    heads = draw(head_lists())
    words = draw(st.lists(FORMS, min_size=len(heads), max_size=len(heads)))
    relations = draw(st.lists(FORMS, min_size=len(heads), max_size=len(heads)))
    return Tree(tuple(words), tuple(heads), tuple(relations))


def conllu_lines(tree: Tree, tags: Sequence[str] | None = None) -> list[str]:
    """One line a word."""
    tags = tags or ["X"] * len(tree.words)
    rows = zip(tree.words, tags, tree.heads, tree.relations, strict=True)
    return [
        f"{place}\t{word}\t{word}\t{tag}\t{tag.lower()}\t_\t{head}\t{relation}\t_\t_"
        for place, (word, tag, head, relation) in enumerate(rows, 1)
    ]


SENTENCE = """\
# text = Dogs don't sleep.
1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t4\tnsubj\t4:nsubj\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
3.1\tever\tever\tADV\tRB\t_\t_\t_\t4:advmod\t_
4\tsleep\tsleep\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_
"""
