"""The list of words that the demo knows has every word of the corpus, and no other."""

import re

from regard.data import street
from regard.data.street.corpus import lexemes, lexicon
from regard.data.street.phrases import SMALL, TENS, cardinal, ordinal
from regard.data.street.verbs import VERBS

CONTRACTIONS = re.compile(r"n't|'(?:m|re|s|ve|ll|d)\b")
FORMS = {
    **{"am": "be", "is": "be", "are": "be", "was": "be", "were": "be", "been": "be", "has": "have", "had": "have"},
    **{"does": "do", "did": "do", "doing": "do", "done": "do", "cannot": "can", "ca": "can", "wo": "will"},
    **{"wants": "want", "wanted": "want", "having": "have", "being": "be"},
}
"""Forms of what the list has in its dictionary form."""
OF_NUMBERS = {*["hundred", "euros", "years", "old", "quarter", "past", "half", "o'clock", "the", "first"]}


def listed() -> set[str]:
    return {word for group in lexicon().values() for entry in group for word in re.findall(r"[a-z'-]+", entry.lower())}


def test_every_word_of_the_corpus_is_listed():
    known = listed() | OF_NUMBERS
    known |= {form for forms in lexemes() for form in forms if forms[0] in known}
    known |= {number.english for number in (*map(cardinal, range(2, 100)), *map(ordinal, range(1, 32)), *SMALL, *TENS)}
    words = set()
    for source, _ in street.pairs("train", 20_000):
        text = CONTRACTIONS.sub(" ", source.lower().replace("’", "'").replace("cannot", "can").replace("o'clock", ""))
        words.update(re.findall(r"[a-z]+(?:-[a-z]+)?", text))
    assert {word for word in words if FORMS.get(word, word) not in known} == set()


def test_every_verb_is_listed():
    assert {verb.english.base for verb in VERBS.values()} <= listed()
