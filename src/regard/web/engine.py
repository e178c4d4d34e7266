"""Engines: what executes a batch. `RunEngine` is the run's own model; `CTranslate2Engine` translates by CTranslate2.

The worker thread of a run calls the methods of its engine, one at a time.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch

from regard import api
from regard.config.search_options import Search, with_options
from regard.ctranslate2.choice import Choice, choose
from regard.ctranslate2.model_folder import ConvertedModel
from regard.ctranslate2.process import EngineProcess
from regard.decode import BeamConfig, Job, SampleConfig, Sampler, Trace, make_job, score
from regard.decode.steppers import max_positions
from regard.decode.trace import Alternative
from regard.errors import ConfigError, Failure
from regard.run import Run
from regard.tasks.generation import AnyInput, Output
from regard.text.special_tokens import EOS, PAD, UNK
from regard.web.text_stream import TextStream, Token

log = logging.getLogger("regard.serve")


class Engine(Protocol):
    """A model that processes many inputs at once; each result is the same as if its input were alone."""

    def translate(self, texts: Sequence[AnyInput], outputs: int) -> list[list[Output]]:
        """The `outputs` best translations of each text, best first; a text is one input of the model."""
        ...

    def classify(self, texts: Sequence[AnyInput]) -> list[dict[str, float] | None]:
        """The probability of each label; None for a blank text."""
        ...

    def generate(
        self, streams: Sequence[TextStream], search: SampleConfig | BeamConfig, top_logprobs: int | None
    ) -> None:
        """Appends tokens to streams until all are finished.

        With `top_logprobs`, tokens have so many alternatives, those of echoed prompts included.
        """
        ...

    def attention(self, text: AnyInput, target: str | None, options: dict[str, object]) -> dict[str, object]:
        """The payload of the page for a text or an image."""
        ...


class RunEngine:
    """A run's own model, in this process."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def translate(self, texts: Sequence[AnyInput], outputs: int) -> list[list[Output]]:
        """By the run's usual search; by a beam where several translations are wanted."""
        return self.run.translate(texts, self.run.search_with({"n_best": outputs}), split=False)

    def classify(self, texts: Sequence[AnyInput]) -> list[dict[str, float] | None]:
        return self.run.classify(texts)

    def attention(self, text: AnyInput, target: str | None, options: dict[str, object]) -> dict[str, object]:
        return api.attention(self.run, text, target, **options)  # type: ignore[arg-type]

    @torch.no_grad()
    def generate(
        self, streams: Sequence[TextStream], search: SampleConfig | BeamConfig, top_logprobs: int | None
    ) -> None:
        if top_logprobs is not None:
            self._score_prompts([stream for stream in streams if stream.echo], top_logprobs)
        limited = max_positions(self.run.model) is not None  # type: ignore[arg-type]
        groups: dict[int, list[TextStream]] = {}
        for stream in streams:
            if stream.open:  # padded to a longer prompt, a row could exceed a limited table of positions
                groups.setdefault(len(stream.prompt) if limited else 0, []).append(stream)
        for group in groups.values():
            if isinstance(search, BeamConfig):
                self._beam(group, search, top_logprobs)
            else:
                self._sample(group, search, top_logprobs)

    def _sample(self, streams: Sequence[TextStream], search: SampleConfig, top_logprobs: int | None) -> None:
        job, trace = self._job(streams, search), Trace(top=top_logprobs) if top_logprobs else None
        for step in StreamSampler(streams, search).steps(job, trace):
            best = {choice.row: _pairs(choice.best) for choice in trace.choices} if trace else {}
            for token in step.generated(job):
                stream = streams[token.row]
                stream.append(Token(token.token, token.logprob, best.get(token.row, []), token.ended, token.last))
                if not stream.open:
                    step.close(token.row)
            if trace:
                trace.choices.clear()

    def _beam(self, streams: Sequence[TextStream], search: BeamConfig, top_logprobs: int | None) -> None:
        """The n best continuations of each prompt go to the streams that are its samples, all tokens at the end."""
        unique = list({(*stream.prompt, stream.max_tokens): stream for stream in streams}.values())
        results = search.build().run(self._job(unique, search))
        best = {(*stream.prompt, stream.max_tokens): rows for stream, rows in zip(unique, results, strict=True)}
        hypotheses = [best[(*stream.prompt, stream.max_tokens)] for stream in streams]
        chosen = [rows[min(stream.sample, len(rows) - 1)] for stream, rows in zip(streams, hypotheses, strict=True)]
        ids = [[*one.tokens, *([EOS] if one.finished else [])] for one in chosen]
        scored = self._score([stream.prompt for stream in streams], ids, top_logprobs or 0)
        for stream, hypothesis, tokens in zip(streams, chosen, scored, strict=True):
            for number, token in enumerate(tokens, start=1):
                last = number == len(tokens)
                stream.append(replace(token, ended=last and hypothesis.finished, last=last))
                if not stream.open:
                    break

    def _job(self, streams: Sequence[TextStream], search: SampleConfig | BeamConfig) -> Job:
        prompts, eos = [stream.prompt for stream in streams], EOS if self.run.documents else None
        search = search.but(max_length=max(stream.max_tokens for stream in streams))
        model: Any = self.run.model
        job = make_job(model, None, prompts, search, eos=eos, bos=None, pad=PAD, unk=UNK, device=self.run.device)
        limits = [min(stream.max_tokens, limit) for stream, limit in zip(streams, job.limits, strict=True)]
        return replace(job, limits=limits)

    def _score_prompts(self, streams: Sequence[TextStream], top_logprobs: int) -> None:
        """Sets the log-probabilities of the prompts' tokens; nothing predicts the first."""
        first, rest = [stream.prompt[:1] for stream in streams], [stream.prompt[1:] for stream in streams]
        for stream, tokens in zip(streams, self._score(first, rest, top_logprobs), strict=True):
            stream.prompt_tokens = [Token(stream.prompt[0], None), *tokens]

    def _score(self, prompts: list[list[int]], continuations: list[list[int]], top_logprobs: int) -> list[list[Token]]:
        """The tokens of continuations with their log-probabilities and alternatives."""
        trace, model = Trace(top=max(1, top_logprobs)), self.run.model
        pairs = [(prompt, tokens) for prompt, tokens in zip(prompts, continuations, strict=True) if tokens]
        options: Any = {"eos": None, "bos": None, "prompts": [prompt for prompt, _ in pairs]}
        options |= {"device": self.run.device, "trace": trace}
        logprobs = iter(score(model, None, [tokens for _, tokens in pairs], **options) if pairs else [])  # type: ignore[arg-type]
        best = iter(_pairs(choice.best)[:top_logprobs] for choice in trace.choices)
        return [
            [Token(id, logprob, next(best)) for id, logprob in zip(tokens, next(logprobs), strict=True)]
            if tokens
            else []
            for tokens in continuations
        ]


class StreamSampler(Sampler):
    """Samples as the command line does with the same seed, but each row has its own seed."""

    def __init__(self, streams: Sequence[TextStream], search: SampleConfig) -> None:
        super().__init__(
            repetition_penalty=search.repetition_penalty,
            temperature=search.temperature,
            top_k=search.top_k,
            top_p=search.top_p,
            min_p=search.min_p,
        )
        self.streams = streams

    def seeds(self, job: Job) -> list[list[int]]:
        return [[stream.seed, stream.sample, 0, *stream.prompt] for stream in self.streams]


def _pairs(alternatives: Sequence[Alternative]) -> list[tuple[int, float]]:
    return [(alternative.token, alternative.logprob) for alternative in alternatives]


class CTranslate2Engine(RunEngine):
    """Translates by CTranslate2, in a process beside the server; everything else is the run's own model's.

    Several translations of a text come from torch, since the n best of CTranslate2 differ.
    """

    def __init__(self, run: Run, choice: Choice) -> None:
        super().__init__(run)
        assert choice.converted is not None
        assert choice.search is not None
        self.search = choice.search
        self.remote: EngineProcess | None = EngineProcess(choice.converted)

    def translate(self, texts: Sequence[AnyInput], outputs: int) -> list[list[Output]]:
        """After a failure of the process, torch translates."""
        if outputs == 1 and self.remote is not None:
            try:
                return self.remote.translate(list(map(str, texts)), self.search, cut=self.run.cuts)
            except Failure as error:
                log.warning("%s: %s; translating with torch from now on", self.run.name, error)
                self.remote = None
        return super().translate(texts, outputs)

    def close(self) -> None:
        """Ends the process."""
        if self.remote is not None:
            self.remote.close()
            self.remote = None


def engine_for(
    run: Run,
    engine: str,
    *,
    int8: bool,
    device: str,
    say: Callable[[str], None],
    detail: Callable[[str], None] = lambda sentence: None,
) -> Engine:
    """The engine of a run: CTranslate2 where it is allowed and gives torch's translations, else the run's own model.

    `say` reports what takes long, `detail` which engine was chosen and why.
    """
    if run.task.verb != "translate":
        if int8 or engine == "ctranslate2":
            raise ConfigError(
                "--int8" if int8 else "--engine",
                f"ctranslate2 serves translations, and {run.name} is a run of {run.recipe.task.kind}; leave it out",
            )
        return RunEngine(run)

    def search_of(converted: ConvertedModel) -> Search:
        return with_options(converted.default_search, {"n_best": 1}, converted.searches)

    choice = choose(run.folder, engine, "translation", search_of, int8=int8, device=device, say=say)
    detail(f"{run.name}: {choice}")
    return RunEngine(run) if choice.engine == "torch" else CTranslate2Engine(run, choice)
