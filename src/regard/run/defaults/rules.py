"""The rules of each task: vocabulary, model size, dropout and learning rate, found by runs of the shipped recipes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from regard.run.defaults.cost import Candidate, subwords
from regard.run.defaults.job import Job, Sizes, dropout

PAIR_SIZES = ((0, 128, 2), (1e5, 128, 3), (1e6, 256, 3), (1e7, 384, 4), (3e7, 512, 6))
TEXT_SIZES = ((0, 64, 2), (1e4, 128, 4), (3e5, 256, 6), (1e6, 384, 6), (5e7, 512, 8), (5e8, 768, 12))
PAIR_PASSES = (4, 8, 12)
"""Passes over pairs from which on dropout is 0.1, 0.2, 0.3: with 0.2, 15 passes over 52 MB learn them by heart."""
CHARACTERS = 4e6
"""Bytes of a text that is read character by character: too short for a vocabulary of subwords."""
LONG_TEXTS = 100
"""Words from which on texts are cut into words and not into sampled subwords."""
MANY = 2e7
"""Bytes of text from which on a classifier gets whole Transformer blocks."""


# Tasks that generate text, and masked language models


def translation(job: Job) -> None:
    """An encoder-decoder on subwords; R-Drop where data is scarce and there is time (recipes/multi30k-en-de.toml)."""
    facts, decide = job.facts, job.decide
    target_epochs = min(200.0, max(10.0, 150 * (3.9e6 / max(facts.bytes, 1)) ** 0.6))
    target_epochs = job.passes(target_epochs, max(facts.source, facts.target) / 3)

    def make(width: int, depth: int) -> Candidate:
        size = decide.number("tokenizer.size", job.subword_size(width))
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
    cut = decide.number("task.input_tokens", 500)

    def make(width: int, depth: int) -> Candidate:
        size = decide.number("tokenizer.size", job.subword_size(width))
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

    size, per_token = _vocabulary(job, kind)
    make = partial(Candidate, vocab=size, reads=facts.source / per_token, context=context)
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

    size, per_token = _vocabulary(job, kind)
    make = partial(Candidate, vocab=size, reads=facts.source / per_token, predicts=False, context=context)
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
        size = job.decide.number("tokenizer.size", job.subword_size())
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
    feedforward = inner if attention is None else 0.0
    for name, value in (("embedding", rate), ("residual", rate), ("attention", inner), ("feedforward", feedforward)):
        decide(f"model.dropout.{name}", value, why)


def _rate(width: int) -> float:
    """The highest learning rate of AdamW: 2e-3 up to width 256, as in recipes/multi30k-en-de.toml, 1e-3 at 512."""
    return float(f"{2e-3 * min(1.0, 256 / width):.2g}")


# Tasks that give labels, and descriptions of images


def classification(job: Job) -> None:
    """An encoder with average pooling (recipes/imdb.toml); where texts are short and few, recipes/sst2.toml."""
    rules = _long_texts if job.facts.words >= LONG_TEXTS and job.facts.spaced else _short_texts
    rules(job)


def _short_texts(job: Job) -> None:
    facts, decide = job.facts, job.decide
    few = facts.bytes < MANY
    target_epochs = job.passes(
        max(8.0 if few else 4.0, min(30.0, 8 * (7e5 / max(facts.bytes, 1)) ** 0.5)), facts.source / 3
    )
    size = max(1000, min(8000, 2 * job.subword_size()))
    kind, size = job.vocabulary("unigram", size, f"{facts.amount}: words are cut in another way in each epoch")
    if kind == "unigram" and few:
        decide("tokenizer.alpha", 0.5, "sampled cuts keep few texts from being learnt by heart")
    decide("tokenizer.lowercase", True, "labels seldom depend on case")

    reads, passes = facts.source / subwords(size) + 1, 2 if few else 1
    make = partial(Candidate, vocab=0, reads=reads, predicts=False, feedforward=not few, passes=passes)
    sizes = ((0, 64, 1),) if few else ((0, 128, 2), (2e8, 256, 4))
    effort = job.size(sizes, make, target_epochs, job.batch_for(1000, 2048 if few else 8192))
    if job.is_usual_model:
        decide.kind("model.position", "t5", "as in recipes/sst2.toml")
    if few:
        _word_vectors(job)
    else:
        _rates(job, embedding=0.2, residual=0.1, word=0.1)
    decide("task.smoothing", 0.1, "as in the shipped classifiers")
    _cut(job, subwords(size))
    lr = 5e-3 if few else 1e-3
    job.train(effort, target_epochs, lr=lr, weight_decay=0.0 if few else 0.05, reach=0.08)


def _word_vectors(job: Job) -> None:
    """One block of attention on small word vectors, without norm and feed-forward part."""
    decide, why = job.decide, f"{job.facts.amount}: it begins nearly as an average of word vectors"
    decide("task.adversarial", 0.2, "word vectors are moved for the worst, as data is scarce")
    decide("train.precision", "float32", "products this small gain nothing from bfloat16")
    if not job.is_usual_model:
        return
    decide.kind("model.norm", "none", why)
    decide.kind("model.feedforward", "none", why)
    decide("model.embedding.scale", False, why)
    if decide.kind("model.initialise", "normal", why) == "normal":
        decide("model.initialise.deviation", 0.02, why)
    _rates(job, embedding=0.5, residual=0.3, word=0.2)


def _long_texts(job: Job) -> None:
    facts, decide = job.facts, job.decide
    target_epochs = job.passes(max(4.0, min(40.0, 8 * (1.6e7 / max(facts.bytes, 1)) ** 0.4)), facts.words)
    kind = decide.kind("tokenizer", "word", f"{facts.words:.0f} words a text: its words tell more than their order")
    decide("tokenizer.lowercase", True, "labels seldom depend on case")
    if kind == "word":
        decide("tokenizer.size", 20000, "the most frequent words")
        decide("tokenizer.split", "punctuation", "words without the marks beside them")
    per_token = max(1.0, facts.source / max(1.2 * facts.words, 1.0)) if kind == "word" else 4.0

    make = partial(Candidate, vocab=0, reads=facts.source / per_token, predicts=False)
    sizes = ((0, 64, 1), (1e8, 128, 2), (1e9, 256, 4))
    effort = job.size(sizes, make, target_epochs, job.batch_for(1500, 16384), head_width=16)
    _rates(job, embedding=0.3, residual=0.2, word=0.3)
    decide("task.smoothing", 0.1, "as in the shipped classifiers")
    _cut(job, per_token)
    job.train(effort, target_epochs, lr=2e-3, weight_decay=0.1, reach=0.2)


def tagging(job: Job) -> None:
    """An encoder on subwords (recipes/syntax/upos.toml)."""
    facts, decide = job.facts, job.decide
    target_epochs = job.passes(min(60.0, max(5.0, 30 * (5e5 / max(facts.bytes, 1)) ** 0.4)), facts.source / 3)
    kind, size = job.vocabulary("bpe", job.subword_size(), "subwords")
    per_token = subwords(size) if kind in ("bpe", "unigram") else 5.0

    make = partial(Candidate, vocab=0, reads=facts.source / per_token + 1, predicts=False)
    sizes = ((0, 64, 2), (1e5, 128, 3), (1e7, 256, 4))
    effort = job.size(sizes, make, target_epochs, job.batch_for(2000, 8192 if job.machine.is_gpu else 2048))
    if job.is_usual_model:
        decide.kind("model.position", "rotary", "distances tell more than places: 91.9 % of UPOS, not 85.6")
    _rates(job, embedding=0.3, residual=0.3, attention=0.1, word=0.1)
    decide("task.smoothing", 0.1, "as in recipes/syntax/upos.toml")
    job.limit_length(facts.long, per_token)
    job.train(effort, target_epochs, lr=1e-3, weight_decay=0.1)


def image_classification(job: Job) -> None:
    """A small Vision Transformer with much augmentation (recipes/images)."""
    facts, decide = job.facts, job.decide
    target_epochs = job.passes(min(300.0, max(10.0, 300 * (5000 / max(facts.examples, 1)) ** 0.3)), 65.0)
    tokens, patch = _images(job, class_token=1)

    make = partial(Candidate, vocab=0, reads=tokens, predicts=False)
    sizes = ((0, 64, 2), (3e2, 96, 4), (1.5e3, 128, 6))
    effort = job.size(_by_images(job, sizes), make, target_epochs, job.batch_for(4000, 16384), per_weight=10.0)
    if job.is_usual_model and decide.kind("model.feedforward", "plain", "as in recipes/images") == "plain":
        decide("model.feedforward.activation", "gelu", "as in recipes/images")
    _rates(job, embedding=0.0, residual=0.1, attention=0.1, layer=0.1)
    decide("task.smoothing", 0.1, "as in recipes/images")
    if not decide.has("task.augment") and patch:
        side, why = 8 * patch, f"{facts.amount}: as in recipes/images"
        decide("task.augment.shift", side // 8, why)
        colours = facts.images is None or facts.images.channels == 3
        decide("task.augment.flip", colours, "photographs look alike from left and right; drawings and letters may not")
        decide("task.augment.cutout", side // 4, why)
        if colours:
            decide("task.augment.light", 0.3, why)
    job.train(effort, target_epochs, lr=1e-3, weight_decay=0.1)


def image_description(job: Job) -> None:
    """A Vision Transformer and a decoder of words (examples/scenes.toml)."""
    facts = job.facts
    target_epochs = job.passes(min(200.0, max(10.0, 100 * (2e3 / max(facts.examples, 1)) ** 0.4)), 65.0)
    tokens, _ = _images(job, class_token=0)
    _, size = job.vocabulary("bpe", min(8000, job.subword_size()), "subwords")

    make = partial(Candidate, vocab=size, reads=tokens, writes=facts.target / subwords(size) + 1)
    sizes = ((0, 64, 2), (1e3, 128, 3), (2e4, 256, 4))
    effort = job.size(
        _by_images(job, sizes), make, target_epochs, job.batch_for(2000, 8192 if job.machine.is_gpu else 2048)
    )
    _rates(job, embedding=0.1, residual=0.1)
    job.train(effort, target_epochs, lr=1e-3, weight_decay=0.05, generates=True)
    job.choose_by("bleu")


def _by_images(job: Job, sizes: Sizes) -> Sizes:
    """Sizes whose thresholds count images: those that have enough of them, from zero bytes on."""
    return tuple((0.0, width, depth) for least, width, depth in sizes if job.facts.examples >= least)


def _images(job: Job, class_token: int) -> tuple[float, int]:
    """Tokens of an image and the side of its patches; size, colours and positions by the images' own."""
    images, decide = job.facts.images, job.decide
    if images is None or not job.is_usual_model:
        return 65.0, 0
    side = images.side if images.side <= 32 else 64 if images.side >= 64 else 32
    side = int(decide("model.image", max(8, side - side % 4), f"images of {images.side} pixels"))
    patch_size = side // 8 if side % 8 == 0 else 4
    patch = int(decide("model.patch", patch_size, f"{(side // patch_size) ** 2} patches an image"))
    channels = decide("model.channels", images.channels, "grey images" if images.channels == 1 else "colours")
    if not images.alike or side != images.side:
        decide("task.resize", "crop", "images of several sizes, or larger than the model's")
    if channels == images.channels:
        decide("task.mean", list(images.mean), "of the training images")
        decide("task.deviation", list(images.deviation), "of the training images")
    tokens = (side // patch) ** 2 + int(bool(class_token and decide.stated.get("model.class_token", True)))
    if decide.kind("model.position", "learned", "one for each patch") == "learned":
        decide("model.position.length", tokens, "patches, and a token for the class" if class_token else "patches")
    return float(tokens), patch


def _rates(job: Job, **rates: float) -> None:
    """Dropout as in the shipped recipe of the task."""
    if job.decide.has("model.dropout") or not job.is_usual_model:
        return
    for name, rate in rates.items():
        job.decide(f"model.dropout.{name}", rate, f"{job.facts.amount}: as in the shipped recipe of this task")


def _cut(job: Job, per_token: float) -> None:
    """Room for long texts; what is longer still is cut, as its beginning mostly tells its class."""
    needed = job.facts.long / per_token * 1.1
    most = next((length for length in (256, 512, 1024) if length >= needed), 1024)
    if most > 256:
        job.decide("data.max_length", most, f"tokens; hardly any text has more than {needed:,.0f}")
    job.decide("data.overlong", "cut", "the beginning of a text mostly tells its class")


RULES: Mapping[str, Callable[[Job], None]] = {
    "translation": translation,
    "summarisation": summarisation,
    "language_model": language_model,
    "masked_language_model": masked_language_model,
    "classification": classification,
    "tagging": tagging,
    "image_classification": image_classification,
    "image_description": image_description,
}
