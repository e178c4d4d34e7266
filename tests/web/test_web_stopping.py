"""Full queues, clients who leave, and a server that is told to stop while it works."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from gated import SECONDS, GatedEngine
from served_runs import serving, with_engine

ASKED = {"q": "ab", "source": "en", "target": "de"}
ANSWERED = {"translatedText": "ba", "unseen": ["ab"]}


@pytest.fixture
def engine() -> Iterator[GatedEngine]:
    made = GatedEngine()
    yield made
    made.gate.release(1000)


def until(true: object) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_full_queue_answers_503_and_says_when_to_come_again(folders: dict[str, Path], engine: GatedEngine):
    app, config = with_engine("street", folders["street"], engine, queue=2)
    with serving(app, config) as server, ThreadPoolExecutor(8) as pool:
        first = pool.submit(httpx.post, f"{server}/translate", json=ASKED, timeout=SECONDS)
        engine.wait_for_batch()
        waiting = [pool.submit(httpx.post, f"{server}/translate", json=ASKED, timeout=SECONDS) for _ in range(2)]
        until(lambda: 'regard_queue_requests{model="street"} 2' in httpx.get(f"{server}/metrics").text)
        refused = httpx.post(f"{server}/translate", json=ASKED)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "street is busy" in refused.json()["error"]
        assert httpx.get(f"{server}/health").status_code == 200
        engine.gate.release(1000)
        assert [job.result().json()["translatedText"] for job in (first, *waiting)] == ["ba"] * 3
    assert engine.batches == [["ab"], ["ab", "ab"]]


def test_a_client_who_leaves_takes_its_waiting_work_along(folders: dict[str, Path], engine: GatedEngine):
    app, config = with_engine("street", folders["street"], engine)
    with serving(app, config) as server, ThreadPoolExecutor(8) as pool:
        first = pool.submit(httpx.post, f"{server}/translate", json=ASKED, timeout=SECONDS)
        engine.wait_for_batch()
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server}/translate", json={**ASKED, "q": "left"}, timeout=0.3)
        until(lambda: 'status="499"' in httpx.get(f"{server}/metrics").text)
        later = pool.submit(httpx.post, f"{server}/translate", json={**ASKED, "q": "later"}, timeout=SECONDS)
        until(lambda: 'regard_queue_requests{model="street"} 2' in httpx.get(f"{server}/metrics").text)
        engine.gate.release(1000)
        assert (first.result().status_code, later.result().status_code) == (200, 200)
    assert engine.batches == [["ab"], ["later"]]


def test_a_stream_stops_when_nobody_listens(folders: dict[str, Path], engine: GatedEngine):
    app, config = with_engine("letters", folders["letters"], engine)
    asked = {"model": "letters", "prompt": "a", "max_tokens": 1000, "stream": True}
    with serving(app, config) as server:
        with httpx.stream("POST", f"{server}/v1/completions", json=asked, timeout=SECONDS) as stream:
            engine.gate.release(4)
            assert json.loads(next(stream.iter_lines()).removeprefix("data: "))["choices"][0]["text"] == "a"
        until(lambda: not engine.batches[0][0].open)
        engine.gate.release(2)
        assert engine.closed.wait(SECONDS)
        assert len(engine.batches[0][0].tokens) < 10


def test_a_model_that_fails_answers_500_and_the_next_request_works(folders: dict[str, Path], caplog: object):
    app, config = with_engine("street", folders["street"], GatedEngine(open_at_once=True))
    with serving(app, config) as server:
        failed = httpx.post(f"{server}/translate", json={**ASKED, "q": "broken"})
        assert (failed.status_code, failed.json()["error"].partition(";")[0]) == (500, "the model failed on this input")
        assert httpx.post(f"{server}/translate", json={**ASKED, "q": "bad"}).json() == {"error": "this text is bad"}
        assert httpx.post(f"{server}/translate", json=ASKED).json() == ANSWERED


def test_stopping_answers_what_is_under_way(folders: dict[str, Path], engine: GatedEngine):
    app, config = with_engine("street", folders["street"], engine)
    with ThreadPoolExecutor(8) as pool:
        with serving(app, config) as server:
            asked = [pool.submit(httpx.post, f"{server}/translate", json=ASKED, timeout=SECONDS)]
            engine.wait_for_batch()
            asked += [pool.submit(httpx.post, f"{server}/translate", json=ASKED, timeout=SECONDS) for _ in range(4)]
            until(lambda: httpx.get(f"{server}/metrics").text.count('regard_queue_requests{model="street"} 4'))
            threading.Timer(0.5, engine.gate.release, [1000]).start()
        assert [job.result().json() for job in asked] == [ANSWERED] * 5
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server}/health")


def test_requests_that_never_end_do_not_keep_a_server(folders: dict[str, Path], engine: GatedEngine):
    app, config = with_engine("street", folders["street"], engine, stop_seconds=0.3)
    with ThreadPoolExecutor(1) as pool:
        with serving(app, config) as server:
            asked = pool.submit(httpx.post, f"{server}/translate", json=ASKED, timeout=SECONDS)
            engine.wait_for_batch()
            began = time.monotonic()
        assert time.monotonic() - began < SECONDS / 2
        engine.gate.release(1000)
        assert asked.exception(SECONDS) or asked.result().status_code == 503


def test_sigterm_stops_the_command_with_its_requests_answered(folders: dict[str, Path]):
    command = "import typer; from regard.cli.serve import serve; typer.run(serve)"
    process = subprocess.Popen(
        [sys.executable, "-c", command, str(folders["letters"]), f"best={folders['films']}", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("letters, best at http://127.0.0.1:"), process.stderr.read()
        server = line.split()[3]
        asked = {"model": "letters", "prompt": "a", "max_tokens": 300, "stream": True, "seed": 1}
        with httpx.stream("POST", f"{server}/v1/completions", json=asked, timeout=SECONDS) as stream:
            lines = stream.iter_lines()
            next(lines)
            process.send_signal(signal.SIGTERM)
            assert [line for line in lines if line][-1] == "data: [DONE]"
        assert process.wait(SECONDS) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()
