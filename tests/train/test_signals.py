import os
import signal
import subprocess
import sys
import threading

import pytest

from regard.train.signals import StopRequest


@pytest.fixture(autouse=True)
def handlers_come_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_nothing_is_requested_at_first():
    with StopRequest() as stop:
        assert stop.requested is None


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")])
def test_the_first_signal_is_noted_and_interrupts_nothing(number, name):
    with StopRequest() as stop:
        signal.raise_signal(number)
        assert stop.requested == name


def test_a_second_interrupt_leaves_at_once():
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.requested == "Ctrl-C"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_terminating_twice_is_still_only_noted_and_the_first_reason_stays():
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert stop.requested == "SIGTERM"


def test_handlers_of_others_come_back_also_after_an_error():
    calls: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, _: calls.append(number))
    try:
        with pytest.raises(ZeroDivisionError), StopRequest():
            _ = 1 / 0
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert calls == [signal.SIGTERM]


def test_in_another_thread_nothing_is_touched():
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def enter() -> None:
        with StopRequest() as stop:
            seen.extend([stop.requested, signal.getsignal(signal.SIGINT)])

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [None, before]


LOOP = """
import sys, time
from regard.train.signals import StopRequest
with StopRequest() as stop:
    print("ready", flush=True)
    while not stop.requested:
        time.sleep(0.01)
    print("saved after", stop.requested, flush=True)
    if sys.argv[1] == "linger":
        time.sleep(60)
"""


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")])
def test_a_process_saves_and_ends_well(number, name):
    process = looping("leave")
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == (f"saved after {name}\n", 0)


def test_a_process_that_lingers_ends_with_the_second_interrupt():
    process = looping("linger")
    os.kill(process.pid, signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "saved after Ctrl-C\n"
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err


def looping(how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LOOP, how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process
