"""TMX translation memories (.tmx): units without the target language get it."""

from typing_extensions import override

from regard.errors import DataError, nearest
from regard.text.documents.html import html_escape
from regard.text.documents.registry import Document, DocumentFormat, Edit, Languages, Lines, enclosed, space_before
from regard.text.documents.segments import Segment
from regard.text.documents.xliff import inline
from regard.text.documents.xml import Token, check_xml, inline_atoms, tokens, xml_encoding


def same_language(one: str, other: str) -> int:
    """How well two codes agree, as people write them: 2 for en-US and en_us, 1 for en and EN-US, else 0."""
    first, second = (code.lower().replace("_", "-").split("-") for code in (one, other))
    if first == second:
        return 2
    size = min(len(first), len(second))
    return int(first[:size] == second[:size])


def language_of(attributes: dict[str, str]) -> str:
    return attributes.get("xml:lang") or attributes.get("lang") or ""


class TmxFormat(DocumentFormat):
    name, suffixes = "tmx", (".tmx",)

    @override
    def encoding(self, start: bytes) -> str:
        return xml_encoding(start)

    @override
    def encode(self, text: str, encoding: str, file: str) -> bytes:
        return text.encode(encoding, "xmlcharrefreplace")

    @override
    def parse(self, text: str, file: str, languages: Languages) -> Document:
        check_xml(text, file)
        if "" in languages:
            raise DataError(file, "the languages to translate between are not known; say them, such as en-de")
        lines, segments, edits = Lines(text), list[Segment](), list[Edit]()
        variants, opened, tags = dict[str, _Variant](), dict[str, Token](), set[str]()
        for token in tokens(text):
            if token.kind == "open":
                opened[token.name] = token
                variants = {} if token.name == "tu" else variants
            elif token.kind == "close" and token.name in ("seg", "tuv", "tu"):
                variant = variants.setdefault(language_of(opened["tuv"].attributes), _Variant(opened["tuv"]))
                if token.name == "seg":
                    variant.seg = (opened["seg"], token)
                elif token.name == "tuv":
                    variant.end = token.end
                else:
                    tags.update(variants)
                    _add(text, variants, languages, lines, segments, edits)
        if not segments and tags and not any(same_language(tag, languages.source) for tag in tags):
            raise DataError(file, f"has no text in '{languages.source}'; {nearest(languages.source, tags)}")
        return Document(text, segments, edits)


class _Variant:
    """A text in one language: its tags, and where they end."""

    def __init__(self, tuv: Token) -> None:
        self.tuv, self.end = tuv, tuv.end
        self.seg: tuple[Token, Token] | None = None

    def content(self, text: str) -> str:
        return text[self.seg[0].end : self.seg[1].start] if self.seg else ""


def best(codes: "dict[str, _Variant]", code: str) -> str | None:
    """The code that agrees best with another."""
    ranked = max(codes, key=lambda one: same_language(one, code), default=None)
    return ranked if ranked is not None and same_language(ranked, code) else None


def _add(
    text: str, variants: dict[str, _Variant], languages: Languages, lines: Lines, segments: list[Segment],
    edits: list[Edit],
) -> None:  # fmt: skip
    source, target = best(variants, languages.source), best(variants, languages.target)
    if source is None or variants[source].seg is None or (target and variants[target].content(text).strip()):
        return
    variant, number = variants[source], len(segments)
    segments.append(Segment(inline_atoms(variant.content(text), inline), lines.at(variant.tuv.start), html_escape))
    if target and (seg := variants[target].seg):
        edits.append(Edit(seg[0].end, seg[1].start, number))
        return
    space = space_before(text, variant.tuv.start)
    written = enclosed(f'{space}<tuv xml:lang="{languages.target}"><seg>', "</seg></tuv>")
    edits.append(Edit(variant.end, variant.end, number, written))
