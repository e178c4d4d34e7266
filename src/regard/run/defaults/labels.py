"""Rules for tasks that give labels: classification of texts and images, tagging; and for descriptions of images."""

from regard.run.defaults.cost import Candidate, subwords
from regard.run.defaults.job import Job

LONG_TEXTS = 100
"""Words from which on texts are cut into words and not into sampled subwords."""
MANY = 2e7
"""Bytes of text from which on a classifier gets whole Transformer blocks."""


def classification(job: Job) -> None:
    """An encoder with average pooling (recipes/imdb.toml); where texts are short and few, recipes/sst2.toml."""
    facts = job.facts
    if facts.words >= LONG_TEXTS and facts.spaced:
        return _long_texts(job)
    return _short_texts(job)


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

    def make(width: int, depth: int) -> Candidate:
        reads = facts.source / subwords(size) + 1
        return Candidate(width, depth, 0, reads, predicts=False, feedforward=not few, passes=2 if few else 1)

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

    def make(width: int, depth: int) -> Candidate:
        return Candidate(width, depth, 0, facts.source / per_token, predicts=False)

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

    def make(width: int, depth: int) -> Candidate:
        return Candidate(width, depth, 0, facts.source / per_token + 1, predicts=False)

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

    def make(width: int, depth: int) -> Candidate:
        return Candidate(width, depth, 0, tokens, predicts=False)

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

    def make(width: int, depth: int) -> Candidate:
        return Candidate(width, depth, size, tokens, facts.target / subwords(size) + 1)

    sizes = ((0, 64, 2), (1e3, 128, 3), (2e4, 256, 4))
    effort = job.size(
        _by_images(job, sizes), make, target_epochs, job.batch_for(2000, 8192 if job.machine.is_gpu else 2048)
    )
    _rates(job, embedding=0.1, residual=0.1)
    job.train(effort, target_epochs, lr=1e-3, weight_decay=0.05, generates=True)
    job.choose_by("bleu")


def _by_images(job: Job, sizes: tuple[tuple[float, int, int], ...]) -> tuple[tuple[float, int, int], ...]:
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
