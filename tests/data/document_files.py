"""Generated documents of every format, with what must survive in them."""

import random
from xml.sax.saxutils import escape

_split = str.split
WORDS = _split("the old dog sees a small house near river while anna reads her new book and nobody knows why")
KEPT = [
    "%s",
    "%(name)s",
    "%1$d",
    "{name}",
    "{0:.2f}",
    "${path}",
    "{{ user }}",
    "https://example.org/a?b=c&d=1",
    "me@example.org",
]
"""What never changes inside a sentence."""
CODES = ["en", "EN-US", "en_GB"]


def sentence(random: random.Random, kept: bool = True) -> str:
    words = random.choices(WORDS, k=random.randint(3, 9))
    if kept and random.random() < 0.6:
        words.insert(random.randint(0, len(words)), random.choice(KEPT))
    return (
        words[0].capitalize() * (words[0] in WORDS)
        + words[0] * (words[0] not in WORDS)
        + " "
        + " ".join(words[1:])
        + random.choice(".!?")
    )


def text(random: random.Random) -> str:
    return " ".join(sentence(random) for _ in range(random.randint(1, 3)))


def po(random: random.Random) -> bytes:
    end = random.choice(["\n", "\r\n"])
    lines = ['msgid ""', 'msgstr ""', '"Language: de\\n"', '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"',
             '"Content-Type: text/plain; charset=UTF-8\\n"', ""]  # fmt: skip
    for number in range(random.randint(3, 12)):
        kind = random.randint(0, 5)
        lines += [f"#. {sentence(random)}", f"#: src/a.c:{number}"]
        lines += ["#, c-format", f'msgctxt "{sentence(random)}"'] if kind == 1 else []
        lines += ["#, fuzzy"] if kind == 5 else []
        source = f"{number} {text(random)}"
        if kind == 0:
            lines += ['msgid ""', f'"{source}\\n"', f'"a \\"quoted\\" <b>{sentence(random)}</b>\\n"', 'msgstr ""']
        elif kind == 2:
            lines += [f'msgid "{source}"', f'msgid_plural "{source} many"', 'msgstr[0] ""', 'msgstr[1] ""']
        elif kind == 3:
            lines += [f'msgid "{source}"', 'msgstr "Schon da."']
        else:
            lines += [f'msgid "{source}"', 'msgstr ""' if kind < 5 else 'msgstr "unsicher"']
        lines.append("")
    lines += ['#~ msgid "gone"', '#~ msgstr "weg"']
    return (random.choice(["", "\ufeff"]) + end.join(lines) + end).encode()


def xml_text(random: random.Random, pair: str, alone: str) -> str:
    inside = escape(text(random))
    shape = random.randint(0, 3)
    if shape == 1:
        return pair.format(inside)
    if shape == 2:
        return f"{escape(sentence(random))} {pair.format(escape(sentence(random)[:-1]))} {inside}"
    return f"{inside} {alone} {escape(sentence(random))}" if shape == 3 else inside


def xliff(random: random.Random, version: str | None = None) -> bytes:
    version = version or random.choice(["1.2", "2.0"])
    encoding = random.choice(["utf-8", "utf-16", "iso-8859-1"])
    head = f'<?xml version="1.0" encoding="{encoding}"?>\n'
    units = []
    for number in range(random.randint(2, 10)):
        target = random.choice(["", "", "<target></target>", "<target/>", "<target>Schon da.</target>"])
        off = random.choice(["", "", ' translate="no"'])
        if version == "1.2":
            source = xml_text(random, '<g id="1">{}</g>', '<x id="2"/>')
            units.append(f'  <trans-unit id="{number}"{off}>\n    <source>{source}</source>{target}\n    '
                         f"<note>{escape(sentence(random))}</note>\n  </trans-unit>\n")  # fmt: skip
        else:
            source = xml_text(random, '<pc id="1">{}</pc>', '<ph id="2"/>')
            units.append(f'  <unit id="{number}"{off}>\n   <segment>\n    <source>{source}</source>{target}\n'
                         "   </segment>\n  </unit>\n")  # fmt: skip
    body = "".join(units)
    if version == "1.2":
        content = (
            '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">\n<file original="é" '
            f'source-language="en" target-language="de" datatype="x"><body>\n{body}</body></file>\n</xliff>\n'
        )
    else:
        content = (
            '<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">\n'
            f'<file id="é">\n{body}</file>\n</xliff>\n'
        )
    return (head + content).encode(encoding)


def tmx(random: random.Random) -> bytes:
    units = []
    for _ in range(random.randint(2, 10)):
        pair = '<bpt i="1">&lt;b></bpt>{}<ept i="1">&lt;/b></ept>'
        units.append(f'<tu><prop type="x">keep me</prop>\n  <tuv xml:lang="{random.choice(CODES)}"><seg>'
                     f'{xml_text(random, pair, "<ph>{0}</ph>")}</seg></tuv>')  # fmt: skip
        units.append(random.choice(["", '\n  <tuv xml:lang="de-DE"><seg>Schon da.</seg></tuv>']) + "\n</tu>\n")
    doctype = random.choice(["", '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'])
    head = f'<?xml version="1.0"?>\n{doctype}<tmx version="1.4"><header srclang="en"/>'
    content = f"{head}<body>\n{''.join(units)}</body></tmx>\n"
    return content.encode()


def srt(random: random.Random) -> bytes:
    end, cues = random.choice(["\n", "\r\n"]), []
    for number in range(random.randint(2, 12)):
        said = text(random)
        if number % 3 == 0:
            words = said.split(" ")
            said = "<i>" + " ".join(words[: len(words) // 2]) + end + " ".join(words[len(words) // 2 :]) + "</i>"
        elif number % 3 == 1:
            said = f"- {sentence(random)}{end}- {{\\an8}}{sentence(random)}"
        cues.append(f"{number}{end}00:00:{number:02},000 --> 00:00:{number:02},900{end}{said}{end}")
    return (random.choice(["", "\ufeff"]) + end.join(cues)).encode()


def markdown(random: random.Random) -> bytes:
    end = random.choice(["\n", "\r\n"])
    blocks = [
        lambda: f"{'#' * random.randint(1, 4)} {sentence(random)}",
        lambda: f"{sentence(random)} A `code_span` and **{sentence(random)[:-1]}** in{end}{text(random)}",
        lambda: f"> {sentence(random)}{end}> {sentence(random)}",
        lambda: f"- {sentence(random)}{end}  {sentence(random)}{end}- [ ] [{sentence(random)}](http://x.org/Path_a)",
        lambda: f"1. {sentence(random)}{end}2. ![an image](img/a_b.png) {sentence(random)}",
        lambda: f"```python{end}def keep(x):{end}{end}    return x{end}```",
        lambda: f"| one | two |{end}|-----|:---:|{end}| {sentence(random)} | `keep|me` |",
        lambda: f'<p align="center">{end}  {sentence(random)} <code>keep</code>{end}</p>',
        lambda: "[keep]: http://example.org/keep 'keep'",
        lambda: f"{sentence(random)}{end}{end}    indented = keep",
    ]
    chosen = random.choices(blocks, k=random.randint(3, 10))
    front = f"---{end}title: keep this{end}---{end}{end}" if random.random() < 0.5 else ""
    return (front + (end * 2).join(block() for block in chosen) + random.choice(["", end])).encode()


def inline(random: random.Random, depth: int) -> str:
    if depth == 0:
        return escape(" ".join(random.choices(WORDS, k=random.randint(1, 4))))
    name = random.choice(["b", "i", "em", "span", "a", "strong"])
    attributes = {"a": ' href="/Keep?a=1&amp;b=2"', "span": ' class="keep"'}.get(name, "")
    parts = [inline(random, depth - 1) for _ in range(random.randint(1, 2))]
    return f"{inline(random, 0)} <{name}{attributes}>{' '.join(parts)}</{name}> {inline(random, 0)}"


def html(random: random.Random) -> bytes:
    blocks = [
        lambda: f"<p>{inline(random, random.randint(0, 3)).capitalize()}. {escape(text(random))}</p>",
        lambda: (
            f"<div>\n  <h2>{escape(sentence(random))}</h2>\n  <ul><li>{inline(random, 2)}</li>"
            "<li>x&nbsp;y</li></ul>\n</div>"
        ),
        lambda: "<pre>keep = 1 &lt; 2</pre>",
        lambda: '<script>if (keep < 1 && "</p>") {}</script><style>p > b {color: red}</style>',
        lambda: f'<p translate="no">keep this <b>as it is</b></p><!-- keep {sentence(random)} -->',
        lambda: f"<p>{inline(random, 1)} <code>keep_me</code> {escape(sentence(random))}<br>{inline(random, 1)}</p>",
    ]
    body = "\n".join(random.choice(blocks)() for _ in range(random.randint(2, 8)))
    head = f'<html lang="en"><head><meta charset="utf-8"><title>{sentence(random)}</title></head>'
    return f"<!DOCTYPE html>\n{head}\n<body>\n{body}\n</body></html>\n".encode()


MAKERS = {"a.po": po, "a.xlf": xliff, "a.tmx": tmx, "a.srt": srt, "a.md": markdown, "a.html": html}
