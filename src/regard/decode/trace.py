"""What a search considered, recorded on request; it never changes the search."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from regard.decode.constraints import stable_top_k
from regard.decode.job import GeneratedToken
from regard.nn.device import to_list

Fate = Literal["kept", "finished", "pruned"]


@dataclass(frozen=True)
class Alternative:
    """A token that could have been chosen, and the model's log-probability of it."""

    token: int
    logprob: float


@dataclass(frozen=True)
class Choice:
    """One step of one sequence: the chosen token and the likeliest ones."""

    row: int
    sample: int
    step: int
    token: int
    best: list[Alternative]


@dataclass(frozen=True)
class Branch:
    """One edge of a beam's tree: a candidate continuation."""

    row: int
    step: int
    parent: int | None
    """Which branch of the row's list it continues; None at the root."""
    token: int
    logprob: float
    total: float
    """Sum of the log-probabilities from the root to here."""
    fate: Fate


@dataclass
class Trace:
    """Give one to a search, read it afterwards."""

    top: int = 5
    """Likely tokens to keep at each step; in beam search, pruned continuations to keep for each sentence and step."""
    choices: list[Choice] = field(default_factory=list)
    """Greedy search, sampling and scoring: every step of every sequence."""
    branches: dict[int, list[Branch]] = field(default_factory=dict)
    """Beam search: the tree of each row, parents before children."""
    _tips: dict[int, list[int]] = field(default_factory=dict, repr=False)
    """Beam search: the last branch of each open hypothesis of a row, best first."""

    def record_step(self, step: int, chosen: Sequence[GeneratedToken], logprobs: Float[Tensor, "rows vocab"]) -> None:
        """One step of a search with one token a row."""
        values, tokens = stable_top_k(logprobs, min(self.top, logprobs.shape[-1]))
        for token, ids, likelihoods in zip(chosen, to_list(tokens), to_list(values), strict=True):
            best = [Alternative(id, logprob) for id, logprob in zip(ids, likelihoods, strict=True)]
            self.choices.append(Choice(token.row, token.sample, step, token.token, best))

    def record_branches(self, row: int, step: int, considered: Sequence[tuple[int, int, float, float, Fate]]) -> None:
        """One step of one sentence's beam: (parent, token, logprob, total, fate), best first."""
        tree, tips = self.branches.setdefault(row, []), self._tips.get(row)
        grown: list[int] = []
        for parent, token, logprob, total, fate in considered:
            if fate == "kept":
                grown.append(len(tree))
            tree.append(Branch(row, step, tips[parent] if tips else None, token, logprob, total, fate))
        self._tips[row] = grown
