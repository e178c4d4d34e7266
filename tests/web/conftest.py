"""One training and one server for all tests of a process, and a browser for each file that asks for one."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from served_pictures import train_pictures
from served_runs import guarded, serving, train_all

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return train_all(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def pictured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that read images."""
    return train_pictures(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="session")
def server(folders: dict[str, Path]) -> Iterator[str]:
    app, config = guarded(folders, read_seconds=1.0, body_bytes=200_000)
    with serving(app, config) as address:
        yield address


@pytest.fixture(scope="session")
def http() -> Iterator[httpx.Client]:
    """A client that opens a connection for each request."""
    with httpx.Client(trust_env=False, timeout=60, limits=httpx.Limits(max_keepalive_connections=0)) as client:
        yield client


@pytest.fixture(scope="module")  # no longer: while it is open, its event loop keeps others of this process from running
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()
