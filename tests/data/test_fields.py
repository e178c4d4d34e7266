import pytest
from tiny_corpus import SENTENCES, tiny_tokenizer

from regard.data.fields import MAX_RESAMPLES, TextField
from regard.errors import ConfigError
from regard.text.special_tokens import BOS, EOS
from regard.text.subword_sampling import BpeDropout

BPE, BYTE = tiny_tokenizer("bpe"), tiny_tokenizer("byte")


@pytest.mark.parametrize("begin", [False, True])
@pytest.mark.parametrize("end", [False, True])
def test_what_stands_around_a_text(begin: bool, end: bool):
    tokens = TextField(BYTE, begin=begin, end=end).encode(["a", ""])
    assert tokens == [[BOS] * begin + [7 + ord("a")] + [EOS] * end, [BOS] * begin + [EOS] * end]


def test_only_texts_that_may_be_cut_are_shortened():
    tokens = TextField(BYTE).encode(["abcdef"])[0]
    assert TextField(BYTE, max_length=4, overlong="cut").shorten(tokens) == [*tokens[:3], EOS]
    assert TextField(BYTE, max_length=4, overlong="cut", end=False).shorten(tokens[:-1]) == tokens[:4]
    assert TextField(BYTE, max_length=4).shorten(tokens) == tokens
    assert TextField(BYTE, max_length=7, overlong="cut").shorten(tokens) == tokens


def test_a_limit_without_room_for_text_is_refused():
    with pytest.raises(ConfigError, match="max_length: expected room for at least one token of text, got 2"):
        TextField(BPE, begin=True, end=True, max_length=2)


def test_the_settings_tell_fields_apart():
    fields = [
        TextField(BPE),
        TextField(BYTE),
        TextField(BPE, begin=True),
        TextField(BPE, end=False),
        TextField(BPE, max_length=9),
        TextField(BPE, max_length=9, overlong="cut"),
        TextField(BPE, BpeDropout(BPE.core, dropout=0.1)),
        TextField(BPE, BpeDropout(BPE.core, dropout=0.2)),
    ]
    assert len({str(field.settings()) for field in fields}) == len(fields)


def test_random_cuts_mostly_find_room_at_once():
    field = TextField(BPE, BpeDropout(BPE.core, dropout=0.1))
    rooms = {
        text: field.max_tokens(text, tokens) for text, tokens in zip(SENTENCES, field.encode(SENTENCES), strict=True)
    }
    lengths = [(len(field.draw(text, f"{i}", 10**6)), room) for text, room in rooms.items() for i in range(100)]
    assert sum(length <= room for length, room in lengths) / len(lengths) > 0.93


def test_a_cut_that_never_fits_gives_way_to_the_tokenizers_own():
    class Longwinded:
        def __init__(self) -> None:
            self.settings = {"alpha": 0.0}
            self.asked = 0

        def sample(self, text: str, key: str) -> list[int]:
            self.asked += 1
            return [9] * 50

    sampler = Longwinded()
    assert TextField(BPE, sampler).draw("The", "key", max_tokens=3) == [*BPE.encode("The"), EOS]
    assert sampler.asked == MAX_RESAMPLES
