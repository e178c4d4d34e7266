"""Unknown words replaced through attention."""

import pytest
import torch
from torch import nn

from regard.errors import ConfigError, DataError
from regard.models import DecoderConfig, EncoderDecoderConfig
from regard.nn.attention.reference import AttentionSteps
from regard.nn.layout import Sequences
from regard.tasks.unknown_words import UnknownWords, alignment, need_words, read_dictionary
from regard.text.special_tokens import EOS, UNK


class Cross(nn.Module):
    recorder = None


class LooksAsTold(nn.Module):
    """Attends to given places of the source, whatever it reads."""

    def __init__(self, *places: list[int]):
        super().__init__()
        self.places, self.cross, self.weight = places, Cross(), nn.Parameter(torch.zeros(1))

    def hidden(self, source: Sequences, target: Sequences) -> None:
        weights = torch.zeros(len(source.tokens), 1, target.tokens.shape[1], source.tokens.shape[1])
        for row, places in enumerate(self.places):
            for place, looked_at in enumerate(places):
                weights[row, 0, place, looked_at] = 1.0
        self.cross.recorder(AttentionSteps(weights, weights, weights, weights, weights))


SOURCES = [[7, UNK, 9, EOS], [UNK, 8, EOS]]
WORDS = [["the", "Okapi", "sleeps"], ["Zoë", "sings"]]


def test_unknown_words_are_translated_or_copied():
    model = LooksAsTold([0, 1, 2], [0, 1])
    replaced = UnknownWords([model], {"okapi": "Waldgiraffe"}).replacements(SOURCES, WORDS, [[5, UNK, 6], [UNK, 5]])
    assert replaced == [{1: "Waldgiraffe"}, {0: "Zoë"}]


def test_known_words_stay_and_need_no_attention():
    assert UnknownWords([LooksAsTold()]).replacements(SOURCES, WORDS, [[5, 6], [6]]) == [{}, {}]


def test_the_end_of_the_source_is_no_word():
    model = LooksAsTold([3, 3])
    assert UnknownWords([model]).replacements(SOURCES, WORDS, [[5, UNK], [5]])[0][1] in WORDS[0]


def test_alignment_of_a_transformer_is_the_mean_of_its_heads_and_layers():
    model = EncoderDecoderConfig(width=16, depth=2, heads=2).build(10).eval()
    rows = alignment([model], Sequences.padded([[5, 6, 7], [8, 9]]), Sequences.padded([[1, 5], [1, 6]]))
    assert rows.shape == (2, 2, 3)
    torch.testing.assert_close(rows.sum(-1), torch.ones(2, 2))
    assert (rows[1, :, 2] == 0).all()


def test_a_model_without_attention_to_a_source_is_refused():
    class NoCross(nn.Module):
        config = DecoderConfig()

        def hidden(self, source, target): ...

    with pytest.raises(ConfigError, match="no attention to the source"):
        alignment([NoCross()], Sequences.padded([[5]]), Sequences.padded([[1]]))


def test_subword_vocabularies_are_refused():
    need_words("word")
    with pytest.raises(ConfigError, match="needs a word vocabulary, got 'bpe'"):
        need_words("bpe")


def test_dictionaries(tmp_path):
    file = tmp_path / "words.tsv"
    file.write_text("okapi\tWaldgiraffe\n\nokapi\tanderes\n")
    assert read_dictionary(file) == {"okapi": "Waldgiraffe"}
    file.write_text("a\tb\nno tab here\n")
    with pytest.raises(DataError, match=r"words.tsv:2: expected a word, a tab and its translation"):
        read_dictionary(file)
    with pytest.raises(DataError, match="no such file"):
        read_dictionary(tmp_path / "none.tsv")
    file.write_text("\ufeffokapi\tWald\u2028giraffe\r\n")
    assert read_dictionary(file) == {"okapi": "Wald\u2028giraffe"}
