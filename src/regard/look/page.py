"""`render`: the page, one HTML file with its program, its style and its data; it asks no other host for anything."""

import base64
import hashlib
import json
import re
import zlib
from functools import cache
from importlib.resources import files
from typing import Any

DATA = "<!--regard-data-->"
POLICY = "<!--regard-policy-->"


def render(payload: dict[str, Any], live: bool = False) -> str:
    """The whole page with its data inside; live, it may ask the server that it came from for more."""
    text = json.dumps({**payload, "live": live}, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    policy = f'<meta http-equiv="Content-Security-Policy" content="{content_security_policy(live, header=False)}">'
    page = template().replace(POLICY, policy, 1)
    return page.replace(DATA, f'<script type="application/octet-stream" id="regard-data">{packed(text)}</script>', 1)


def packed(text: str) -> str:
    """Text as zlib packs it, in base64: small, and it cannot open or end an element, whatever it says."""
    return base64.b64encode(zlib.compress(text.encode(), level=6)).decode()


def content_security_policy(live: bool = False, *, header: bool = True) -> str:
    """What the page needs and no more: its own script and style by their hashes, and (live) its own server.

    As a header it also keeps other sites from framing the page, which a meta element cannot say.
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
    """The built page without data."""
    return files("regard.look").joinpath("page.html").read_text(encoding="utf-8")


@cache
def _hashes(element: str) -> list[str]:
    """SHA-256 of each inline script or style, as a policy names it."""
    found = re.findall(rf"<{element}>(.*?)</{element}>", template(), re.DOTALL)
    return [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in found]
