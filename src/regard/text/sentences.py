"""The sentence splitter: the rules of Unicode (UAX 29) and the abbreviations of many languages.

sentence_spans("Dr. Smith left. She did not.")  →  [(0, 15), (16, 28)]

Where it is doubtful whether a sentence ends, it does not: half a sentence is translated worse than two at once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from regard.text.abbreviations import Words, words_of

LONGEST_QUOTATION = 200
"""Characters of a quotation or bracket inside a sentence up to which it is not divided."""
LONGEST_ABBREVIATION = 4
"""Letters of a word in no list that is taken for an abbreviation where a small letter follows its full stop."""
LOOKED_BACK = 40
"""Characters before a full stop among which its word, and the word before that, are looked for."""
WIDE = "。！？｡．⁇⁈⁉"
"""Ends of sentences after which no space is written."""
ENDS = ".!?…‽؟۔।॥։።፧။។"
ASKING = frozenset("!?‽؟")
CLOSERS = re.escape("\"'”’“‘»«›‹)]}）］｝」』】〉》")
OPENERS = re.compile(r"(?:[\"'“‘”’„‚«»‹›(\[{（［｛「『【〈《¿¡*_]+\s?)?")
DASH = re.compile(r"[-–—―•·]\s*")
PAIRS = {"“": "”", "„": "“”", "«": "»", "»": "«", "‹": "›", "「": "」", "『": "』", "(": ")", "（": "）", '"': '"'}
QUOTATION = re.compile("[" + re.escape("".join(PAIRS)) + "]")
LINE = re.compile(r"[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
END = re.compile(
    rf"[{WIDE}][{WIDE}{ENDS}]*[{CLOSERS}]*"
    rf"|(?<![{ENDS}])(?:[{ENDS}]|(?<=[\u0370-\u03ff\u1f00-\u1fff])[;\u037e])"  # in Greek, ; is a question mark
    rf"[{ENDS}{WIDE}]*+(?:[{CLOSERS}]|\s[»›](?=\s))*+(?=\s)"
)
LAST_WORDS = re.compile(r"(?:(\w+)\s+)?((?:\w+[.])*\w+)\s?$")
NEXT_WORD = re.compile(r"\w+")
SIGN = re.compile(r"[^\s.,;:!?…)\]}|<>=+/\\~^%&\"'`-]")
LIST_MARKER = re.compile(r"\d{1,3}|[^\W\d_]|[ivxlc]{1,4}", re.IGNORECASE)
ROMAN = re.compile(r"[IVXLC]{2,7}")
CONTINUING = ("と", "っ", "、", "，", ",", ";", ":", "—", "–", "-")
"""What continues a sentence behind a quotation, beside a small letter."""


def line_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each line that is not blank, without the white space around it."""
    spans: list[tuple[int, int]] = []
    for line in LINE.finditer(text):
        if stripped := line.group().strip():
            start = line.start() + line.group().index(stripped)
            spans.append((start, start + len(stripped)))
    return spans


def sentence_spans(text: str, language: str | None = None) -> list[tuple[int, int]]:
    """Start and end of each sentence, without the white space around it; no sentence crosses a line end."""
    words = words_of(language)
    return [span for line in LINE.finditer(text) for span in _line_spans(line.group(), line.start(), words)]


def _line_spans(line: str, offset: int, words: Words) -> Iterator[tuple[int, int]]:
    start = _skip_space(line, 0)
    for end in _ends(line, words):
        yield offset + start, offset + end
        start = _skip_space(line, end)
    if start < len(line):
        yield offset + start, offset + len(line.rstrip())


def _ends(line: str, words: Words) -> Iterator[int]:
    """Ends of the sentences of a line, without the last."""
    start, quotations, at = _skip_space(line, 0), _quotations(line), 0
    for match in END.finditer(line):
        while at < len(quotations) and quotations[at].close < match.end():
            at += 1
        if at < len(quotations) and quotations[at].holds(match, start):
            continue
        if _Candidate(line, start, match, words).is_end():
            yield match.end()
            start = _skip_space(line, match.end())


@dataclass(frozen=True)
class _Quotation:
    """Where a quotation or bracket opens and closes."""

    open: int
    close: int
    is_whole: bool
    """Whether it ends as a sentence does, and another begins behind it."""

    def holds(self, match: "re.Match[str]", start: int) -> bool:
        """Whether a candidate is inside the quotation, and the quotation inside the sentence from `start`."""
        return self.open < match.start() and (self.open > start or not self.is_whole)


def _quotations(line: str) -> list[_Quotation]:
    """The outermost quotations and brackets of a line, up to LONGEST_QUOTATION."""
    quotations, behind = list[_Quotation](), 0
    for match in QUOTATION.finditer(line):
        begin, mark = match.start(), match.group()
        opens = begin == 0 or not line[begin - 1].isalnum() or mark in "「『（"
        if begin < behind or not opens or (mark in '"»“' and line[begin + 1 : begin + 2].isspace()):
            continue
        window = line[begin + 1 : begin + 1 + LONGEST_QUOTATION]
        closing = [offset for mark in PAIRS[mark] if (offset := window.find(mark)) >= 0]
        if not closing:
            continue
        close = begin + 1 + min(closing)
        after, behind = _skip_space(line, close + 1), close + 1
        continued = line[after : after + 1].islower() or line.startswith(CONTINUING, after)
        quotations.append(_Quotation(begin, close, not continued and line[begin:close].rstrip()[-1] in ENDS + WIDE))
    return quotations


@dataclass(frozen=True)
class _Candidate:
    """Punctuation at which the sentence that begins at `start` may end."""

    line: str
    start: int
    match: "re.Match[str]"
    words: Words

    def is_end(self) -> bool:
        line, begin, marks = self.line, self.match.start(), self.match.group()
        after = _skip_space(line, self.match.end())
        if after == len(line) or not any(map(str.isalnum, line[max(self.start, begin - LOOKED_BACK) : begin])):
            return False
        closed = marks[-1] not in ENDS + WIDE + ";\u037e"
        if marks[0] in WIDE:
            return not line.startswith(CONTINUING if closed else ("，", "、"), after)
        opened = OPENERS.match(line, after)
        following = self._following(opened.end() if opened else after)
        if following is None:
            return False
        word = following.group()
        small = word.islower()  # and not iPads
        if not ASKING.isdisjoint(marks):
            return not (small and (closed or self._last_words()[1].lower() in self.words.exclamations))
        if closed or not marks.startswith(".") or marks.startswith(".."):
            return not small
        initial = len(word) == 1 and line.startswith(".", following.end())
        begins = word[0].isupper() and word.lower() in self.words.beginnings and not initial
        return self._ends_at_full_stop(word, begins)

    def _following(self, position: int) -> "re.Match[str] | None":
        """The next word, or one sign; None where the sentence continues: a small letter after a dash, a comma."""
        if dash := DASH.match(self.line, position):
            word = NEXT_WORD.match(self.line, dash.end())
            return None if word is None or word.group()[0].islower() else word
        return NEXT_WORD.match(self.line, position, position + LOOKED_BACK) or SIGN.match(self.line, position)

    def _last_words(self) -> tuple[str, str]:
        """The word before the last, and the last with the dots inside it; empty where there is none."""
        begin = self.match.start()
        match = LAST_WORDS.search(self.line[max(self.start, begin - LOOKED_BACK) : begin])
        return (match.group(1) or "", match.group(2)) if match else ("", "")

    def _ends_at_full_stop(self, following: str, begins: bool) -> bool:
        """`begins`: the following word is one that begins sentences."""
        before, spelt = self._last_words()
        word, words, small, number = spelt.lower(), self.words, following.islower(), following[0].isdigit()
        if self.match.start() <= self.start + 5 and LIST_MARKER.fullmatch(self.line, self.start, self.match.start()):
            return False
        if word.isdigit():
            short = len(word) <= 2
            ordinal = short and (words.ordinals or before.lower() in words.before_ordinals)
            return not small and not (short and number) and (begins or not ordinal)
        if word in words.before_all or (number and (word in words.before_numbers or word.endswith("str"))):
            return False
        if word in words.after_lists:
            return begins or (following[0].isupper() and not words.nouns_are_capitalised)
        if word in words.before_names or _is_dotted(word) or (words.ordinals and ROMAN.fullmatch(spelt)):
            return begins
        if len(word) == 1:  # an initial, or half of `z. B.`
            return begins or not (spelt.isupper() or spelt.islower())
        return not small or self.line[self.start].islower() or len(word) > LONGEST_ABBREVIATION


def _is_dotted(word: str) -> bool:
    """Whether a word is letters with dots between, as `u.s` and `z.b` are."""
    parts = word.split(".")
    return len(parts) > 1 and all(part.isalpha() and len(part) <= 3 for part in parts)


def _skip_space(line: str, position: int) -> int:
    while position < len(line) and line[position].isspace():
        position += 1
    return position
