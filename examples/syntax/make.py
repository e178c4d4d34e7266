"""Writes train.conllu and test.conllu: sentences of a small grammar with their dependency trees.

    python examples/syntax/make.py

Many of its words are nouns in one sentence and verbs in another (*plays*, *watches*, *ducks*), so that their tags
cannot be looked up. No sentence of the test file stands in the training file.
"""

import random
from pathlib import Path

BOTH = ["play", "watch", "duck", "light", "plant", "train", "ship", "book"]
NOUNS = ["dog", "child", "teacher", "king", "garden", "river", *BOTH]
VERBS = ["see", "find", "like", "draw", *BOTH]
ADJECTIVES = ["old", "small", "green", "light", "plain"]
PREPOSITIONS = ["near", "behind", "with", "like"]
DETERMINERS = {False: ["the", "a", "this", "every"], True: ["the", "these", "some", "all"]}
"""For one thing, and for several."""

Word = tuple[str, str, str, str]
"""Form, lemma, UPOS and XPOS."""
Phrase = tuple[list[Word], list[int], list[str], int]
"""Words, the head of each (its place, -1 for the phrase's own head), relations, and the place of the phrase's head."""


def leaf(form: str, lemma: str, upos: str, xpos: str) -> Phrase:
    """A word by itself."""
    return [(form, lemma, upos, xpos)], [-1], [""], 0


def joined(parts: list[tuple[Phrase, str]]) -> Phrase:
    """Phrases one after another; all hang on the one whose relation is empty."""
    words, heads, relations, tops = [], [], [], []
    for (own, above, names, top), _ in parts:
        tops.append(top + len(words))
        heads += [head if head < 0 else head + len(words) for head in above]
        words, relations = words + own, relations + names
    centre = tops[[name for _, name in parts].index("")]
    for (_, name), top in zip(parts, tops, strict=True):
        heads[top], relations[top] = (centre, name) if name else (-1, "")
    return words, heads, relations, centre


def with_s(word: str) -> str:
    """More than one of it, or what one does."""
    return word + ("es" if word.endswith("ch") else "s")


def noun_phrase(draw: random.Random, several: bool, depth: int = 0) -> Phrase:
    """A noun with what belongs to it."""
    determiner, noun = draw.choice(DETERMINERS[several]), draw.choice(NOUNS)
    parts = [(leaf(determiner, determiner, "DET", "DT"), "det")]
    if draw.random() < 0.4:
        adjective = draw.choice(ADJECTIVES)
        parts.append((leaf(adjective, adjective, "ADJ", "JJ"), "amod"))
    form = with_s(noun) if several and noun != "child" else "children" if several else noun
    parts.append((leaf(form, noun, "NOUN", "NNS" if several else "NN"), ""))
    if depth == 0 and draw.random() < 0.3:
        parts.append((prepositional(draw), "nmod"))
    return joined(parts)


def prepositional(draw: random.Random) -> Phrase:
    """A preposition and its noun."""
    preposition = draw.choice(PREPOSITIONS)
    inner = noun_phrase(draw, draw.random() < 0.5, depth=1)
    return joined([(leaf(preposition, preposition, "ADP", "IN"), "case"), (inner, "")])


def sentence(draw: random.Random) -> Phrase:
    """Who does what to whom, and where."""
    verb, several = draw.choice(VERBS), draw.random() < 0.5
    told = leaf(verb, verb, "VERB", "VBP") if several else leaf(with_s(verb), verb, "VERB", "VBZ")
    parts = [(noun_phrase(draw, several), "nsubj"), (told, "")]
    if draw.random() < 0.8:
        parts.append((noun_phrase(draw, draw.random() < 0.5), "obj"))
    if draw.random() < 0.3:
        parts.append((prepositional(draw), "obl"))
    parts.append((leaf(".", ".", "PUNCT", "."), "punct"))
    return joined(parts)


def conllu(number: int, phrase: Phrase) -> str:
    """The lines of a sentence."""
    words, heads, relations, _ = phrase
    text = " ".join(form for form, *_ in words[:-1]) + "."
    lines = [f"# sent_id = {number}", f"# text = {text}"]
    for place, ((form, lemma, upos, xpos), head, relation) in enumerate(zip(words, heads, relations, strict=True), 1):
        after = "SpaceAfter=No" if place == len(words) - 1 else "_"
        lines.append(f"{place}\t{form}\t{lemma}\t{upos}\t{xpos}\t_\t{head + 1}\t{relation or 'root'}\t_\t{after}")
    return "\n".join(lines) + "\n\n"


def main(folder: Path = Path(__file__).parent) -> None:
    """Writes both files."""
    draw = random.Random(1)
    made = {" ".join(word[0] for word in phrase[0]): phrase for phrase in (sentence(draw) for _ in range(520))}
    phrases = list(made.values())
    for name, chosen in (("train", phrases[:400]), ("test", phrases[400:480])):
        text = "".join(conllu(number, phrase) for number, phrase in enumerate(chosen, 1))
        (folder / f"{name}.conllu").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
