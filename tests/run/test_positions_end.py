"""A model whose positions have an end generates as far as they reach, by every way that there is, and says so."""

from pathlib import Path
from typing import Any

import pytest
from small_runs import TINY_MODEL, language_model, translation, write_recipe

from regard import api
from regard.decode import BeamConfig, Ensemble, GreedyConfig, SampleConfig, search
from regard.decode.steppers import max_positions
from regard.errors import ConfigError, InputError
from regard.models import DecoderConfig, EncoderDecoderConfig
from regard.nn.layout import Sequences
from regard.run import Run
from regard.train.monitor import Quiet

SEARCHES = [GreedyConfig(), BeamConfig(size=3, n_best=2), SampleConfig(samples=2, seed=3)]


class Watching(Quiet):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def decoder(length: int) -> Any:
    return DecoderConfig(**TINY_MODEL, position={"kind": "learned", "length": length}).build(20).eval()  # type: ignore[arg-type]


def pair(length: int, target: int | None = None) -> Any:
    decoder_position = None if target is None else {"kind": "learned", "length": target}
    position = {"kind": "learned", "length": length}
    config = EncoderDecoderConfig(**TINY_MODEL, position=position, decoder_position=decoder_position)  # type: ignore[arg-type]
    return config.build(20).eval()


@pytest.mark.parametrize("config", SEARCHES, ids=lambda one: one.kind)
@pytest.mark.parametrize("prompts", [[[4]], [[4] * 12], [[4, 5], [4] * 11], [[4, 5, 6]] * 3])
def test_a_search_ends_where_the_positions_do(config: Any, prompts: list[list[int]]):
    rows = search(decoder(12), None, prompts, config, eos=None, bos=None, device="cpu")
    longest = max(map(len, prompts))
    assert [len(row[0].tokens) for row in rows] == [12 - longest + 1] * len(prompts)


@pytest.mark.parametrize("config", SEARCHES, ids=lambda one: one.kind)
def test_the_decoder_of_two_stacks_has_its_own_positions(config: Any):
    source = Sequences.padded([[4, 5, 6, 7, 8, 9, 10, 11, 3]])
    rows = search(pair(12, target=5), source, None, config.but(min_length=60), eos=3, bos=2)
    assert len(rows[0][0].tokens) == 5


def test_an_ensemble_has_the_positions_of_its_shortest_member():
    both: Any = Ensemble([pair(12, 9), pair(12, 7)])
    assert max_positions(both) == 7
    rows = search(both, Sequences.padded([[4, 5, 3]]), None, GreedyConfig(min_length=60), eos=3, bos=2)
    assert len(rows[0][0].tokens) == 7


def test_a_prompt_that_fills_all_positions_is_refused_by_a_sentence():
    with pytest.raises(ConfigError, match="13 tokens, and the model has 12 positions"):
        search(decoder(12), None, [[4] * 13], GreedyConfig(), eos=None, bos=None, device="cpu")


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[str]]:
    folder, watcher = tmp_path_factory.mktemp("language"), Watching()
    tree = language_model(folder, steps=2)
    tree["model"] |= {"position": {"kind": "learned", "length": 32}}
    return api.train(write_recipe(folder, tree), out=folder / "run", watcher=watcher), watcher.said


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[str]]:
    folder, watcher = tmp_path_factory.mktemp("translation"), Watching()
    tree = translation(steps=3, best="bleu")
    tree["model"] |= {"position": {"kind": "learned", "length": 34}}
    tree["search"] = {"kind": "beam", "size": 3}
    return api.train(write_recipe(folder, tree), out=folder / "run", watcher=watcher), watcher.said


def test_a_translator_that_trains_can_translate_and_be_tested(translator: tuple[Run, list[str]]):
    run, said = translator
    sentence = "search.max_length = 256: limited to 34 tokens, the positions that the model has"
    assert said.count(sentence) == 1
    assert run.limit() == sentence
    assert run.limit(GreedyConfig(max_length=8)) is None
    outputs = run.translate(["The dog sleeps.", "", "Anna threw away the old chair."])
    assert all(len(one.tokens) <= 34 for row in outputs for one in row)
    assert api.evaluate(run, "valid").examples == 40
    assert api.attention(run, "The dog sleeps.")


def test_a_translation_with_a_given_beginning_depends_on_no_other(translator: tuple[Run, list[str]]):
    run, _ = translator
    texts, starts = ["The dog sleeps.", "Anna sees it.", "The cat sleeps."], ["", "Der Hund schläft, weil", "Die"]
    together = run.generator().translate(texts, GreedyConfig(), starts)
    alone = [
        run.generator().translate([text], GreedyConfig(), [start])[0] for text, start in zip(texts, starts, strict=True)
    ]
    assert [row[0].text for row in together] == [row[0].text for row in alone]


def test_a_language_model_continues_prompts_of_any_length_that_fits(writer: tuple[Run, list[str]]):
    run, said = writer
    assert "search.max_length = 256: limited to 32 tokens, the positions that the model has" in said
    prompts = ["the dog", "", "the dog sees the cow the cat se", "t"]
    together = run.generate(prompts, GreedyConfig())
    assert [len(row[0].tokens) for row in together] == [26, 32, 2, 32]
    assert [row[0].text for row in together] == [run.generate([one], GreedyConfig())[0][0].text for one in prompts]
    assert "".join(run.stream("the dog", GreedyConfig())) == together[0][0].text
    assert api.attention(run, "the dog")
    with pytest.raises(InputError, match="input 2: a prompt of 50 tokens, and the model has 32 positions"):
        run.generate(["the", "t" * 50])


def test_ctranslate2_writes_as_far_as_torch(writer: tuple[Run, list[str]], translator: tuple[Run, list[str]]):
    pytest.importorskip("ctranslate2")
    from regard.ctranslate2.model import CTranslate2Engine, Workers
    from regard.ctranslate2.model_folder import converted_model

    run, _ = writer
    engine = CTranslate2Engine(converted_model(run.folder, "float32"), Workers(1, 1))
    prompts = ["the dog", "the dog sees the cow the cat se", "t"]
    fast = engine.generate(prompts, GreedyConfig().tree(), scored=True)
    assert [row[0].text for row in fast] == [row[0].text for row in run.generate(prompts, GreedyConfig())]
    with pytest.raises(InputError, match="a prompt of 50 tokens, and the model has 32 positions"):
        engine.generate(["t" * 50], GreedyConfig().tree())
    run, _ = translator
    engine = CTranslate2Engine(converted_model(run.folder, "float32"), Workers(1, 1))
    texts = ["The dog sleeps.", "Anna threw away the old chair."]
    fast, own = engine.translate(texts, GreedyConfig().tree(), scored=True), run.translate(texts, GreedyConfig())
    assert [row[0].text for row in fast] == [row[0].text for row in own]
    for one, other in zip(fast, own, strict=True):
        assert one[0].token_logprobs == pytest.approx(other[0].token_logprobs, abs=1e-3)


def test_a_summariser_of_one_stack_leaves_room_for_its_input(tmp_path: Path):
    tree = translation(steps=2) | {"task": {"kind": "summarisation", "input_tokens": 20}}
    tree["model"] = {"kind": "decoder", **TINY_MODEL, "position": {"kind": "learned", "length": 40}}
    tree["data"] |= {"max_length": 20}
    tree["search"] = {"kind": "greedy", "min_length": 60}
    run = api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    texts = ["The dog sleeps.", "Anna threw away the old chair because it was much too old and broken, and so on."]
    assert [len(row[0].tokens) for row in run.translate(texts)] == [21, 21]
    report = api.evaluate(run)
    assert report.examples == 30
    assert report.overlong["scores"] == ["loss", "perplexity"]


def test_an_ensemble_reads_what_all_of_its_members_can(translator: tuple[Run, list[str]], tmp_path: Path):
    long, (short, _) = " ".join(["the dog sleeps"] * 20), translator
    tree = translation(steps=2)
    other = api.train(write_recipe(tmp_path, tree), out=tmp_path / "run", watcher=Quiet())
    assert (other.longest, other.longest_with([short])) == (256, 34)
    assert len(other.generator(short).translate([long], GreedyConfig(), cut=True)[0][0].tokens) <= 34
    with pytest.raises(InputError, match="the model takes at most 34"):
        other.translate([long], others=[short])
