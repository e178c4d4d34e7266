"""Documents through the server: uploads as LibreTranslate's clients send them, and HTML in /translate."""

from html import escape
from pathlib import Path

import httpx
import pytest
from served_runs import guarded, serving

PO = b'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "The dog sleeps in %s."\nmsgstr ""\n'
PAIR = {"source": "en", "target": "de"}


def upload(http: httpx.Client, server: str, name: str, content: bytes, **more: str) -> httpx.Response:
    return http.post(f"{server}/translate_file", data={**PAIR, **more}, files={"file": (name, content)})


def test_the_answer_is_a_link_to_the_translated_file(http: httpx.Client, server: str):
    answer = upload(http, server, "app.po", PO)
    assert answer.status_code == 200
    url = answer.json()["translatedFileUrl"]
    assert url.startswith(server)
    file = http.get(url)
    assert "app_de.po" in file.headers["content-disposition"]
    assert file.content.startswith(PO[:-4])
    assert file.content.count(b"%s") == 2
    direct = http.post(
        f"{server}/translate_file", data=PAIR, files={"file": ("app.po", PO)},
        headers={"accept": "application/octet-stream"},
    )  # fmt: skip
    assert direct.content == file.content


def test_bad_uploads_are_refused_in_one_sentence(http: httpx.Client, server: str):
    bomb = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa">]><tmx>&a;</tmx>'
    for name, content, problem in [
        ("a.tmx", bomb, "such XML is refused"),
        ("a.exe", b"x", "no document that this server translates"),
        ("a.md", b"\xff\xfex\xd8", "not utf-16-le"),
        ("a.srt", b"hello", "no timing"),
    ]:
        answer = upload(http, server, name, content)
        assert answer.status_code == 400, answer.text
        assert problem in answer.json()["error"]
    assert upload(http, server, "a.md", b"x", colour="red").status_code == 422
    assert http.post(f"{server}/translate_file", data=PAIR).status_code == 422
    assert http.get(f"{server}/download_file/guess.po").status_code == 404


def test_a_key_may_come_in_the_form_and_links_need_none(http: httpx.Client, folders: dict[str, Path]):
    app, config = guarded({"street": folders["street"]}, api_key="a long secret")
    with serving(app, config) as address:
        assert upload(http, address, "a.md", b"# The dog\n").status_code == 401
        answer = upload(http, address, "a.md", b"# The dog\n", api_key="a long secret")
        assert http.get(answer.json()["translatedFileUrl"]).content.startswith(b"# ")


@pytest.mark.parametrize("sentence", ["The dog sleeps.", "Anna threw away the old chair."])
def test_html_with_a_tag_around_a_sentence_has_the_plain_translation(http: httpx.Client, server: str, sentence: str):
    plain = http.post(f"{server}/translate", json={**PAIR, "q": sentence}).json()["translatedText"]
    for before, after in [("<p>", "</p>"), ("<p><b>", "</b></p>"), ('<a href="x"><i>', "</i></a>")]:
        body = {**PAIR, "q": f"{before}{sentence}{after}<p><code>x &lt; y</code></p>", "format": "html"}
        answer = http.post(f"{server}/translate", json=body).json()["translatedText"]
        assert answer == f"{before}{escape(plain, quote=False)}{after}<p><code>x &lt; y</code></p>"
