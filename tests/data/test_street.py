"""The embedded corpus: its splits are apart, its pronouns cannot be guessed, and it is the same everywhere."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import street
from regard.data.street.corpus import AUXILIARY, FAMILIES, SHARES, combination
from regard.data.street.nouns import ADJECTIVES, NOUNS
from regard.data.street.verbs import VERBS
from regard.errors import ConfigError

SPLITS = ("train", "valid", "test")
RARE_FORMS = {"source": 0, "target": 3}
"""How many word forms of the tests may occur there alone, such as 'einschläfst', which few sentences have."""
GENDER_OF = {"er": "m", "sie": "f", "es": "n"}
FIRST_THOUSAND = "9b4b63d26cb18f90d0f578357264a60dd51311370fd7cbb099166b015ca91c37"


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[street.Example]]:
    return {split: list(street.examples(split)) for split in SPLITS}


def words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text)


def test_sizes(corpus):
    assert {split: len(examples) for split, examples in corpus.items()} == street.SIZES
    assert list(street.pairs("valid", 0)) == []


def test_a_smaller_size_is_the_beginning_of_a_larger_one(corpus):
    assert list(street.examples("train", 50)) == corpus["train"][:50]
    assert list(street.pairs("test", 9)) == [(example.source, example.target) for example in corpus["test"][:9]]


def test_no_sentence_occurs_twice(corpus):
    for examples in corpus.values():
        assert len({example.source for example in examples}) == len(examples)


def test_splits_share_no_combination(corpus):
    combinations = [{combination(example.source) for example in corpus[split]} for split in SPLITS]
    for one, other in [*pairwise(combinations), (combinations[0], combinations[2])]:
        assert not one & other


def test_splits_stay_apart_whatever_the_seed(corpus):
    held_out = {example.source for split in ("valid", "test") for example in corpus[split]}
    assert held_out.isdisjoint(source for source, _ in street.pairs("train", 5_000, seed=7))


def test_every_source_has_one_target(corpus):
    targets = {example.source: example.target for examples in corpus.values() for example in examples}
    again = {source: target for seed in (2, 3) for source, target in street.pairs("train", 5_000, seed)}
    assert all(targets.get(source, target) == target for source, target in again.items())
    assert len(targets) == sum(street.SIZES.values())


def test_what_is_tested_was_shown(corpus):
    for side in ("source", "target"):
        shown = {word for example in corpus["train"] for word in words(getattr(example, side))}
        for split in ("valid", "test"):
            tested = {word for example in corpus[split] for word in words(getattr(example, side))}
            assert len({word.lower() for word in tested} - {word.lower() for word in shown}) <= RARE_FORMS[side]


def test_every_word_of_the_dictionary_is_used(corpus):
    said = {word for example in corpus["train"] for word in combination(example.source).split()}
    verbs = {verb.english.base for verb in VERBS.values()} - {*AUXILIARY}
    assert NOUNS.keys() | ADJECTIVES.keys() | verbs <= said


def test_families_have_their_shares(corpus):
    assert len(SHARES) == 100
    counted = Counter(example.family for example in corpus["train"])
    for name, (share, _) in FAMILIES.items():
        # short answers and commands soon repeat, and no sentence is drawn twice
        assert counted[name] / len(corpus["train"]) == pytest.approx(share / 100, abs=0.015)


def test_sentences_are_short(corpus):
    lengths = [len(words(example.target)) for example in corpus["train"]]
    assert max(lengths) <= 15
    assert 6 < sum(lengths) / len(lengths) < 8


def test_lecture_sentences_are_held_out(corpus):
    sources = [example.source for example in corpus["test"][:4]]
    assert sources[:2] == [source for source, _ in street.LECTURE_SENTENCES]
    assert sources[2:] == [source.replace("did not", "didn't") for source in sources[:2]]
    assert [example.coreference.pronoun for example in corpus["test"][:2]] == ["es", "sie"]
    held_out = {"animal cross street tired", "animal cross street wide"}
    for split in ("train", "valid"):
        assert held_out.isdisjoint(combination(example.source) for example in corpus[split])


@pytest.mark.parametrize("split", SPLITS)
def test_pronouns_cannot_be_guessed(corpus, split: str):
    cases = [example.coreference for example in corpus[split] if example.coreference]
    share = Counter(case.pronoun for case in cases)
    chance = 3 * (0.25 / len(cases)) ** 0.5  # three standard errors of a share
    assert all(abs(share[pronoun] / len(cases) - 1 / 3) < chance for pronoun in GENDER_OF)
    always_the_subject = sum(case.referent == case.subject for case in cases) / len(cases)
    assert abs(always_the_subject - 0.5) < chance


def test_an_adjective_alone_does_not_tell(corpus):
    """Some qualities are the first noun's in one situation and the second's in another."""
    meant: dict[str, set[bool]] = {}
    for example in corpus["train"]:
        if example.coreference:
            quality = words(example.source)[-1].lower()
            meant.setdefault(quality, set()).add(example.coreference.referent == example.coreference.subject)
    assert {quality for quality, both in meant.items() if len(both) == 2} >= {"wide", "long", "big", "high"}


def test_pronoun_agrees_with_what_it_means(corpus):
    for example in street.pronoun_cases("train", 8_000):
        case = example.coreference
        assert f", weil {case.pronoun} " in example.target
        assert NOUNS[case.referent].gender == GENDER_OF[case.pronoun]
        assert NOUNS[case.subject].gender != NOUNS[case.object].gender
        assert case.referent in (case.subject, case.object)


@pytest.mark.parametrize(
    ("source", "referent", "pronoun"),
    [
        ("The animal didn't cross the street because it was too tired.", "animal", "es"),
        ("Today the fox can't cross the street because it is very wide.", "street", "sie"),
        ("The suitcase did not fit into the box because it was too big.", "suitcase", "er"),
        ("The suitcase did not fit into the box because it was too small.", "box", "sie"),
        ("The car does not fit through the tunnel because it is so low.", "tunnel", "er"),
    ],
)
def test_resolve(source: str, referent: str, pronoun: str):
    case = street.resolve(source)
    assert (case.referent, case.pronoun) == (referent, pronoun)


@pytest.mark.parametrize(
    "source",
    ["", "Anna sold the lamp because she was poor.", "The fox did not cross the street because it was too sweet."],
)
def test_resolve_leaves_other_sentences_alone(source: str):
    assert street.resolve(source) is None


def test_pronoun_accuracy_of_the_right_answer(corpus):
    sources = [example.source for example in corpus["test"]]
    targets = [example.target for example in corpus["test"]]
    as_question = len(list(street.pronoun_cases("test")))
    assert as_question > 200
    assert street.pronoun_accuracy(sources, targets) == (as_question, as_question)


@pytest.mark.parametrize(
    ("hypothesis", "right"),
    [
        ("Das Tier überquerte die Straße nicht, weil es zu müde war.", 1),
        ("es hund straße weil Es , war", 1),
        ("Das Tier überquerte die Straße nicht, weil sie zu müde war.", 0),
        ("Es überquerte die Straße nicht.", 0),
        ("", 0),
    ],
)
def test_pronoun_accuracy_looks_at_the_pronoun_only(hypothesis: str, right: int):
    assert street.pronoun_accuracy([street.LECTURE_SENTENCES[0][0]], [hypothesis]) == (right, 1)


def test_pronoun_accuracy_passes_over_other_sentences():
    assert street.pronoun_accuracy(["Anna gets up."], ["Anna steht auf."]) == (0, 0)
    with pytest.raises(ValueError, match="shorter"):
        street.pronoun_accuracy(["Anna gets up."], [])


def test_the_corpus_is_the_same_everywhere():
    text = "\n".join(f"{source}\t{target}" for source, target in street.pairs("train", 1_000))
    assert hashlib.sha256(text.encode()).hexdigest() == FIRST_THOUSAND


def test_no_process_differs():
    program = "from regard.data import street; print(list(street.pairs('test', 40)))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_seeds_differ():
    assert list(street.pairs("train", 20, seed=1)) != list(street.pairs("train", 20, seed=2))


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match="split: unknown split 'tset'; did you mean 'test'"):
        street.pairs("tset")
    with pytest.raises(ConfigError, match="size: expected a number of sentences, got -1"):
        street.pairs("train", -1)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(SPLITS))
def test_any_seed_gives_sentences_of_its_split(seed: int, split: str):
    for example in street.examples(split, 5, seed):
        assert street.split_of(example.source) == split
        assert (example.coreference is not None) == (example.family == "coreference")
