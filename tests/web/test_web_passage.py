"""A passage's text: whole characters, stops, and pieces that add up, whatever the tokens."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.special_tokens import EOS, SPECIAL_TOKENS
from regard.text.tokenizer import BpeConfig, ByteConfig, CharConfig, Tokenizer, UnigramConfig
from regard.web.text_stream import Chunk, TextStream, Token, spelling

TEXTS = ["the dog sees the cat é 漢字 🙂 and so on", "a fox and a hen"] * 20
CONFIGS = [BpeConfig(size=300), UnigramConfig(size=300), CharConfig(), ByteConfig()]
TOKENIZERS = {config.kind: Tokenizer.train(TEXTS, config) for config in CONFIGS}


def written(
    tokenizer: Tokenizer, prompt: str, ids: Sequence[int], stops: Sequence[str] = ()
) -> tuple[TextStream, list]:
    heard: list[Chunk] = []
    passage = TextStream(tokenizer, tokenizer.encode(prompt), len(ids) + 1, stop=stops, on_chunk=heard.append)
    for id in [*ids, EOS]:
        if passage.open:
            passage.append(Token(id, -1.0, ended=id == EOS))
    return passage, heard


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(st.text(max_size=12), st.text(max_size=20))
def test_the_text_is_what_decoding_all_at_once_gives(kind: str, prompt: str, text: str):
    tokenizer = TOKENIZERS[kind]
    ids, start = tokenizer.encode(prompt + text), tokenizer.encode(prompt)
    if ids[: len(start)] != start:  # the prompt's last token would reach into the text
        return
    passage, heard = written(tokenizer, prompt, ids[len(start) :])
    assert tokenizer.decode(start) + passage.text == tokenizer.decode(ids)
    assert "".join(piece.text for piece in heard) == passage.text
    assert passage.finish == "stop"


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(data=st.data())
def test_pieces_add_up_whatever_is_written(kind: str, data: st.DataObject):
    tokenizer = TOKENIZERS[kind]
    ids = data.draw(st.lists(st.integers(len(SPECIAL_TOKENS), tokenizer.vocab_size - 1), max_size=25))
    stops = data.draw(st.lists(st.sampled_from(["a", "the", " ", "\ufffd", "og s"]), max_size=2))
    passage, heard = written(tokenizer, "the", ids, stops)
    assert "".join(piece.text for piece in heard) == passage.text
    assert not any(stop in passage.text for stop in stops)
    assert [piece.finish for piece in heard[:-1]] == [None] * (len(heard) - 1)
    assert [at for piece in heard for at in range(piece.start, piece.stop)] == list(range(len(passage.tokens)))
    assert passage.offsets == sorted(passage.offsets)


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=3), max_size=3))
def test_a_stop_cuts_at_its_first_place(text: str, stops: list[str]):
    tokenizer = TOKENIZERS["byte"]
    passage, _ = written(tokenizer, "x", tokenizer.encode(text), stops)
    places = [text.find(stop) for stop in stops if stop in text]
    reached = [end for end in range(1, len(text) + 1) if any(stop in text[:end] for stop in stops)]
    expected = text if not places else min((text[: reached[0]].partition(stop)[0] for stop in stops), key=len)
    assert passage.text == expected


def test_leaving_closes_it():
    passage = TextStream(TOKENIZERS["byte"], [70], 5)
    assert passage.open
    passage.cancel()
    assert not passage.open
    assert not TextStream(TOKENIZERS["byte"], [70], 0).open


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_spellings_add_up_and_half_characters_are_bytes(kind: str):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode("x the dog")
    assert "".join(spelling(tokenizer, id) for id in ids).strip() == "x the dog"
    assert spelling(TOKENIZERS["byte"], tokenizer.encode("")[0] if tokenizer.encode("") else EOS) == "<eos>"
    assert spelling(TOKENIZERS["byte"], TOKENIZERS["byte"].encode("é")[0]) == "<0xC3>"
