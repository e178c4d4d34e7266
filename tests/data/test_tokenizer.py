import unicodedata
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_corpus import CONFIGS, CORPUS, LOSSLESS, SENTENCES, tiny_tokenizer

from regard.errors import DataError
from regard.text.special_tokens import BOS, CLS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK
from regard.text.tokenizer import BpeConfig, ByteConfig, Tokenizer, UnigramConfig

ODD = st.sampled_from(
    [" ", "  ", "\n", "\r\n", "\t", "\0", "\x1c", "\u2028", "\u00a0", "▁", "Ġ", "é", "e\u0301", "ß", "İ", "€", "😀"]
)
PIECES = st.one_of(ODD, st.text(max_size=5), st.sampled_from([*SPECIAL_TOKENS, "<0x41>", "The", " street"]))
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def test_special_ids_are_fixed():
    assert (PAD, UNK, BOS, EOS, MASK, SEP, CLS) == (0, 1, 2, 3, 4, 5, 6)
    for kind in CONFIGS:
        assert tiny_tokenizer(kind).tokens(range(7)) == list(SPECIAL_TOKENS)


@pytest.mark.parametrize("kind", LOSSLESS)
@given(text=TEXTS)
@settings(max_examples=200, deadline=None)
def test_nothing_is_lost(kind: str, text: str):
    tokenizer = tiny_tokenizer(kind)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text == tokenizer.normalise(text)
    assert all(len(SPECIAL_TOKENS) <= i < tokenizer.vocab_size for i in ids)


@pytest.mark.parametrize("kind", LOSSLESS)
@given(parts=st.lists(TEXTS, max_size=4))
@settings(max_examples=30, deadline=None)
def test_parts_encoded_one_by_one_decode_to_the_whole(kind: str, parts: list[str]):
    tokenizer = tiny_tokenizer(kind)
    encoded = tokenizer.encode_batch(parts)
    assert encoded == [tokenizer.encode(part) for part in parts]
    assert tokenizer.decode([i for ids in encoded for i in ids]) == "".join(parts)
    assert tokenizer.decode_batch(encoded) == parts


PREFIXED = [kind(size=400, prefix_space=True) for kind in (BpeConfig, UnigramConfig)]


@pytest.mark.parametrize("config", PREFIXED, ids=lambda config: config.kind)
def test_a_prefixed_space_is_taken_away_again(config: BpeConfig | UnigramConfig):
    tokenizer = Tokenizer.train(CORPUS, config)

    @given(text=TEXTS)
    @settings(max_examples=100, deadline=None)
    def holds(text: str):
        assert tokenizer.decode(tokenizer.encode(text)) == text == tokenizer.normalise(text)

    holds()
    assert tokenizer.tokens(tokenizer.encode("The street"))[0].startswith("▁")


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
def test_normalising_comes_before_everything_and_is_what_decoding_gives(form: str):
    tokenizer = Tokenizer.train(CORPUS, BpeConfig(size=300, lowercase=True, normalise=form))
    assert tokenizer.decode(tokenizer.encode("Cafe\u0301 ﬁn İ")) == tokenizer.normalise("Cafe\u0301 ﬁn İ")
    assert tokenizer.normalise("Cafe\u0301 ﬁn") == unicodedata.normalize(form.upper(), "cafe\u0301 ﬁn")

    @given(text=TEXTS)
    @settings(max_examples=100, deadline=None)
    def holds(text: str):
        assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.normalise(text)

    holds()


@pytest.mark.parametrize("kind", LOSSLESS)
@given(text=TEXTS)
@settings(max_examples=60, deadline=None)
def test_pieces_cover_the_text_in_order(kind: str, text: str):
    pieces = tiny_tokenizer(kind).pieces(text)
    covered = set()
    assert [piece.start for piece in pieces] == sorted(piece.start for piece in pieces)
    for piece in pieces:
        assert 0 <= piece.start < piece.end <= len(text)
        covered.update(range(piece.start, piece.end))
        if "<0x" not in piece.token:
            assert text[piece.start : piece.end].replace(" ", "▁").replace("\n", "↵").replace("\t", "⇥") == piece.token
    assert covered == set(range(len(text)))
    assert [piece.id for piece in pieces] == tiny_tokenizer(kind).encode(text)


def test_word_pieces_leave_out_whitespace():
    pieces = tiny_tokenizer("word").pieces("The  animal\n")
    assert [(piece.token, piece.start, piece.end) for piece in pieces] == [
        ("The", 0, 3),
        ("animal", 5, 11),
        ("<unk>", 11, 12),
    ]


@pytest.mark.parametrize("kind", CONFIGS)
def test_text_never_names_a_special_token(kind: str):
    tokenizer = tiny_tokenizer(kind)
    for token in SPECIAL_TOKENS:
        for text in (token, f"a {token} b", f"{token}{token}", f"x{token}", f"\n{token}\n"):
            named = set(tokenizer.encode(text)) & set(range(len(SPECIAL_TOKENS)))
            assert named <= ({UNK} if kind == "word" else set()), text


def test_decoding_leaves_out_special_tokens_but_shows_the_unknown():
    tokenizer = tiny_tokenizer("word")
    ids = [BOS, *tokenizer.encode("The animal flew"), EOS, PAD, PAD]
    assert tokenizer.decode(ids) == "The animal <unk>"
    assert tiny_tokenizer("bpe").decode([BOS, CLS, SEP, MASK, EOS, PAD]) == ""


def test_tokens_are_shown_readably():
    assert tiny_tokenizer("byte").tokens(tiny_tokenizer("byte").encode("a é\n")) == ["a", "▁", "<0xC3>", "<0xA9>", "↵"]
    assert tiny_tokenizer("char").tokens(tiny_tokenizer("char").encode("ü €")) == [
        "ü",
        "▁",
        "<0xE2>",
        "<0x82>",
        "<0xAC>",
    ]
    assert "".join(tiny_tokenizer("bpe").tokens(tiny_tokenizer("bpe").encode("die Straße"))) == "die▁Straße"


@pytest.mark.parametrize("kind", CONFIGS)
def test_saved_and_loaded_it_is_the_same(kind: str, tmp_path: Path):
    tokenizer, file = tiny_tokenizer(kind), tmp_path / "tokenizer.json"
    tokenizer.save(file)
    loaded = Tokenizer.load(file)
    assert loaded.identity == tokenizer.identity
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]
    for text in [*SENTENCES, "<eos>"]:
        assert loaded.encode(text) == tokenizer.encode(text)


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_library_alone_reads_the_file_and_agrees(kind: str, tmp_path: Path):
    tokenizer = tiny_tokenizer(kind)
    tokenizer.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in SENTENCES[:6]:
        assert library.encode(text).ids == tokenizer.encode(text)
        assert library.decode(library.encode(text).ids, skip_special_tokens=False) == tokenizer.decode(
            tokenizer.encode(text)
        )


def test_identity_tells_tokenizers_apart():
    assert len({tiny_tokenizer(kind).identity for kind in CONFIGS}) == len(CONFIGS)


def test_a_lone_surrogate_is_refused_with_its_place():
    tokenizer = tiny_tokenizer("bpe")
    with pytest.raises(DataError, match=r"character 3 is a lone surrogate \(U\+D800\)"):
        tokenizer.encode("ab\ud800")
    with pytest.raises(DataError, match="lone surrogate"):
        tokenizer.encode_batch(["fine", "\udfff"])
    with pytest.raises(DataError, match="lone surrogate"):
        Tokenizer.train(["fine", "\udfff"], BpeConfig(size=300))


@pytest.mark.parametrize("wrong", [-1, 263, 10**12])
def test_an_id_outside_the_vocabulary_is_refused(wrong: int):
    with pytest.raises(DataError, match=f"id {wrong} is not in its vocabulary of 263 tokens"):
        tiny_tokenizer("byte").decode([10, wrong])


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "char"])
@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_learning_from_nothing_is_refused(kind: str, texts: list[str]):
    with pytest.raises(DataError, match="no text to train"):
        Tokenizer.train(texts, CONFIGS[kind])


def test_errors_of_the_reader_pass_through_learning():
    def texts():
        yield "one"
        raise DataError("train.txt", "broken", line=2)

    with pytest.raises(DataError, match=r"train\.txt:2: broken"):
        Tokenizer.train(texts(), BpeConfig(size=300))


def test_bytes_need_no_text():
    assert Tokenizer.train([], ByteConfig()).encode("é") == [7 + 0xC3, 7 + 0xA9]
