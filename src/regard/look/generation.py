"""How a text was written: at each step the likely tokens, enough to re-weigh them, and the tree that a beam grew."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from regard.decode import BeamConfig, GreedyConfig, SampleConfig, Trace, search
from regard.decode.steppers import max_positions
from regard.decode.top_k import stable_top_k
from regard.look.masked import MaskedReader
from regard.look.model_input import Reader, Reading
from regard.look.tokens import Sentence, spaced_words
from regard.text.special_tokens import BOS, EOS, PAD, UNK
from regard.text.tokenizer import Tokenizer

TAIL_GROUPS = 24
"""The unlikely rest of a distribution, in so many groups of alike tokens, so that a temperature can act on it."""
TREE_STEPS = 48
"""Most steps of a beam that are drawn."""


def write(reader: Reader, source: list[int], config: GreedyConfig | BeamConfig | SampleConfig) -> list[int]:
    """What the model writes for a source, or after a prompt: the best of what the search finds.

    The page shows it as the model reads it, so its last token needs a position too.
    """
    tokens, positions = _search(reader, source, config, None)[0][0].tokens, max_positions(reader.model)
    read = 1 if reader.shape == "pair" else len(source)
    return tokens if positions is None else tokens[: positions - read]


def beam_tree(reader: Reader, source: list[int], beam: BeamConfig) -> dict[str, Any]:
    """Every continuation that a beam considered, with its log-probability and what became of it."""
    trace, longest = Trace(top=beam.size), min(beam.max_length, TREE_STEPS)
    drawn = beam.but(max_length=longest, min_length=min(beam.min_length, longest - 1))
    best = _search(reader, source, drawn, trace)[0][0]
    tokens = [branch.token for branch in trace.branches[0]]
    shown = reader.target.tokens(tokens)
    branches = [
        [
            -1 if branch.parent is None else branch.parent,
            branch.step,
            text,
            round(branch.logprob, 5),
            round(branch.total, 5),
            branch.fate,
        ]
        for branch, text in zip(trace.branches[0], shown, strict=True)
    ]
    return {"size": beam.size, "text": reader.target.decode(best.tokens), "score": best.score, "branches": branches}


def _search(reader: Reader, source: list[int], config: Any, trace: Trace | None) -> list[list[Any]]:  # noqa: ANN401
    model: Any = reader.model
    if reader.shape == "pair":
        grid = reader.grid(source)
        return search(model, grid, None, config, eos=EOS, bos=BOS, pad=PAD, unk=UNK, trace=trace)
    ends = EOS if reader.documents else None
    return search(
        model, None, [source], config, eos=ends, bos=None, pad=PAD, unk=UNK, device=reader.device, trace=trace
    )


def steps_tree(scores: Tensor, reading: Reading, tokenizer: Tokenizer, count: int) -> list[dict[str, Any]]:
    """At each place of the target: the token that follows, its log-probability, and the likeliest others."""
    assert reading.target is not None
    ids = reading.target.ids
    ends = [EOS] if reading.shape == "pair" else []
    following = [*ids[1:], *ends]
    logprobs = scores[0].double().log_softmax(-1)
    trees = []
    for place in range(len(ids)):
        token = following[place] if place < len(following) else None
        trees.append(_step(logprobs[place], token, place + 1 < reading.given, tokenizer, count))
    return trees


def _step(logprobs: Tensor, token: int | None, given: bool, tokenizer: Tokenizer, count: int) -> dict[str, Any]:
    values, places = stable_top_k(logprobs[None], min(count, len(logprobs)))
    likely = places[0].tolist()
    return {
        "token": None if token is None else tokenizer.tokens([token])[0],
        "logprob": None if token is None else round(float(logprobs[token]), 5),
        "given": given,
        "top": [
            [text, round(value, 5)] for text, value in zip(tokenizer.tokens(likely), values[0].tolist(), strict=True)
        ],
        "tail": tail(logprobs, likely),
    }


def tail(logprobs: Tensor, shown: list[int]) -> list[list[float]]:
    """The tokens that are not shown, in groups: how many, and the log of their mean probability."""
    rest = torch.ones_like(logprobs, dtype=torch.bool)
    rest[shown] = False
    ranked = logprobs[rest].sort(descending=True).values
    # The first groups hold few tokens, since these are the ones whose probabilities differ.
    bounds = torch.logspace(0, 1, TAIL_GROUPS + 1, base=max(2, len(ranked) + 1)).long() - 1
    cuts = sorted({int(bound) for bound in bounds if 0 < bound < len(ranked)})
    groups = torch.tensor_split(ranked, cuts) if len(ranked) else []
    means = [(len(group), float(group.logsumexp(0)) - math.log(len(group))) for group in groups if len(group)]
    return [[size, round(mean, 4)] for size, mean in means]


def classes_tree(scores: Tensor, labels: list[str]) -> list[list[Any]]:
    """The probability of each label, likeliest first."""
    probabilities = scores[0].float().softmax(-1).tolist()
    pairs = zip(labels or [str(number) for number in range(len(probabilities))], probabilities, strict=True)
    return [[label, round(p, 6)] for label, p in sorted(pairs, key=lambda pair: -pair[1])]


def answer_tree(reader: Reader, scores: Tensor, sentence: Sentence) -> list[list[Any]]:
    """The probability of each label; of a model that tags words, that of all its tags together, then of each."""
    if isinstance(reader, MaskedReader):
        return reader.answers(scores, sentence)
    if scores.dim() == 2:
        return classes_tree(scores, reader.labels)
    sure, chosen = (part.tolist() for part in scores[0].float().softmax(-1).max(-1))
    words = spaced_words(reader.source, sentence)
    tags = [reader.labels[chosen[place]] for place, _ in words]
    whole = [" ".join(tags), round(math.prod(sure[place] for place, _ in words), 6)]
    return [whole, *([f"{text}: {tag}", round(sure[at], 6)] for (at, text), tag in zip(words, tags, strict=True))]


def writes(model: nn.Module) -> bool:
    """Whether a model can write token by token."""
    return callable(getattr(model, "step", None))
