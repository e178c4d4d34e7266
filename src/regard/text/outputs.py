"""Generated texts, and how those of several sentences become one."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import TypedDict

from regard.text.inputs import SourceSegment
from regard.text.sentences import WIDE

WIDE_CLOSERS = "”’」』）】》〉"


@dataclass(frozen=True)
class Output:
    """One generated text with its score (log-probability, length-penalised as the search has it)."""

    text: str
    score: float
    tokens: list[str]
    token_logprobs: list[float]
    finished: bool
    """Whether the model generated `<eos>`; otherwise the length limit ended the text."""


@dataclass(frozen=True)
class Summary(Output):
    """A summary, and how much of its document was truncated."""

    unread: int = 0
    """Tokens of the document beyond `task.input_tokens`."""


class SentenceOutput(TypedDict):
    """One sentence of a paragraph and its translation."""

    source: str
    text: str
    score: float


@dataclass(frozen=True)
class Paragraph(Output):
    """The translation of a text of several sentences; its score is the sum of theirs."""

    sentences: list[SentenceOutput]


EMPTY_OUTPUT = Output("", 0.0, [], [], True)


def join_segments(segments: Sequence[SourceSegment], outputs: Sequence[Sequence[Output]]) -> list[Output]:
    """The translations of a text, best first, from those of its segments; of a blank text, an empty one."""
    if not segments:
        return [EMPTY_OUTPUT]
    if len(segments) == 1:
        return list(outputs[0])
    gaps, sources = [segment.gap for segment in segments], [segment.text for segment in segments]
    return [concatenate(combination, gaps, sources) for combination in best_combinations(outputs)]


def best_combinations(outputs: Sequence[Sequence[Output]]) -> list[list[Output]]:
    """One output of each sentence, as often as a sentence has outputs: the highest sums of scores first.

    Finished outputs come before unfinished ones, as they do for each sentence.
    """
    count = max(map(len, outputs), default=0)
    best = [_Chain()]
    for candidates in outputs:
        extended = [_Chain(chain.unfinished + (not output.finished), chain.score + output.score, chain, output)
                    for chain in best for output in candidates]  # fmt: skip
        best = nsmallest(count, extended, key=lambda chain: (chain.unfinished, -chain.score))
    return [chain.outputs() for chain in best]


@dataclass(frozen=True)
class _Chain:
    """Outputs of the first sentences as a linked list: only the best chains are copied, at the end."""

    unfinished: int = 0
    score: float = 0.0
    previous: "_Chain | None" = None
    last: Output | None = None

    def outputs(self) -> list[Output]:
        chain, outputs = self, list[Output]()
        while chain.previous is not None and chain.last is not None:
            outputs.append(chain.last)
            chain = chain.previous
        return outputs[::-1]


def concatenate(outputs: Sequence[Output], gaps: Sequence[str], sources: Sequence[str]) -> Output:
    """One output from those of its sentences; `gaps` is the white space before each source."""
    following = zip(gaps[1:], sources, outputs, strict=False)
    between = [_target_gap(gap, source, output.text) for gap, source, output in following]
    return Output(
        "".join(gap + output.text for gap, output in zip([gaps[0], *between], outputs, strict=True)),
        sum(output.score for output in outputs),
        [token for output in outputs for token in output.tokens],
        [logprob for output in outputs for logprob in output.token_logprobs],
        all(output.finished for output in outputs),
    )


def _target_gap(gap: str, source: str, output: str) -> str:
    """The white space after a sentence as its translation's script has it: none after a full-width full stop."""
    was_wide, is_wide = (text.rstrip(WIDE_CLOSERS).endswith(tuple(WIDE)) for text in (source, output))
    if was_wide and not is_wide:
        return gap or " "
    return "" if is_wide and not was_wide and gap == " " else gap
