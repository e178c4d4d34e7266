"""What answers a batch: the one place where the server meets a model.

The worker thread of a run calls an Engine's methods, one at a time. Another way to run a model is another Engine.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch

from regard import api
from regard.decode import BeamConfig, Job, SampleConfig, Sampler, Trace, make_job, score
from regard.decode.steppers import max_positions
from regard.decode.trace import Alternative
from regard.run import Run
from regard.tasks.generation import Output
from regard.tasks.images import AnyImage
from regard.text.special_tokens import EOS, PAD, UNK
from regard.web.text_stream import Passage, Token


class Engine(Protocol):
    """A model that answers many inputs at once, each as if it were alone."""

    def translate(self, texts: Sequence[str], outputs: int) -> list[list[Output]]:
        """So many translations of each text, which is one input of the model, best first."""
        ...

    def classify(self, texts: Sequence[str]) -> list[dict[str, float] | None]:
        """The probability of each label; None for a blank text."""
        ...

    def write(self, passages: Sequence[Passage], search: SampleConfig | BeamConfig, likeliest: int | None) -> None:
        """Writes passages to their ends, giving each its tokens as they come; those that close early are let go.

        With `likeliest`, so many of the most likely tokens are told at each place, those of echoed prompts included.
        """
        ...

    def attention(self, text: AnyImage, target: str | None, options: dict[str, Any]) -> dict[str, Any]:
        """What the page shows about a text, or about an image in its place."""
        ...


class RunEngine:
    """A run's own model, in this process."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def translate(self, texts: Sequence[str], outputs: int) -> list[list[Output]]:
        """By the run's usual search, as the best of it; by a beam where several translations are asked for."""
        return self.run.translate(texts, self.run.search_with({"n_best": outputs}), split=False)

    def classify(self, texts: Sequence[str]) -> list[dict[str, float] | None]:
        """The probability of each label; None for a blank text."""
        return self.run.classify(texts)

    @torch.no_grad()
    def write(self, passages: Sequence[Passage], search: SampleConfig | BeamConfig, likeliest: int | None) -> None:
        """Step by step; a sequence that closes leaves the batch. A beam knows its text only at the end."""
        if likeliest is not None:
            self._score_prompts([passage for passage in passages if passage.echo], likeliest)
        rows = [passage for passage in passages if passage.open]
        limited = max_positions(self._model) is not None
        groups: dict[int, list[Passage]] = {}
        for row in rows:  # in step with a longer prompt, a row would go beyond positions that it need not
            groups.setdefault(len(row.prompt) if limited else 0, []).append(row)
        for group in groups.values():
            if isinstance(search, BeamConfig):
                self._write_best(group, search, likeliest)
            else:
                self._write(group, search, likeliest)

    def _write(self, rows: Sequence[Passage], search: SampleConfig, likeliest: int | None) -> None:
        job, trace = self._job(rows, search), Trace(top=likeliest) if likeliest else None
        for step in RowSampler(rows, search).steps(job, trace):
            likely = {choice.row: _pairs(choice.best) for choice in trace.choices} if trace else {}
            for token in step.generated(job):
                row = rows[token.row]
                row.take(Token(token.token, token.logprob, likely.get(token.row, []), token.ended, token.last))
                if not row.open:
                    step.close(token.row)
            if trace:
                trace.choices.clear()

    def _write_best(self, rows: Sequence[Passage], search: BeamConfig, likeliest: int | None) -> None:
        """The n best continuations of each prompt, for the passages that are its samples."""
        alone = list({(*row.prompt, row.limit): row for row in rows}.values())
        found = search.build().run(self._job(alone, search))
        best = {(*row.prompt, row.limit): hypotheses for row, hypotheses in zip(alone, found, strict=True)}
        chosen = [best[(*row.prompt, row.limit)] for row in rows]
        ends = [hypotheses[min(row.sample, len(hypotheses) - 1)] for row, hypotheses in zip(rows, chosen, strict=True)]
        ids = [[*end.tokens, *([EOS] if end.finished else [])] for end in ends]
        told = self._scored([row.prompt for row in rows], ids, likeliest or 0)
        for row, end, tokens in zip(rows, ends, told, strict=True):
            for place, token in enumerate(tokens, start=1):
                last = place == len(tokens)
                row.take(replace(token, ended=last and end.finished, last=last))
                if not row.open:
                    break

    def attention(self, text: AnyImage, target: str | None, options: dict[str, Any]) -> dict[str, Any]:
        """What the page shows about a text, or about an image in its place."""
        return api.attention(self.run, text, target, **options)  # type: ignore[arg-type]

    def _job(self, rows: Sequence[Passage], search: SampleConfig | BeamConfig) -> Job:
        prompts, ends = [passage.prompt for passage in rows], EOS if self.run.documents else None
        longest = search.but(max_length=max(passage.limit for passage in rows))
        job = make_job(
            self._model, None, prompts, longest, eos=ends, bos=None, pad=PAD, unk=UNK, device=self.run.device
        )
        return replace(job, limits=[min(row.limit, most) for row, most in zip(rows, job.limits, strict=True)])

    def _score_prompts(self, rows: Sequence[Passage], likeliest: int) -> None:
        """Tells passages how likely their prompts' tokens were; nothing predicts the first."""
        tails = self._scored([row.prompt[:1] for row in rows], [row.prompt[1:] for row in rows], likeliest)
        for row, later in zip(rows, tails, strict=True):
            row.prompt_tokens = [Token(row.prompt[0], None), *later]

    def _scored(self, heads: list[list[int]], tails: list[list[int]], likeliest: int) -> list[list[Token]]:
        """The tokens that follow each head, how likely they were, and what else was."""
        trace, device = Trace(top=max(1, likeliest)), self.run.device
        pairs = [(head, tail) for head, tail in zip(heads, tails, strict=True) if tail]
        given = {"eos": None, "bos": None, "prompts": [head for head, _ in pairs], "device": device, "trace": trace}
        found = iter(score(self._model, None, [tail for _, tail in pairs], **given) if pairs else [])
        likely = iter(_pairs(choice.best)[:likeliest] for choice in trace.choices)
        return [
            [Token(id, logprob, next(likely)) for id, logprob in zip(tail, next(found), strict=True)] if tail else []
            for tail in tails
        ]

    @property
    def _model(self) -> Any:  # noqa: ANN401
        return self.run.model


class RowSampler(Sampler):
    """Draws as the command line does with the same seed, but each row has a seed of its own."""

    def __init__(self, rows: Sequence[Passage], search: SampleConfig) -> None:
        super().__init__(
            repetition_penalty=search.repetition_penalty,
            temperature=search.temperature,
            top_k=search.top_k,
            top_p=search.top_p,
            min_p=search.min_p,
        )
        self.rows = rows

    def seeds(self, job: Job) -> list[list[int]]:
        return [[row.seed, row.sample, 0, *row.prompt] for row in self.rows]


def _pairs(alternatives: Sequence[Alternative]) -> list[tuple[int, float]]:
    return [(alternative.token, alternative.logprob) for alternative in alternatives]
