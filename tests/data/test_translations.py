"""TMX, XLIFF and PO as training data, and a .po file translated by a run that was trained on one."""

import gzip
import tracemalloc
from pathlib import Path

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.data.check import check_files
from regard.data.findings import Findings
from regard.data.languages import pair_of
from regard.data.source_reader import read_pairs
from regard.data.sources import SourceConfig
from regard.errors import DataError, RegardError

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US"/><body>
<tu><tuv xml:lang="EN-US"><seg>The <bpt i="1">&lt;b></bpt>dog<ept i="1">&lt;/b></ept> sleeps.</seg></tuv>
<tuv xml:lang="de_DE"><seg>Der Hund schläft.</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>Only English.</seg></tuv></tu>
<tu><tuv lang="en"><seg>Yes &amp; no.</seg></tuv><tuv lang="fr"><seg>Oui.</seg></tuv>
<tuv lang="DE"><seg>Ja.</seg></tuv></tu>
</body></tmx>
"""
XLIFF = """<xliff version="1.2"><file source-language="en" target-language="de-AT"><body>
<trans-unit id="1"><source>Open <g id="1">it</g>.</source><target>Öffne <g id="1">es</g>.</target>
<alt-trans><source>x</source><target>y</target></alt-trans></trans-unit>
<trans-unit id="2"><source>New.</source><target state="new">New.</target></trans-unit>
<trans-unit id="3"><source>None.</source></trans-unit></body></file></xliff>
"""
XLIFF2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file id="1"><unit id="1"><segment>
<source>Open <pc id="1">it</pc>.</source><target>Öffne <pc id="1">es</pc>.</target></segment></unit></file></xliff>
"""
PO = """msgid ""
msgstr "Language: de\\nPlural-Forms: nplurals=2; plural=(n != 1);\\n"

msgid "Open"
msgstr "Öffnen"

#, fuzzy
msgid "Close"
msgstr "Zu"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

msgid "Later"
msgstr ""

#~ msgid "Old"
#~ msgstr "Alt"
"""
TRANSLATE = ["translate", "run", "new.po", "--engine", "torch"]


def pairs(folder: Path, name: str, content: str, source: str = "en", target: str = "de", **more: object):
    file = folder / name
    file.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    findings = Findings()
    config = SourceConfig(file=str(file), source=source, target=target)
    read = [(pair.source, pair.target, pair.location.line) for pair in read_pairs(config, findings=findings)]
    return read, {kind: count for kind, count in findings.counts.items()}


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("en-US", "DE"), ("EN", "de-DE")])
@pytest.mark.parametrize("name", ["memory.tmx", "memory.tmx.gz"])
def test_languages_of_a_tmx_are_matched_as_people_write_them(tmp_path: Path, source: str, target: str, name: str):
    read, counts = pairs(tmp_path, name, TMX, source, target)
    assert read == [("The dog sleeps.", "Der Hund schläft.", 4), ("Yes & no.", "Ja.", 7)]
    assert counts == {"untranslated": 1}


def test_xliff_gives_what_is_translated(tmp_path: Path):
    assert pairs(tmp_path, "a.xlf", XLIFF) == ([("Open it.", "Öffne es.", 2)], {"untranslated": 2})
    assert pairs(tmp_path, "b.xliff", XLIFF2)[0] == [("Open it.", "Öffne es.", 1)]
    assert pairs(tmp_path, "c.xliff", XLIFF2, "de", "en")[0] == [("Öffne es.", "Open it.", 1)]


def test_po_leaves_out_and_counts_what_is_not_translated(tmp_path: Path):
    read, counts = pairs(tmp_path, "app.po", PO)
    assert read == [("Open", "Öffnen", 4), ("%d file", "%d Datei", 11), ("%d files", "%d Dateien", 11)]
    assert counts == {"fuzzy": 1, "untranslated": 1, "obsolete": 1}
    assert pairs(tmp_path, "app.po", PO, "de", "en")[0][0] == ("Öffnen", "Open", 4)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.tmx", '<!DOCTYPE tmx [<!ENTITY a "b">]>\n<tmx>&a;</tmx>', r"a\.tmx:1: .*such XML is refused"),
        ("a.tmx", "\n" + "<a>" * 200, r"a\.tmx:2: elements more than 100 deep; such XML is refused"),
        ("a.xlf", "<xliff>\n<file>", r"a\.xlf:2: not well-formed XML \(no element found\)"),
        ("a.tmx", TMX.replace("DE", "fr").replace("de_", "fr_"), r"a\.tmx: no text in 'de'; known: .*fr"),
        ("a.po", 'msgid "a"\nmsgstr b', r"a\.po:2: expected a keyword and a string"),
        ("a.tmx", "<tmx><body><tu><tuv><seg>" + "x" * (20 << 20), r"a\.tmx:1: a text of more than"),
        ("a.tmx", "<tmx a='" + "x" * (20 << 20), r"a\.tmx:1: a tag or comment of more than"),
    ],
    ids=["entity", "depth", "open", "language", "po", "text", "tag"],
)  # fmt: skip
def test_hostile_and_broken_files_are_refused_with_file_and_line(tmp_path: Path, name: str, content: str, problem: str):
    with pytest.raises(DataError, match=problem):
        pairs(tmp_path, name, content)


def test_columns_must_be_languages():
    for settings in ({"source": 0, "target": 1}, {"text": "en", "label": "de"}):
        with pytest.raises(RegardError, match=r"code of a language|nothing else"):
            SourceConfig(file="a.tmx", **settings)
    assert pair_of(SourceConfig(file="a.tmx", source="en-CA", target="es_AR")) == ("en", "es")


def test_a_large_memory_is_streamed(tmp_path: Path):
    unit = '<tu><tuv xml:lang="en"><seg>A dog {0}.</seg></tuv><tuv xml:lang="de"><seg>Ein Hund {0}.</seg></tuv></tu>\n'
    file = tmp_path / "big.tmx"
    with file.open("w") as stream:
        stream.write("<tmx><body>\n")
        stream.writelines(unit.format(number) for number in range(20_000))
        stream.write("</body></tmx>")
    tracemalloc.start()
    count = sum(1 for _ in read_pairs(SourceConfig(file=str(file), source="en", target="de")))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 2 << 20 < file.stat().st_size + (1 << 20)


def test_init_and_check_take_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(
        f'<tu><tuv xml:lang="en-US"><seg>{n * 7919} is what the dog sees of {n} small cats.</seg></tuv>'
        f'<tuv xml:lang="de-DE"><seg>{n * 7919} sieht der Hund von {n} kleinen Katzen.</seg></tuv></tu>'
        for n in range(40)
    )
    Path("memory.tmx").write_text(f"<tmx><body>{rows}</body></tmx>")
    entries = "".join(
        f'msgid "{n * 7919} files open at number {n} now"\nmsgstr "{n * 7919} Dateien bei Nummer {n} öffnen"\n\n'
        for n in range(40)
    )
    Path("app.po").write_text('msgid ""\nmsgstr "Language: de\\n"\n\n' + entries)
    for name, columns in {"memory.tmx": ("en-US", "de-DE"), "app.po": ("en", "de")}.items():
        done = CliRunner().invoke(app, ["init", name, "--out", f"{name}.toml"])
        assert done.exit_code == 0, done.output
        recipe = Path(f"{name}.toml").read_text()
        assert f'source = "{columns[0]}", target = "{columns[1]}"' in recipe
        assert 'task = "translation"' in recipe
        assert not check_files([name]).has_errors


def test_a_run_trained_on_a_catalogue_translates_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    entries = "".join(f'msgid "Open {word}."\nmsgstr "{word} auf."\n\n' for word in "abcdefghijklmnopqrst")
    Path("memory.po").write_text('msgid ""\nmsgstr "Language: de\\n"\n\n' + entries)
    Path("mine.toml").write_text(
        'task = "translation"\n[data]\ntrain = { file = "memory.po", source = "en", target = "de" }\n'
        '[tokenizer]\nkind = "word"\n[model]\nwidth = 16\ndepth = 1\nheads = 2\n'
        '[search]\nkind = "greedy"\nmax_length = 8\nmin_length = 3\n'
        '[train]\nsteps = 30\nschedule = { kind = "constant", lr = 1e-2 }\n'
        'device = "cpu"\nprecision = "float32"\ncompile = "off"\ntokens_per_batch = 128\n'
    )
    new = '# A comment\nmsgid ""\nmsgstr "Language: de\\n"\n\n#: a.c:1\nmsgctxt "menu"\nmsgid "Open a."\nmsgstr ""\n\n'
    new += 'msgid "Open %s. Open {name} b."\nmsgstr ""\n\nmsgid "Open c."\nmsgstr "Fertig"\n'
    Path("new.po").write_bytes(new.encode())
    for command in (["train", "mine.toml", "--out", "run"], [*TRANSLATE, "--out", "new.de.po"]):
        done = CliRunner().invoke(app, [*command, "--quiet"])
        assert done.exit_code == 0, done.output
    result = Path("new.de.po").read_text()
    first, second = (result.split(f'{end}."\nmsgstr "')[1].split('"')[0] for end in ("Open a", "{name} b"))
    assert first
    assert second.count("%s") == second.count("{name}") == 1
    assert result.replace(f'msgstr "{first}"', 'msgstr ""').replace(f'msgstr "{second}"', 'msgstr ""') == new
    for option in (["--json"], ["--nbest", "2"]):
        done = CliRunner().invoke(app, [*TRANSLATE, *option])
        assert "translated as a document" in str(done.exception)
    printed = CliRunner().invoke(app, [*TRANSLATE, "--quiet"])
    assert printed.stdout == result
