"""What every engine does alike with a text before and after its model, so that all of them write the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import pairwise
from typing import Any, Literal

from regard.errors import OverlongError, located
from regard.text.sentences import WIDE, spans
from regard.text.special_tokens import BOS, EOS, UNK
from regard.text.vocabulary import Vocabulary

TOKENS_AT_ONCE = 4096
TOKENS_ON_GPU, ROWS_ON_GPU = 16384, 512
"""A GPU takes as long for a step of many rows as of few; more rows than that fill its memory with keys and values."""
Overlong = Literal["cut", "skip", "error"]
"""What becomes of an input that is too long: its beginning is read, it is left out, or it is an error."""
WIDE_CLOSERS = "”’」』）】》〉"


@dataclass(frozen=True)
class Output:
    """One text that a model wrote."""

    text: str
    score: float
    tokens: list[str]
    token_logprobs: list[float]
    finished: bool
    """Whether the model ended the text itself; otherwise the length limit did."""


@dataclass(frozen=True)
class Summary(Output):
    """A summary, and how much of its text the model did not read."""

    unread: int = 0
    """Tokens of the text beyond `task.input_tokens`."""


@dataclass(frozen=True)
class Passage:
    """A text that fits into a model, or a sentence of one that does not."""

    source: list[int]
    """Its tokens, the end token last."""
    prefix: list[int]
    """What its translation must begin with."""
    text: str = ""
    gap: str = ""
    """White space between the passage before it and this one."""

    def __len__(self) -> int:
        return len(self.source)


def passages(
    texts: Sequence[str],
    source: Vocabulary,
    longest: int | None,
    prefixes: Sequence[Sequence[int]] | None = None,
    cut: bool = False,
) -> list[list[Passage]]:
    """Each text as token rows that fit: whole, or sentence by sentence; none where it is blank.

    Sentences that do not fit are `cut` at the end, or OverlongError names all texts that have one.
    """
    given = zip(texts, source.encode_batch(texts), [()] * len(texts) if prefixes is None else prefixes, strict=True)
    split = [_sentences(text, ids, source, longest, prefix) for text, ids, prefix in given]
    if longest is None:
        return split
    if not cut:
        refuse_overlong([max(map(len, parts), default=0) for parts in split], longest, "a sentence of ")
    return [[_cut(part, longest) for part in parts] for parts in split]


def refuse_overlong(lengths: Sequence[int], longest: int | None, what: str = "") -> None:
    """OverlongError for inputs with more tokens than a model takes."""
    if problems := overlong_inputs(lengths, longest, what):
        raise OverlongError(problems)


def overlong_inputs(lengths: Sequence[int], longest: int | None, what: str = "") -> dict[int, str]:
    """What is wrong with each input that has more tokens than a model takes, by its number from one."""
    return {
        number: f"{what}{length} tokens, the model takes at most {longest}; shorten it, or train with a larger "
        "data.max_length"
        for number, length in enumerate(lengths, start=1)
        if longest is not None and length > longest
    }


def fitted(
    texts: list[Any],
    work: Callable[[list[Any], bool], list[Any]],
    origins: Sequence[tuple[object, int]],
    overlong: Overlong,
    say: Callable[[str], None],
) -> tuple[list[Any], dict[int, str]]:
    """What a model makes of texts, and what is wrong with those that are too long, by number from one.

    These are cut, which `work` is told, or left blank, and `say` names file and line of each; or the first of them is
    an error.
    """
    with located(origins):
        try:
            return work(texts, False), {}
        except OverlongError as error:
            if overlong == "error":
                raise
            problems = error.inputs
        for number, problem in problems.items():
            file, line = origins[number - 1]
            what = "cut at the end" if overlong == "cut" else "left blank"
            say(f"{file}:{line}: {problem.partition(';')[0]}; {what}")
        if overlong == "cut":
            return work(texts, True), problems
        blank = ["" if number in problems else text for number, text in enumerate(texts, start=1)]
        results = work(blank, False)
        for number in problems:  # nothing, not what becomes of a blank text
            results[number - 1] = [] if isinstance(results[number - 1], list) else None
        return results, problems


def _cut(passage: Passage, longest: int) -> Passage:
    if len(passage) <= longest:
        return passage
    return replace(passage, source=[*passage.source[: longest - 1], EOS])


def _sentences(
    text: str, ids: list[int], source: Vocabulary, longest: int | None, prefix: Sequence[int]
) -> list[Passage]:
    """One text, of which the tokens are known, whole where it fits."""
    if not text.strip():
        return []
    whole = Passage([*ids, EOS], list(prefix), text)
    if longest is None or len(whole) <= longest:
        return [whole]
    places = spans(text)
    gaps = ["", *(text[end:start] for (_, end), (start, _) in pairwise(places))]
    starts = [list(prefix), *([] for _ in places[1:])]  # the whole begins with it, not each sentence
    sentences = [text[start:end] for start, end in places]
    return [
        Passage([*source.encode(part), EOS], start, part, gap)
        for part, start, gap in zip(sentences, starts, gaps, strict=True)
    ]


def beginning(text: str, source: Vocabulary, most: int) -> tuple[list[int], int]:
    """The tokens of a text that a summariser reads, one fewer than `most`, and how many it does not read."""
    ids = source.encode(text)
    return ids[: most - 1], max(0, len(ids) - most + 1)


def joined(pieces: Sequence[Passage], found: Sequence[Sequence[Output]]) -> list[Output]:
    """The translations of a text from those of its pieces, put together with what stood between them."""
    if not pieces:
        return [Output("", 0.0, [], [], True)]
    if len(pieces) == 1:
        return list(found[0])
    gaps, sources = [piece.gap for piece in pieces], [piece.text for piece in pieces]
    return [together(ranked, gaps, sources) for ranked in best_combinations(found)]


def best_combinations(found: Sequence[Sequence[Output]]) -> list[list[Output]]:
    """One output of each piece, as often as a piece has outputs: first those with the highest sum of scores.

    Outputs that ended come before those that were cut, as in each piece.
    """
    count = max(map(len, found), default=0)
    best = [_Chain()]
    for outputs in found:
        longer = [_Chain(chain.cut + (not one.finished), chain.score + one.score, chain, one)
                  for chain in best for one in outputs]  # fmt: skip
        best = nsmallest(count, longer, key=lambda chain: (chain.cut, -chain.score))
    return [chain.outputs() for chain in best]


@dataclass(frozen=True)
class _Chain:
    """Outputs of the first pieces, linked backwards: only the best of them are copied, at the end."""

    cut: int = 0
    score: float = 0.0
    before: "_Chain | None" = None
    last: Output | None = None

    def outputs(self) -> list[Output]:
        chain, found = self, list[Output]()
        while chain.before is not None and chain.last is not None:
            found.append(chain.last)
            chain = chain.before
        return found[::-1]


def together(outputs: Sequence[Output], gaps: Sequence[str], sources: Sequence[str]) -> Output:
    """One output made of those of its pieces; its score is the sum of theirs. `gaps` stand before each source."""
    behind = zip(gaps[1:], sources, outputs, strict=False)
    between = [_fitting(gap, source, output.text) for gap, source, output in behind]
    return Output(
        "".join(gap + one.text for gap, one in zip([gaps[0], *between], outputs, strict=True)),
        sum(one.score for one in outputs),
        [token for one in outputs for token in one.tokens],
        [logprob for one in outputs for logprob in one.token_logprobs],
        all(one.finished for one in outputs),
    )


def _fitting(gap: str, source: str, output: str) -> str:
    """What stands behind a sentence, as its translation's script has it: no space behind a wide full stop only."""
    was_wide, is_wide = (text.rstrip(WIDE_CLOSERS).endswith(tuple(WIDE)) for text in (source, output))
    if was_wide and not is_wide:
        return gap or " "
    return "" if is_wide and not was_wide and gap == " " else gap


def limit_sentence(most: int, positions: int | None) -> str | None:
    """What a search that may generate more tokens than the model has positions is limited to."""
    if positions is None or most <= positions:
        return None
    return f"search.max_length = {most}: limited to {positions} tokens, the positions that the model has"


def refuse_long_prompt(number: int, tokens: int, positions: int | None) -> None:
    """InputError for a prompt that the positions of a model cannot hold."""
    if positions is not None and tokens > positions:
        raise OverlongError(
            {number: f"a prompt of {tokens} tokens, and the model has {positions} positions; shorten it"}
        )


def prompt_tokens(prompts: Sequence[str], vocabulary: Vocabulary, documents: bool) -> list[list[int]]:
    """What a language model writes on from; `documents`: it knows where texts begin."""
    rows = vocabulary.encode_batch(prompts)
    if documents:
        return [[BOS, *ids] for ids in rows]
    return [ids or vocabulary.encode("\n") or [UNK] for ids in rows]
