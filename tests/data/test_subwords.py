"""Words in pieces: tags and trees pass over to tokens without a change to what they say about words."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_corpus import CORPUS, LOSSLESS, tiny_tokenizer
from trees import head_lists

from regard.text.special_tokens import EOS
from regard.text.tokenizer import BpeConfig, Tokenizer

PREFIXED = Tokenizer.train(CORPUS, BpeConfig(size=420, prefix_space=True))
KINDS = [*LOSSLESS, "word", "prefixed"]
FORMS = st.one_of(
    st.sampled_from(["The", "animal", "Straße", "überquerte", "n't", "a b", ".", "狐が", "<eos>"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8),
)


def tokenizer_of(kind: str) -> Tokenizer:
    return PREFIXED if kind == "prefixed" else tiny_tokenizer(kind)


@pytest.mark.parametrize("kind", KINDS)
@given(words=st.lists(FORMS, min_size=1, max_size=6))
def test_every_word_begins_somewhere_and_its_pieces_are_the_word(kind: str, words: list[str]):
    tokenizer = tokenizer_of(kind)
    cut = tokenizer.encode_words(words)
    assert cut.tokens[-1] == EOS
    ends = [*cut.starts[1:], len(cut.tokens) - 1]
    assert cut.starts[0] == 0
    assert all(start < end for start, end in zip(cut.starts, ends, strict=True))
    if kind != "word":
        pieces = [tokenizer.decode(cut.tokens[start:end]) for start, end in zip(cut.starts, ends, strict=True)]
        spaced = words if kind == "prefixed" else [words[0], *(f" {word}" for word in words[1:])]
        assert pieces == spaced


@pytest.mark.parametrize("kind", ["bpe", "word", "prefixed"])
def test_plain_sentences_are_cut_as_the_whole_text_is(kind: str):
    text = "The animal did not cross the street because it was too tired ."
    assert tokenizer_of(kind).encode_words(text.split()).tokens == [*tokenizer_of(kind).encode(text), EOS]


@given(heads=head_lists(), data=st.data())
def test_the_tree_of_the_words_is_in_the_tree_of_the_pieces(heads: list[int], data: st.DataObject):
    words = data.draw(st.lists(FORMS, min_size=len(heads), max_size=len(heads)))
    cut = tiny_tokenizer("bpe").encode_words(words)
    carried = cut.heads(heads)
    words_tree = nx.Graph((word, head - 1) for word, head in enumerate(heads) if head)
    words_tree.add_nodes_from(range(len(heads)))
    pieces_tree = nx.Graph((token, head) for token, head in enumerate(carried) if token != head)
    pieces_tree.add_nodes_from(range(len(carried)))
    assert nx.number_of_edges(pieces_tree) == len(carried) - 2  # all but the root and the end token hang on another
    assert carried[-1] == len(carried) - 1
    for one, start in enumerate(cut.starts):
        apart = nx.single_source_shortest_path_length(words_tree, one)
        carried_apart = nx.single_source_shortest_path_length(pieces_tree, start)
        assert {cut.starts[other]: steps for other, steps in apart.items()} == {
            place: steps for place, steps in carried_apart.items() if place in cut.starts
        }
    for token in set(range(len(carried) - 1)) - set(cut.starts):
        assert carried[token] == max(start for start in cut.starts if start < token)


def test_tags_stand_at_first_pieces():
    cut = tiny_tokenizer("char").encode_words(["ab", "c"])
    assert cut.starts == [0, 2]
    assert cut.tags([4, 0]) == [5, 0, 1, 0, 0]
    assert cut.heads([2, 0]) == [2, 0, 2, 2, 4]
