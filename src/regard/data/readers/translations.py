"""Files of translators as pairs, streamed: TMX translation memories, XLIFF, gettext catalogues.

    train = { file = "memory.tmx", source = "en", target = "de" }

Columns are languages, matched as people write them: en, EN, en-US. What is not translated is left out and counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from typing_extensions import override

from regard.config import refuse
from regard.data.columns import Record
from regard.data.examples import SourceLocation
from regard.data.findings import Findings, KindName
from regard.data.lines import BLOCK, READ_ERRORS, lines, open_stream, uncompressed_name, why_unreadable
from regard.data.readers.registry import FileSource, RecordFormat
from regard.errors import DataError, nearest
from regard.text.documents.po import PoEntry, header_field, plural_forms, po_entries
from regard.text.documents.tmx import language_of, same_language
from regard.text.documents.xliff import ELSEWHERE, NATIVE, NEW, UNITS
from regard.text.documents.xml import XmlReader


@dataclass(frozen=True)
class Unit:
    """A text in several languages, by their codes as the file writes them."""

    texts: dict[str, str]
    line: int
    problem: KindName | None = None
    """Why it is left out."""


class TranslationsFormat(RecordFormat):
    """A format whose columns are languages."""

    def units(self, file: Path, findings: Findings) -> Iterator[Unit]:
        """The texts of a file; DataError, with the line, for what cannot be read."""
        raise NotImplementedError

    @override
    def check(self, source: FileSource) -> None:
        for setting, column in (("label", source.label), ("image", source.image)):
            if column is not None:
                raise refuse(
                    setting, f"a .{self.name} file has texts in several languages and nothing else; leave it out"
                )
        for setting, column in (("source", source.source), ("target", source.target), ("text", source.text)):
            if isinstance(column, int):
                raise refuse(setting, f"expected the code of a language such as 'en', got {column}")

    @override
    def records(self, file: Path, columns: Sequence[str | int] | None, findings: Findings) -> Iterator[Record]:
        """The texts in these languages, or in all."""
        languages, units = set[str](), 0
        try:
            for unit in self.units(file, findings):
                languages.update(unit.texts)
                record = unit.texts if columns is None else self.pick(unit.texts, columns)
                if unit.problem or not record or not all(text.strip() for text in record.values()):
                    findings.add_once(unit.problem or "untranslated", file, unit.line, "left out")
                    continue
                units += 1
                yield record, SourceLocation(str(file), unit.line)
        except READ_ERRORS as error:
            findings.add_once("unreadable", file, None, why_unreadable(file, error))
        except DataError as error:
            what = str(error).removeprefix(f"{error.file}:{error.line}: ").removeprefix(f"{error.file}: ")
            findings.add_once("unreadable", file, error.line, what)
            return
        missing = [
            str(one) for one in columns or () if languages and not self.pick(dict.fromkeys(languages, "x"), [one])
        ]
        if not units and missing:
            problem = f"no text in '{missing[0]}'; {nearest(missing[0], languages)}"
            findings.add_once("column", file, None, problem)

    def pick(self, texts: dict[str, str], columns: Sequence[str | int]) -> dict[str | int, str]:
        """The texts in these languages, where all are there."""
        codes = [max(texts, key=partial(same_language, str(column)), default="") for column in columns]
        fits = all(same_language(code, str(column)) for code, column in zip(codes, columns, strict=True))
        return {column: texts[code] for code, column in zip(codes, columns, strict=True)} if fits and codes else {}


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(partial(stream.read, BLOCK), b"")


class TmxFormat(TranslationsFormat):
    name, suffixes = "tmx", (".tmx",)

    @override
    def units(self, file: Path, findings: Findings) -> Iterator[Unit]:
        texts, language, line = dict[str, str](), "", 0
        with open_stream(file) as stream:
            for kind, element in XmlReader(str(file), ["seg"], NATIVE).read(_blocks(stream)):
                match kind, element.name:
                    case "start", "tu":
                        texts, line = {}, element.line
                    case "start", "tuv":
                        language = language_of(element.attributes)
                    case "end", "seg":
                        texts.setdefault(language, " ".join(element.text.split()))
                    case "end", "tu":
                        yield Unit(texts, line)
                    case _:
                        pass


class XliffFormat(TranslationsFormat):
    name, suffixes = "xliff", (".xlf", ".xliff", ".sdlxliff", ".mxliff")

    @override
    def units(self, file: Path, findings: Findings) -> Iterator[Unit]:
        source, target, texts, line, state, elsewhere = "source", "target", dict[str, str](), 0, "", 0
        with open_stream(file) as stream:
            for kind, element in XmlReader(str(file), ["source", "target"], NATIVE).read(_blocks(stream)):
                step = 1 if kind == "start" else -1
                elsewhere += step * (element.name in ELSEWHERE)
                attributes = element.attributes
                if kind == "start" and element.name in ("xliff", "file"):
                    source = attributes.get("source-language") or attributes.get("srcLang") or source
                    target = attributes.get("target-language") or attributes.get("trgLang") or target
                elif kind == "start" and element.name in UNITS:
                    texts, line, state = {}, element.line, attributes.get("state", "")
                elif kind == "end" and element.name in ("source", "target") and not elsewhere:
                    code = source if element.name == "source" else target
                    texts.setdefault(code, " ".join(element.text.split()))
                    state = attributes.get("state", state) if element.name == "target" else state
                elif kind == "end" and element.name in UNITS:
                    yield Unit(texts, line, "untranslated" if state in NEW or len(texts) < 2 else None)

    @override
    def pick(self, texts: dict[str, str], columns: Sequence[str | int]) -> dict[str | int, str]:
        if "target" in texts and len(columns) == 2:  # the file does not say its language
            texts = {str(columns[1]) if code == "target" else code: text for code, text in texts.items()}
        return super().pick(texts, columns)


class PoFormat(TranslationsFormat):
    """`msgid` counts as English unless the header has another X-Source-Language."""

    name, suffixes = "po", (".po", ".pot")

    @override
    def units(self, file: Path, findings: Findings) -> Iterator[Unit]:
        source, target, header = "msgid", "msgstr", ""
        read = ((number, text + end) for number, text, end in lines(file, findings, crlf_is_odd=False))
        for entry in po_entries(read, str(file)):
            if entry.is_header:
                header = entry.text("msgstr")
                target = header_field(header, "Language") or _code_in(file) or target
                source = header_field(header, "X-Source-Language") or ("en" if target != "msgstr" else source)
                continue
            fuzzy = "obsolete" if entry.obsolete else "fuzzy" if entry.fuzzy else None
            for left, right in _translations(entry, plural_forms(header, target)[1]):
                problem = fuzzy or (None if right.strip() else "untranslated")
                yield Unit({source: left, target: right}, entry.line, problem)

    @override
    def pick(self, texts: dict[str, str], columns: Sequence[str | int]) -> dict[str | int, str]:
        (source, left), (target, right) = texts.items()
        reverse = len(columns) == 2 and same_language(str(columns[0]), target) and target != source
        if reverse and same_language(str(columns[1]), source):
            return {columns[0]: right, columns[1]: left}
        if len(columns) == 2 and (
            target == "msgstr" or same_language(str(columns[1]), target) or columns[1] == "msgstr"
        ):
            return {columns[0]: left, columns[1]: right}
        return super().pick(texts, columns)


def _translations(entry: PoEntry, one: int) -> Iterator[tuple[str, str]]:
    """The pairs of an entry: two where it has a plural."""
    if "msgid_plural" not in entry.fields:
        yield entry.text("msgid"), entry.text("msgstr")
        return
    forms = [form.text for form in entry.forms]
    if len(forms) > 1:
        yield entry.text("msgid"), forms[min(one, len(forms) - 1)]
    yield entry.text("msgid_plural"), forms[-1]


def _code_in(file: Path) -> str:
    """The language in the name of a file, such as `de.po` or `app.pt_BR.po`."""
    from regard.data.languages import code_of  # here: it needs the sources, which need the readers

    return code_of(uncompressed_name(file).stem) or ""
