import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_corpus import CONFIGS, CORPUS, tiny_tokenizer

from regard.config import Config
from regard.errors import ConfigError
from regard.text.special_tokens import SPECIAL_TOKENS, UNK
from regard.text.tokenizer import BpeConfig, CharConfig, Tokenizer, TokenizerConfig, UnigramConfig, WordConfig

WIKITEXT = Path(__file__).parents[2] / "../shared/data/wikitext-2/train.txt.gz"


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_same_texts_give_the_same_tokenizer_to_the_byte(kind: str):
    # the library's hash tables are seeded anew each time, so learning twice tells
    again = [Tokenizer.train(iter(CORPUS), CONFIGS[kind]) for _ in range(3)]
    assert {tokenizer.core.to_str() for tokenizer in again} == {tiny_tokenizer(kind).core.to_str()}


def test_texts_are_read_once_one_at_a_time():
    class Once:
        def __init__(self) -> None:
            self.started = 0

        def __iter__(self) -> Iterator[str]:
            self.started += 1
            return iter(CORPUS)

    for config in (BpeConfig(size=300), UnigramConfig(size=300), WordConfig(), CharConfig()):
        texts = Once()
        Tokenizer.train(texts, config)
        assert texts.started == 1


@pytest.mark.parametrize("size", [263, 300, 340])
def test_size_is_kept(size: int):
    assert Tokenizer.train(CORPUS, BpeConfig(size=size)).vocab_size == size
    assert Tokenizer.train(CORPUS, UnigramConfig(size=size)).vocab_size <= size


def test_sizes_of_words_and_characters():
    counts = ["a a a b b c", "a <unk>"]
    assert Tokenizer.train(counts, WordConfig()).vocab_size == 7 + 3
    two = Tokenizer.train(counts, WordConfig(size=9))
    assert two.tokens(range(7, two.vocab_size)) == ["a", "b"]
    often = Tokenizer.train(counts, WordConfig(min_count=2))
    assert often.tokens(range(7, often.vocab_size)) == ["a", "b"]
    assert Tokenizer.train(["aaabbc"], CharConfig()).vocab_size == 7 + 256 + 3
    assert Tokenizer.train(["aaabbc"], CharConfig(min_count=2)).vocab_size == 7 + 256 + 2
    assert Tokenizer.train(["aaabbc"], CharConfig(size=264)).tokens([263]) == ["a"]


def test_lower_case_is_learnt_and_used():
    tokenizer = Tokenizer.train(["The the THE"], WordConfig(lowercase=True))
    assert tokenizer.vocab_size == 7 + 1
    assert tokenizer.decode(tokenizer.encode("tHe")) == "the"


def test_unknown_words_and_the_word_unk_are_the_unknown_token():
    tokenizer = Tokenizer.train(["the <unk> cat"], WordConfig())
    assert tokenizer.encode("the <unk> dog") == [tokenizer.encode("the")[0], UNK, UNK]


WORDS = st.sampled_from(["the", "cat", ",", "straße", "<pa", "eos>"])
GAPS = st.sampled_from([" ", "  ", "\t", "\n", " \n", "\n\n ", "\u00a0", "\r\n"])


@given(st.lists(st.tuples(WORDS, GAPS), max_size=12), st.sampled_from(["", " ", "\n"]))
@settings(max_examples=150, deadline=None)
def test_words_come_back_with_their_lines(parts: list[tuple[str, str]], before: str):
    text = before + "".join(word + gap for word, gap in parts)
    tokenizer = Tokenizer.train(["the cat , straße <pa eos> \n"], WordConfig())
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.split("\n")]
    assert tokenizer.decode(tokenizer.encode(text)) == "\n".join(lines)


def test_punctuation_may_be_words_of_its_own():
    text = "Das Tier, das (sehr) müde war."
    apart = Tokenizer.train([text], WordConfig(split="punctuation"))
    assert apart.tokens(apart.encode(text)) == ["Das", "Tier", ",", "das", "(", "sehr", ")", "müde", "war", "."]
    assert Tokenizer.train([text], WordConfig()).decode(Tokenizer.train([text], WordConfig()).encode(text)) == text


@pytest.mark.skipif(not WIKITEXT.exists(), reason="WikiText-2 is not here")
def test_wikitext_2_has_its_published_vocabulary_and_length():
    with gzip.open(WIKITEXT, "rt", encoding="utf-8", newline="\n") as stream:
        lines = [line.rstrip("\n") for line in stream]
    tokenizer = Tokenizer.train(lines, WordConfig())
    words = tokenizer.vocab_size - len(SPECIAL_TOKENS)
    assert words + len(["<unk>", "<eos>"]) == 33_278
    assert sum(len(ids) + len(["<eos>"]) for ids in tokenizer.encode_batch(lines)) == 2_088_628


def test_the_end_of_a_line_is_a_word_where_it_stands_in_the_text():
    lines = [" = A title = \n", " \n", " Some text .\n"]
    tokenizer = Tokenizer.train(lines, WordConfig())
    assert tokenizer.tokens([i for ids in tokenizer.encode_batch(lines) for i in ids]) == [
        *("=", "A", "title", "=", "↵"), "↵", *("Some", "text", ".", "↵"),
    ]  # fmt: skip


class _Recipe(Config):
    tokenizer: TokenizerConfig = BpeConfig()
    "The tokenizer."


def test_the_family_is_chosen_by_kind():
    assert isinstance(_Recipe.from_tree({"tokenizer": "unigram"}).tokenizer, UnigramConfig)
    assert _Recipe.from_tree({"tokenizer": {"kind": "char", "lowercase": True}}).tokenizer.lowercase
    with pytest.raises(ConfigError, match=r"tokenizer: unknown kind 'bpee'; did you mean 'bpe'\?"):
        _Recipe.from_tree({"tokenizer": "bpee"})


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [
        ("bpe", "size", 262),
        ("bpe", "dropout", 1.0),
        ("unigram", "alpha", 0.0),
        ("word", "size", 7),
        ("char", "min_count", 0),
    ],
)
def test_settings_out_of_range_are_refused_by_name(kind: str, setting: str, value: float):
    with pytest.raises(ConfigError, match=f"tokenizer.{setting}: expected"):
        _Recipe.from_tree({"tokenizer": {"kind": kind, setting: value}})


def test_only_asked_for_samplers_are_made():
    assert tiny_tokenizer("bpe").sampler(CONFIGS["bpe"]) is None
    assert tiny_tokenizer("word").sampler(CONFIGS["word"]) is None
    dropout = tiny_tokenizer("bpe").sampler(BpeConfig(dropout=0.1))
    assert dropout is not None
    assert dropout.settings == {"dropout": 0.1}
    alpha = tiny_tokenizer("unigram").sampler(UnigramConfig(alpha=0.5))
    assert alpha is not None
    assert alpha.settings == {"alpha": 0.5}
