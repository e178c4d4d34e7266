"""`render`: the page, one HTML file with its script, style and data; it needs no network."""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

DATA = "<!--regard-data-->"
POLICY = "<!--regard-policy-->"


def render(payload: Mapping[str, object], live: bool = False) -> str:
    """The page with a payload inside; live, it may request more from its own server."""
    text = json.dumps({**payload, "live": live}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{content_security_policy(live, header=False)}">'
    page = template().replace(POLICY, policy, 1)
    return page.replace(DATA, f'<script type="application/octet-stream" id="regard-data">{packed(text)}</script>', 1)


def packed(text: str) -> str:
    """Base64 of zlib: small, and it cannot open or close an HTML element."""
    return base64.b64encode(zlib.compress(text.encode(), level=6)).decode()


def content_security_policy(live: bool = False, *, header: bool = True) -> str:
    """Allows the page's own script and style by their hashes, and (live) its own server.

    As a header it also forbids framing, which a meta element cannot.
    """
    scripts = " ".join(_hashes("script"))
    styles = " ".join(_hashes("style"))
    rules = [
        "default-src 'none'",
        f"script-src {scripts}",
        f"style-src {styles}",
        "img-src data: blob:",
        "connect-src 'self'" if live else "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*rules, "frame-ancestors 'none'"] if header else rules)


@cache
def template() -> str:
    """The built page without data; its source is page/."""
    return files("regard.look").joinpath("page.html").read_text(encoding="utf-8")


@cache
def _hashes(element: str) -> list[str]:
    """SHA-256 of each inline script or style, as a policy names it."""
    elements = re.findall(rf"<{element}>(.*?)</{element}>", template(), re.DOTALL)
    return [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in elements]
