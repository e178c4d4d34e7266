"""Summarisation: what a model is given, what it is scored on, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batches import Batch, PackedConfig
from regard.data.collate import Packed, Padded, Ragged, pack, pad
from regard.data.settings import DataConfig
from regard.data.source_reader import read_pairs
from regard.data.sources import SourceConfig
from regard.errors import ConfigError
from regard.models import DecoderConfig, EncoderConfig, EncoderDecoderConfig, RecurrentDecoderConfig, Seq2SeqConfig
from regard.nn.layout import Sequences
from regard.nn.loss import IGNORED
from regard.tasks import Summarisation, SummarisationConfig, Translation, TranslationConfig, Vocabularies
from regard.tasks.prepare import Preparation
from regard.tasks.summarisation import join, joined_inputs, need_separator
from regard.text.special_tokens import BOS, EOS, SEP
from regard.text.tokenizer import BpeConfig, Tokenizer

CPU = torch.device("cpu")
SIZES = {"width": 16, "depth": 2, "heads": 2, "dropout": 0.0}
TURNS = {
    "kind": "alternating",
    "kinds": [{"kind": "local", "block": 4}, {"kind": "memory-compressed", "stride": 3, "block": 3}],
}
DECODERS = {
    "full": DecoderConfig(**SIZES),
    "alternating": DecoderConfig(**SIZES, attention=TURNS),  # type: ignore[arg-type]
    "experts": DecoderConfig(**SIZES, feedforward={"kind": "experts", "experts": 4, "hidden": 16}),  # type: ignore[arg-type]
    "recurrent": RecurrentDecoderConfig(width=16, depth=1, dropout=0.0),  # type: ignore[arg-type]
}
TEXTS = ["the dog sees the cat in the garden", "a cat sleeps", "the bird sings and the dog sleeps all day long"]
pairs_of_ids = st.lists(
    st.tuples(st.lists(st.integers(7, 19), max_size=7), st.lists(st.integers(7, 19), max_size=5)),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, BpeConfig(size=300))


def task_of(tokenizer: Tokenizer, **settings) -> Summarisation:
    return SummarisationConfig(**settings).task(Vocabularies({"source": tokenizer, "target": tokenizer}))


def fields(pairs: list, lay=pad) -> tuple:
    """Sources and targets as a store gives them."""
    sources, targets = [[*one, EOS] for one, _ in pairs], [[BOS, *other, EOS] for _, other in pairs]
    return lay(Ragged.of(sources)), lay(Ragged.of(targets))


def batch_of(pairs: list, lay=pad) -> Batch:
    source, target = fields(pairs, lay)
    return Batch({"source": source, "target": target}, {}, np.arange(len(pairs)))


def built(config, vocab: int = 20):
    torch.manual_seed(0)
    return config.build(vocab).eval()


@given(pairs_of_ids)
def test_one_sequence_is_input_separator_output(pairs):
    wanted = [[*one, SEP, *other, EOS] for one, other in pairs]
    padded, packed = join(*fields(pairs)), join(*fields(pairs, pack))
    assert isinstance(padded, Padded)
    assert [row[:length].tolist() for row, length in zip(padded.tokens, padded.lengths, strict=True)] == wanted
    assert isinstance(packed, Packed)
    assert packed.tokens[0].tolist() == [token for row in wanted for token in row]
    assert packed.lengths.tolist() == list(map(len, wanted))


@given(pairs_of_ids, st.sampled_from([pad, pack]))
def test_only_the_output_is_answered(pairs, lay):
    inputs = joined_inputs(*fields(pairs, lay), DECODERS["full"], 20, CPU, lambda *_: 0.0)
    answered = inputs.targets[inputs.targets != IGNORED].tolist()
    assert answered == [token for _, other in pairs for token in [*other, EOS]]
    assert inputs.count == inputs.output_count == len(answered)
    before = inputs.arguments[0].tokens[inputs.targets != IGNORED].tolist()
    assert before == [token for _, other in pairs for token in [SEP, *other]]


def by_hand(model, pairs: list, whole: bool = False) -> float:
    """−Σ log P, one example after another, by torch's cross-entropy."""
    total = 0.0
    for one, other in pairs:
        ids = [*one, SEP, *other, EOS]
        logits = model(Sequences.padded([ids[:-1]]))[0]
        first = 0 if whole else len(one)
        total += F.cross_entropy(logits[first:], torch.tensor(ids[first + 1 :]), reduction="sum").item()
    return total


PAIRS = [([8, 9, 10, 11, 12, 13], [9, 10]), ([14, 15], [15]), ([7], []), ([16, 17, 18, 19], [19, 8, 9])]


@torch.no_grad()
@pytest.mark.parametrize("lay", [pad, pack])
@pytest.mark.parametrize("kind", DECODERS)
def test_the_loss_is_that_of_the_definition(tokenizer: Tokenizer, kind: str, lay):
    if kind == "recurrent" and lay is pack:
        return
    config, vocab = DECODERS[kind], tokenizer.vocab_size
    model = built(config, vocab)
    task = task_of(tokenizer, smoothing=0.0)
    inputs = task.inputs(batch_of(PAIRS, lay), config, CPU)
    assert task.loss(model, inputs).item() == pytest.approx(by_hand(model, PAIRS), rel=1e-5)
    found = task.measure(model, inputs)
    assert found == {"nll": pytest.approx(by_hand(model, PAIRS), rel=1e-5), "count": 10}
    everything = task_of(tokenizer, smoothing=0.0, predict_input=True)
    inputs = everything.inputs(batch_of(PAIRS, lay), config, CPU)
    assert everything.loss(model, inputs).item() == pytest.approx(by_hand(model, PAIRS, whole=True), rel=1e-5)
    assert everything.measure(model, inputs) == found, "scores count the output whatever is learnt"


def test_two_stacks_are_trained_as_translation_is(tokenizer: Tokenizer):
    config = EncoderDecoderConfig(**SIZES)
    model, task = built(config, tokenizer.vocab_size), task_of(tokenizer)
    translation = TranslationConfig().task(task.vocabularies)
    mine, theirs = (one.inputs(batch_of(PAIRS), config, CPU) for one in (task, translation))
    assert task.loss(model, mine).equal(translation.loss(model, theirs))
    assert (mine.count, mine.tokens, mine.flops) == (theirs.count, theirs.tokens, theirs.flops)


@pytest.mark.parametrize("kind", ["full", "alternating", "experts"])
def test_flops_leave_out_the_vocabulary_where_nothing_is_answered(tokenizer: Tokenizer, kind: str):
    config, task, vocab = DECODERS[kind], task_of(tokenizer), tokenizer.vocab_size
    pairs = [(list(range(7, 19)), [9, 10, 11])] * 2
    inputs, packed = (task.inputs(batch_of(pairs, lay), config, CPU) for lay in (pad, pack))
    time, answers = 12 + 1 + 3, 2 * 4
    assert inputs.flops == 3 * (config.flops(2, time, 0) + 2 * answers * config.width * vocab)
    assert packed.flops == inputs.flops
    everything = task_of(tokenizer, predict_input=True).inputs(batch_of(pairs), config, CPU)
    assert everything.flops == 3 * config.flops(2, time, vocab)


def test_a_consistent_loss_reads_the_sequence_twice(tokenizer: Tokenizer):
    task, config = task_of(tokenizer, consistency=1.0, smoothing=0.0), DECODERS["full"]
    model = built(config, tokenizer.vocab_size)
    inputs = task.inputs(batch_of(PAIRS), config, CPU)
    assert task.loss(model, inputs).item() == pytest.approx(by_hand(model, PAIRS), rel=1e-4), (
        "without dropout they agree"
    )


def test_inputs_are_cut_at_their_limit_and_counted(tokenizer: Tokenizer, tmp_path: Path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\tdog\n" for text in TEXTS))
    source = SourceConfig(file="pairs.tsv", source=0, target=1)
    data = DataConfig(train=source, valid=source, folder=str(tmp_path))
    config = SummarisationConfig(input_tokens=6)
    preparation = Preparation(config, data, BpeConfig(size=300), tmp_path / "cache")
    task = config.task(Vocabularies({"source": tokenizer, "target": tokenizer}))
    longer = sum(len(tokenizer.encode(text)) + 1 > 6 for text in TEXTS)
    assert 0 < longer < len(TEXTS)
    for split, training in (("train", True), ("valid", False)):
        store = preparation.open(task, split, training)
        assert store.cut == {"source longer than 6 tokens": longer}
        assert len(store) == len(TEXTS)
        read = store.gather("source", np.arange(len(TEXTS))).rows()
        assert read == [[*tokenizer.encode(text)[:5], EOS] for text in TEXTS]
    first = next(line for line, text in enumerate(TEXTS, start=1) if len(tokenizer.encode(text)) + 1 > 6)
    where = f"first at {tmp_path}/pairs.tsv:{first}"
    assert f"data.train: {longer} pairs cut: source longer than 6 tokens ({where})" in preparation.notes


@pytest.mark.parametrize(
    ("model", "task", "data", "problem"),
    [
        (EncoderConfig(), {}, {}, r"model\.kind: summarisation needs one of .*encoder-decoder.*decoder.*; got encoder"),
        (EncoderDecoderConfig(), {"predict_input": True}, {}, r"task\.predict_input: only a decoder predicts"),
        (DecoderConfig(), {}, {"batching": "stream"}, r"data\.batching: .* got 'stream'"),
        (
            DecoderConfig(position={"kind": "learned", "length": 512}),  # type: ignore[arg-type]
            {}, {}, r"model\.position\.length: expected at least 756 for task.* and data\.max_length, got 512",
        ),
        (
            EncoderDecoderConfig(position={"kind": "learned", "length": 256}),  # type: ignore[arg-type]
            {}, {}, r"model\.position\.length: expected at least 500 for task\.input_tokens = 500, got 256",
        ),
        (DecoderConfig(), {}, {"train": {"file": "a.txt"}}, r"data\.train: expected pairs"),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_go_together_is_refused(model, task: dict, data: dict, problem: str):
    with pytest.raises(ConfigError, match=problem):
        SummarisationConfig(**task).check(model, DataConfig.from_tree(data))


@pytest.mark.parametrize("model", [DecoderConfig(), EncoderDecoderConfig(), Seq2SeqConfig(), RecurrentDecoderConfig()])
def test_what_goes_together(model):
    SummarisationConfig(input_tokens=11_000).check(model, DataConfig(batching=PackedConfig()))


@pytest.mark.parametrize("tokens", [1, 0, -3])
def test_no_input_at_all_is_refused(tokens: int):
    with pytest.raises(ConfigError, match=f"input_tokens: .*2, got {tokens}"):
        SummarisationConfig(input_tokens=tokens)


def test_a_decoder_needs_one_vocabulary_with_a_separator(tokenizer: Tokenizer):
    other = Tokenizer.train(["other words"], BpeConfig(size=290))
    task = SummarisationConfig().task(Vocabularies({"source": tokenizer, "target": other}))
    with pytest.raises(ConfigError, match=r"tokenizer\.joint: a decoder reads input and output as one text"):
        task.build(DECODERS["full"])
    assert task.build(EncoderDecoderConfig(**SIZES, embedding={"share": "output"})) is not None  # type: ignore[arg-type]

    class Bare:
        identity = "x"

        class core:  # noqa: N801
            @staticmethod
            def token_to_id(_: str) -> None: ...

    with pytest.raises(ConfigError, match="tokenizer: expected the separator <sep> as token 5"):
        need_separator(Bare, Bare)  # type: ignore[arg-type]


def test_the_task_is_no_translation():
    assert not issubclass(Summarisation, Translation)
    assert SummarisationConfig().tree()["input_tokens"] == 500


def test_the_turns_of_a_meeting_are_one_text(tmp_path: Path):
    turns = [{"speaker": "A", "words": "we need a lamp"}, {"speaker": "B", "words": "two lamps"}]
    (tmp_path / "meeting.jsonl").write_text(json.dumps({"turns": turns, "asked": [{"answer": "lamps"}]}) + "\n")
    [pair] = read_pairs(
        SourceConfig(file="meeting.jsonl", source="turns.*.words", target="asked.0.answer"), base=tmp_path
    )
    assert (pair.source, pair.target) == ("we need a lamp two lamps", "lamps")
