"""Generation: the likeliest tokens at each step, and the tree of a beam search; for classifiers, the labels."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.decode import AnySearch, BeamConfig, Hypothesis, Trace, search
from regard.decode.constraints import stable_top_k
from regard.decode.steppers import max_positions
from regard.look.model_input import InputBuilder, MaskedInputBuilder, ModelInput
from regard.look.payload import Beam, Branch, Step
from regard.look.tokens import Sentence, spaced_words
from regard.tasks.base import Task
from regard.tasks.contract import as_stepper
from regard.text.special_tokens import BOS, EOS, PAD, UNK
from regard.text.tokenizer import Tokenizer

TAIL_GROUPS = 24
"""Groups of similarly likely tokens for the rest of a distribution, so that a temperature can act on it."""
TREE_STEPS = 48
"""Most steps of a beam that are drawn."""


def generate(builder: InputBuilder, source: list[int], config: AnySearch) -> list[int]:
    """The best output of the search for a source or a prompt.

    The page shows it as an input of the model, so its last token needs a position too.
    """
    tokens, positions = _search(builder, source, config).tokens, max_positions(builder.model)
    start = 1 if builder.shape == "pair" else len(source)
    return tokens if positions is None else tokens[: positions - start]


def trace_beam(builder: InputBuilder, source: list[int], beam: BeamConfig) -> Beam:
    """Every continuation that a beam search considered."""
    trace, longest = Trace(top=beam.size), min(beam.max_length, TREE_STEPS)
    config = beam.but(max_length=longest, min_length=min(beam.min_length, longest - 1))
    best = _search(builder, source, config, trace)
    tokens = builder.target.tokens([branch.token for branch in trace.branches[0]])
    branches = [
        Branch(
            -1 if branch.parent is None else branch.parent,
            branch.step,
            token,
            round(branch.logprob, 5),
            round(branch.total, 5),
            branch.fate,
        )
        for branch, token in zip(trace.branches[0], tokens, strict=True)
    ]
    return Beam(size=beam.size, text=builder.target.decode(best.tokens), score=best.score, branches=branches)


def _search(builder: InputBuilder, ids: list[int], config: AnySearch, trace: Trace | None = None) -> Hypothesis:
    pair = builder.shape == "pair"
    source, prompts = (builder.source_argument(ids), None) if pair else (None, [ids])
    bos, eos = BOS if pair else None, EOS if pair or builder.documents else None
    model, device = as_stepper(builder.model), builder.trained.device
    return search(
        model, source, prompts, config, eos=eos, bos=bos, pad=PAD, unk=UNK, device=device, trace=trace
    )[0][0]  # fmt: skip


def trace_steps(logits: Tensor, inputs: ModelInput, tokenizer: Tokenizer, count: int) -> list[Step]:
    """At each position of the target: the next token, its log-probability, and the likeliest others."""
    assert inputs.target is not None
    ids = inputs.target.ids
    following: list[int | None] = [*ids[1:], EOS if inputs.shape == "pair" else None]
    logprobs = logits[0].double().log_softmax(-1)
    return [
        _step(logprobs[position], token, position + 1 < inputs.prompt_length, tokenizer, count)
        for position, token in enumerate(following)
    ]


def _step(logprobs: Tensor, token: int | None, prompted: bool, tokenizer: Tokenizer, count: int) -> Step:
    values, ids = (part[0].tolist() for part in stable_top_k(logprobs[None], min(count, len(logprobs))))
    return Step(
        token=None if token is None else tokenizer.tokens([token])[0],
        logprob=None if token is None else round(float(logprobs[token]), 5),
        prompted=prompted,
        top=[(text, round(value, 5)) for text, value in zip(tokenizer.tokens(ids), values, strict=True)],
        tail=tail(logprobs, ids),
    )


def tail(logprobs: Tensor, shown: list[int]) -> list[tuple[int, float]]:
    """The tokens that are not shown, in groups: how many, and the log of their mean probability."""
    rest = torch.ones_like(logprobs, dtype=torch.bool)
    rest[shown] = False
    ranked = logprobs[rest].sort(descending=True).values
    # The first groups have few tokens, since these are the ones whose probabilities differ.
    bounds = torch.logspace(0, 1, TAIL_GROUPS + 1, base=max(2, len(ranked) + 1)).long() - 1
    cuts = sorted({int(bound) for bound in bounds if 0 < bound < len(ranked)})
    groups = torch.tensor_split(ranked, cuts) if len(ranked) else []
    means = [(len(group), float(group.logsumexp(0)) - math.log(len(group))) for group in groups if len(group)]
    return [(size, round(mean, 4)) for size, mean in means]


def label_probabilities(task: Task, logits: Tensor, labels: Sequence[str]) -> list[tuple[str, float]]:
    """Likeliest first."""
    probabilities = task.probabilities(logits[0]).tolist()
    pairs = zip(labels or [str(number) for number in range(len(probabilities))], probabilities, strict=True)
    return [(label, round(p, 6)) for label, p in sorted(pairs, key=lambda pair: -pair[1])]


def trace_labels(builder: InputBuilder, logits: Tensor, sentence: Sentence) -> list[tuple[str, float]]:
    """The probability of each label; for a tagger, that of all tags together, then of each."""
    if isinstance(builder, MaskedInputBuilder):
        return builder.predictions(logits, sentence)
    labels = builder.trained.labels
    if logits.dim() == 2:
        return label_probabilities(builder.trained.task, logits, labels)
    likeliest = logits[0].float().softmax(-1).max(-1)
    rows = [
        (text, labels[int(likeliest.indices[at])], float(likeliest.values[at]))
        for at, text in spaced_words(builder.source, sentence)
    ]
    joint = (" ".join(tag for _, tag, _ in rows), round(math.prod(p for _, _, p in rows), 6))
    return [joint, *((f"{text}: {tag}", round(p, 6)) for text, tag, p in rows)]


def generates(model: nn.Module) -> bool:
    """Whether a model can decode step by step."""
    return callable(getattr(model, "step", None))
