"""Texts divided into sentences by the rules of Unicode (UAX 29) and the abbreviations of languages.

pieces("Dr. Smith left. She did not.")  →  ["Dr. Smith left. ", "She did not."]

The pieces of a text are always the text when they are put together again. Where it is doubtful whether a sentence
ends, none does: half a sentence is translated worse than two at once.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from regard.data.abbreviations import BEFORE_ORDINALS, EXCLAMATIONS, Words, words_of

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
OPENERS = re.compile(r"[\"'“‘”’„‚«»‹›(\[{（［｛「『【〈《¿¡*_]+\s?")
PAIRS = {"“": "”", "„": "“”", "«": "»", "»": "«", "‹": "›", "「": "」", "『": "』", "(": ")", "（": "）", '"': '"'}
QUOTATION = re.compile("[" + "".join(map(re.escape, PAIRS)) + "]")
BREAKS = r"\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
LINE = re.compile(f"[^{BREAKS}]+")
END = re.compile(
    rf"[{WIDE}][{WIDE}{ENDS}]*[{CLOSERS}]*"
    rf"|(?:[{ENDS}]|(?<=[\u0370-\u03ff\u1f00-\u1fff])[;\u037e])[{ENDS}{WIDE}]*(?:[{CLOSERS}]|\s[»›](?=\s))*(?=\s)"
)
LAST_WORDS = re.compile(r"(?:(\w+)\s+)?((?:\w+[.])*\w+)\s?$")
NEXT_WORD = re.compile(r"\w+")
LIST_MARKER = re.compile(r"\d{1,3}|[^\W\d_]|[ivxlc]{1,4}", re.IGNORECASE)
ROMAN = re.compile(r"[IVXLC]{2,7}")
CONTINUES = ("と", "っ", "、", "，")
"""What goes on with a sentence behind a quotation, in scripts without spaces."""


def pieces(text: str, language: str | None = None) -> list[str]:
    """A text cut before each sentence but the first; white space stays behind the sentence before it."""
    cuts = [start for start, _ in spans(text, language)][1:]
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def spans(text: str, language: str | None = None) -> list[tuple[int, int]]:
    """Where the sentences of a text begin and end, without the white space around them; line ends are ends."""
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
    """Where sentences end before the end of a line."""
    start, quotations, at = _skip_space(line, 0), _quotations(line), 0
    for found in END.finditer(line):
        while at < len(quotations) and quotations[at].close < found.end():
            at += 1
        if at < len(quotations) and quotations[at].holds(found, start):
            continue
        if _Place(line, start, found, words).is_end():
            yield found.end()
            start = _skip_space(line, found.end())


@dataclass(frozen=True)
class _Quotation:
    """Where a quotation or bracket opens and closes."""

    open: int
    close: int
    is_whole: bool
    """Whether it ends as a sentence does, and another begins behind it."""

    def holds(self, found: "re.Match[str]", start: int) -> bool:
        """Whether what looks like an end is inside it, and it is inside the sentence that begins at `start`."""
        return self.open < found.start() and (self.open > start or not self.is_whole)


def _quotations(line: str) -> list[_Quotation]:
    """The quotations and brackets of a line that are not too long, those inside others left out."""
    found, behind = [], 0
    for match in QUOTATION.finditer(line):
        begin, mark = match.start(), match.group()
        opens = begin == 0 or not line[begin - 1].isalnum() or mark in "「『（"
        if begin < behind or not opens or (mark in '"»“' and line[begin + 1 : begin + 2].isspace()):
            continue
        window = line[begin + 1 : begin + 1 + LONGEST_QUOTATION]
        places = [place for mark in PAIRS[mark] if (place := window.find(mark)) >= 0]
        if places:
            close = begin + 1 + min(places)
            inside, behind = line[begin:close].rstrip(), close + 1
            follows = line[_skip_space(line, close + 1) :][:1]
            whole = inside[-1] in ENDS + WIDE and not (follows.islower() or follows in "—–-,;:，、と" or not follows)
            found.append(_Quotation(begin, close, whole or (inside[-1] in ENDS + WIDE and not follows)))
    return found


@dataclass(frozen=True)
class _Place:
    """A place where a sentence that begins at `start` may end."""

    line: str
    start: int
    found: "re.Match[str]"
    words: Words

    def is_end(self) -> bool:
        """Whether the sentence ends there, and another begins behind it."""
        line, begin = self.line, self.found.start()
        marks = self.found.group().rstrip()
        after = _skip_space(line, self.found.end())
        if after == len(line) or not any(map(str.isalnum, line[max(self.start, begin - LOOKED_BACK) : begin])):
            return False
        closed = not (marks[-1] in ENDS + WIDE + ";\u037e")
        if marks[0] in WIDE:
            return not (closed and line.startswith(CONTINUES, after)) and not line.startswith(("，", "、"), after)
        opened = OPENERS.match(line, after)
        following = self._following(opened.end() if opened else after)
        if following is None:
            return False
        small = following[:1].islower() and following.islower()
        if marks[0] != "." or marks.startswith(".."):
            if not ASKING.isdisjoint(marks):
                return not (small and (closed or self._last_words()[1].lower() in EXCLAMATIONS))
            return not small
        if closed:
            return not small
        return self._ends_at_full_stop(following, small, line[opened.end() if opened else after :][: len(following) + 1])

    def _following(self, place: int) -> str | None:
        """The next word, or one sign where there is none; None where the sentence certainly goes on."""
        line = self.line
        dash = re.compile(r"[-–—―•·]\s*").match(line, place)
        if dash is not None:
            word = NEXT_WORD.match(line, dash.end())
            return None if word is None or word.group()[0].islower() else word.group()
        word = NEXT_WORD.match(line, place, place + LOOKED_BACK)
        if word is not None:
            return word.group()
        sign = line[place : place + 1]
        return sign if sign and unicodedata.category(sign) in ("So", "Sc", "Lo", "Sk") or sign in "#@" and sign else None

    def _last_words(self) -> tuple[str, str]:
        """The word before the end, dots inside it included, and the word before that."""
        begin = self.found.start()
        found = LAST_WORDS.search(self.line[max(self.start, begin - LOOKED_BACK) : begin])
        return (found.group(1) or "", found.group(2)) if found else ("", "")

    def _ends_at_full_stop(self, following: str, small: bool, seen: str) -> bool:
        before, word = self._last_words()
        lowered, words, number = word.lower(), self.words, following[0].isdigit()
        if not word:
            return not small
        if not self.line[self.start : self.found.start()].strip().removesuffix(word) and LIST_MARKER.fullmatch(word):
            return False
        initial = len(following) == 1 and seen[1:] == "."
        begins = following[0].isupper() and following.lower() in words.beginnings and not initial
        if lowered.isdigit():
            short = len(word) <= 2
            ordinal = short and (words.ordinals or before.lower() in BEFORE_ORDINALS)
            return not small and not (short and number) and (begins or not ordinal)
        if lowered in words.before_all:
            return False
        if number and (lowered in words.before_numbers or lowered.endswith("str")):
            return False
        if lowered in words.after_lists:
            return begins or (following[0].isupper() and not words.nouns_are_capitalised)
        parts = lowered.split(".")
        dotted = len(parts) > 1 and all(part.isalpha() and len(part) <= 3 for part in parts)
        if lowered in words.before_names or dotted or (len(word) == 1 and (word.isupper() or small or number)):
            return begins
        if words.ordinals and ROMAN.fullmatch(word):
            return begins
        if small:
            return self.line[self.start].islower() or len(word) > LONGEST_ABBREVIATION
        return begins or len(word) > 1


def _skip_space(line: str, place: int) -> int:
    while place < len(line) and line[place].isspace():
        place += 1
    return place
