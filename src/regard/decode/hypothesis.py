"""What a search gives back."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One written sequence: without its prompt, its begin token and its end token."""

    tokens: list[int]
    score: float
    """What the search ranks by: the sum of the log-probabilities, in beam search divided by the length penalty."""
    token_logprobs: list[float]
    """The model's own log-probability of each token, and of the end token last where `finished`."""
    finished: bool
    """Whether the end token was written; otherwise the length limit cut the sequence."""


@dataclass(frozen=True)
class GeneratedToken:
    """One token as it comes, for streams."""

    row: int
    sample: int
    """Which of the row's samples; zero where there is one only."""
    token: int
    logprob: float
    ended: bool
    """Whether this is the end token, which belongs to no text."""
    last: bool
    """Whether the row writes nothing after it."""
