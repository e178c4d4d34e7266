"""Rules for tasks that generate text: translation, summarisation, language models."""

from collections.abc import Sequence

from regard.run.defaults.cost import Candidate, subwords
from regard.run.defaults.job import Job, dropout

PAIR_SIZES = ((0, 128, 2), (1e5, 128, 3), (1e6, 256, 3), (1e7, 384, 4), (3e7, 512, 6))
TEXT_SIZES = ((0, 64, 2), (1e4, 128, 4), (3e5, 256, 6), (1e6, 384, 6), (5e7, 512, 8), (5e8, 768, 12))
PAIR_PASSES = (4, 8, 12)
"""Passes over pairs from which on dropout is 0.1, 0.2, 0.3: with 0.2, 15 passes over 52 MB learn them by heart."""
CHARACTERS = 4e6
"""Bytes of a text that is read character by character: too short for a vocabulary of subwords."""


def translation(job: Job) -> None:
    """An encoder-decoder on subwords; R-Drop where data is scarce and there is time (recipes/multi30k-en-de.toml)."""
    facts, decide = job.facts, job.decide
    target_epochs = min(200.0, max(10.0, 150 * (3.9e6 / max(facts.bytes, 1)) ** 0.6))
    target_epochs = job.passes(target_epochs, max(facts.source, facts.target) / 3)

    def make(width: int, depth: int) -> Candidate:
        size = int(decide.stated.get("tokenizer.size", job.subword_size(width)))
        return Candidate(width, depth, size, facts.source / subwords(size) + 1, facts.target / subwords(size) + 1)

    batch = job.batch_for(2500, (16384 if facts.bytes > 2e7 else 8192) if job.machine.is_gpu else 4096)
    effort = job.size(PAIR_SIZES, make, target_epochs, batch)
    job.vocabulary("bpe", job.subword_size(effort.candidate.width), "subwords of both languages together")
    twice = job.effort(effort.candidate.twice(), target_epochs, batch)
    if facts.bytes < 1e7 and twice.epochs(job.budget(target_epochs)) >= 60 and not decide.has("task.consistency"):
        effort = twice
        decide("task.consistency", 3.0, f"{facts.amount}: R-Drop, as data is scarce and the time suffices")
    decide("task.smoothing", 0.1, "as all translators have it since Vaswani 2017")
    epochs = effort.epochs(job.budget(target_epochs))
    _drop(job, epochs, passes=PAIR_PASSES)
    job.limit_length(facts.long, subwords(effort.candidate.vocab))
    job.train(effort, target_epochs, lr=_rate(effort.candidate.width), generates=True)
    job.choose_by("bleu")


def summarisation(job: Job) -> None:
    """An encoder-decoder on subwords that reads long texts (recipes/documents/aeslc.toml)."""
    facts, decide = job.facts, job.decide
    target_epochs = min(60.0, max(5.0, 15 * (7.2e6 / max(facts.bytes, 1)) ** 0.5))
    target_epochs = job.passes(target_epochs, max(facts.source, facts.target) / 3)
    cut = int(decide.stated.get("task.input_tokens", 500))

    def make(width: int, depth: int) -> Candidate:
        size = int(decide.stated.get("tokenizer.size", job.subword_size(width)))
        return Candidate(width, depth, size, min(cut, facts.source / subwords(size)), facts.target / subwords(size) + 1)

    effort = job.size(PAIR_SIZES, make, target_epochs, job.batch_for(2000, 8192 if job.machine.is_gpu else 4096))
    job.vocabulary("bpe", job.subword_size(effort.candidate.width), "subwords of texts and summaries together")
    _drop(job, 2 * effort.epochs(job.budget(target_epochs)))
    job.limit_length(facts.long_target, subwords(effort.candidate.vocab))
    job.train(effort, target_epochs, lr=min(1e-3, _rate(effort.candidate.width)), generates=True)
    job.choose_by("rouge_l")


def language_model(job: Job) -> None:
    """A decoder on characters, words or subwords (recipes/shakespeare-char*.toml, recipes/wikitext2.toml)."""
    facts, decide, gpu = job.facts, job.decide, job.machine.is_gpu
    target_epochs = job.passes(min(100.0, max(3.0, 49 * (1.1e6 / max(facts.bytes, 1)) ** 0.57)), facts.source)
    kind, why = "bpe", f"{facts.amount}: enough for subwords"
    if facts.closed:
        kind, why = "word", "the text has <unk> for rare words, so its words are its vocabulary"
    elif facts.bytes < CHARACTERS:
        kind, why = "char", f"{facts.amount}: too little for a vocabulary of subwords"
    kind, _ = job.vocabulary(kind, job.subword_size(), why)
    context = (256 if kind in ("char", "byte") else 512) if gpu else (64 if kind in ("char", "byte") else 128)
    if decide.kind("data.batching", "stream", "one long text") == "stream":
        context = decide("data.batching.context", context, f"tokens that a row predicts, on {job.device}")

    def make(width: int, depth: int) -> Candidate:
        size, per_token = _vocabulary(job, kind)
        return Candidate(width, depth, size, facts.source / per_token, context=context)

    most = (8192 if kind == "word" else 16384) if gpu else 2048
    effort = job.size(TEXT_SIZES, make, target_epochs, job.batch_for(2000, most))
    epochs = effort.epochs(job.budget(target_epochs))
    words = kind in ("word", "bpe")
    muon = words and effort.candidate.width >= 256
    if job.is_usual_model:
        _decoder(job, words)
    if words and gpu and epochs >= 8 and facts.bytes < 5e7 and not decide.has("task.consistency"):
        decide("task.consistency", 0.5, f"{facts.amount}: R-Drop, as data is scarce and the time suffices")
        effort = job.effort(effort.candidate.twice(), target_epochs, job.batch_for(2000, most))
    if kind == "word" and epochs >= 8 and job.is_usual_model:
        for name, rate in (("embedding", 0.5), ("residual", 0.4), ("attention", 0.2), ("feedforward", 0.4)):
            decide(f"model.dropout.{name}", rate, f"{epochs:.0f} passes over few words for so many parameters")
    else:
        _drop(job, epochs, most=0.2, attention=True)
    width = effort.candidate.width
    lr = 2e-3 if muon or width <= 192 else 1e-3
    job.train(effort, target_epochs, lr=lr, optimiser="muon" if muon else "adamw", weight_decay=0.1)
    if decide.kind("train.optimiser", "adamw", "") == "adamw":
        decide("train.optimiser.betas", [0.9, 0.99], "as in recipes/shakespeare-char.toml")


def masked_language_model(job: Job) -> None:
    """An encoder that guesses hidden words (recipes/pretrain/wikitext2-mlm.toml)."""
    facts, decide, gpu = job.facts, job.decide, job.machine.is_gpu
    target_epochs = job.passes(min(100.0, max(3.0, 75 * (1.1e7 / max(facts.bytes, 1)) ** 0.5)), facts.source / 3)
    kind, _ = job.vocabulary("bpe", min(8000, job.subword_size()), "subwords")
    context: float | None = None
    if facts.running and decide.kind("data.batching", "stream", "one long text") == "stream":
        context = decide("data.batching.context", 128, "tokens of a row")
    elif not facts.running:
        decide.kind("data.batching", "bucketed", "each text by itself")

    def make(width: int, depth: int) -> Candidate:
        size, per_token = _vocabulary(job, kind)
        return Candidate(width, depth, size, facts.source / per_token, predicts=False, context=context)

    sizes = ((0, 64, 2), (1e5, 128, 3), (3e6, 256, 4), (1e8, 512, 6))
    effort = job.size(sizes, make, target_epochs, job.batch_for(3000, 16384 if gpu else 2048))
    if job.is_usual_model:
        decide.kind("model.position", "rotary", "as in recipes/pretrain")
        if decide.kind("model.feedforward", "plain", "as in recipes/pretrain") == "plain":
            decide("model.feedforward.activation", "gelu", "as in recipes/pretrain")
        if decide.kind("model.head", "vocabulary", "hidden words are guessed") == "vocabulary":
            decide("model.head.bias", True, "as BERT has it")
            decide("model.head.transform", "gelu", "as BERT has it")
    _drop(job, 10, attention=False)
    job.train(effort, target_epochs, lr=1e-3, weight_decay=0.05)


def _vocabulary(job: Job, kind: str) -> tuple[int, float]:
    """Size of a vocabulary, about, and bytes for each of its tokens."""
    facts = job.facts
    if kind in ("bpe", "unigram"):
        size = int(job.decide.stated.get("tokenizer.size", job.subword_size()))
        return size, subwords(size)
    if kind == "word":
        return 30_000, max(1.0, facts.source / max(facts.words, 0.1))
    return 300, 1.0


def _decoder(job: Job, words: bool) -> None:
    decide, why = job.decide, "as in the shipped recipes of language models"
    decide.kind("model.position", "rotary", why)
    if decide.kind("model.feedforward", "plain", why) == "plain":
        decide("model.feedforward.activation", "gelu", why)
    if words:
        if decide.kind("model.head", "vocabulary", why) == "vocabulary":
            decide("model.head.bias", True, why)
        return
    decide("model.embedding.scale", False, why)
    decide.kind("model.initialise", "normal", why)


def _drop(
    job: Job,
    epochs: float,
    most: float = 0.3,
    attention: bool | None = None,
    passes: Sequence[float] = (4, 15, 60),
) -> None:
    """Dropout by the number of passes over the data."""
    decide, rate = job.decide, min(most, dropout(epochs, passes))
    if decide.has("model.dropout") or not job.is_usual_model:
        return
    why = f"about {epochs:.0f} passes over the data"
    inner = {None: 0.1 if rate >= 0.3 else 0.0, True: rate, False: 0.0}[attention]
    values = {
        "embedding": rate,
        "residual": rate,
        "attention": inner,
        "feedforward": inner if attention is None else 0.0,
    }
    for name, value in values.items():
        decide(f"model.dropout.{name}", value, why)


def _rate(width: int) -> float:
    """The highest learning rate of AdamW: 2e-3 up to width 256, as in recipes/multi30k-en-de.toml, 1e-3 at 512."""
    return float(f"{2e-3 * min(1.0, 256 / width):.2g}")
