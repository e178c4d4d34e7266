"""Texts encoded word by word have the tokens that the library gives for each of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.tiny_corpus import SENTENCES

from regard.text import word_cache
from regard.text.tokenizer import BpeConfig, CharConfig, Tokenizer, UnigramConfig, WordConfig
from regard.text.word_cache import WordCache

CONFIGS = [
    BpeConfig(size=300), BpeConfig(size=300, prefix_space=True), UnigramConfig(size=300, prefix_space=True),
]  # fmt: skip
TOKENIZERS = [Tokenizer.train(SENTENCES, config) for config in CONFIGS]
PIECES = [
    "The",
    "street",
    "it's",
    "'s",
    "'",
    " ",
    "  ",
    "\n",
    "\t",
    "\u00a0",
    "\u2003",
    "12",
    "3.5",
    "ä",
    "道路",
    "🚲",
    "<eos>",
]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=8)


def cache_of(tokenizer: Tokenizer) -> WordCache:
    cache = WordCache.of(tokenizer)
    assert cache is not None
    return cache


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(st.lists(texts, min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_words_alone_and_whole_texts_have_the_same_tokens(tokenizer: Tokenizer, texts: list[str]):
    expected = [tokenizer.encode(text) for text in texts]
    cache = cache_of(tokenizer)
    for _ in range(2):  # the second time from the cache
        tokens, lengths = cache.encode(texts)
        assert lengths.tolist() == [len(ids) for ids in expected]
        assert tokens.tolist() == [token for ids in expected for token in ids]


def test_what_the_library_takes_for_white_space_is_white_space_here():
    split = TOKENIZERS[0].core.pre_tokenizer.pre_tokenize_str
    characters = [chr(code) for code in range(1 << 16) if not 0xD800 <= code < 0xE000]
    spaces = [character for character in characters if split(f"- {character}-")[1][1] == (1, 2)]
    assert 20 < len(spaces) < 30
    assert all(map(str.isspace, spaces))


def test_old_words_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(word_cache, "MOST_WORDS", 4)
    tokenizer = TOKENIZERS[1]
    cache = cache_of(tokenizer)
    for start in range(0, len(SENTENCES), 3):
        some = SENTENCES[start : start + 3]
        tokens, lengths = cache.encode(some)
        expected = [tokenizer.encode(text) for text in some]
        assert tokens.tolist() == [token for ids in expected for token in ids]
        assert np.array_equal(lengths, [len(ids) for ids in expected])


@pytest.mark.parametrize("config", [WordConfig(), CharConfig(), BpeConfig(size=300, lowercase=True)])
def test_other_vocabularies_have_no_cache(config: WordConfig | CharConfig | BpeConfig):
    assert WordCache.of(Tokenizer.train(SENTENCES, config)) is None
