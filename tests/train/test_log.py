import math
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError, Failure, RegardError, RunError
from regard.train import log as log_module
from regard.train.log import MetricsLog, TensorBoardTracker, TrackioTracker, read_metrics

RESUME = {"event": "resume"}


def write_step(log: MetricsLog, step: int, split: str = "train", **more: float) -> None:
    numbers = {"tokens": 4096 * step, "seconds": 0.5 * step, "tokens_per_second": 8192.0, "flops": 1e9 * step}
    log.write(step=step, split=split, loss=1 / (step + 1), lr=1e-3, **numbers, **more)


def write_steps(file: Path, steps: range, resumed: int | None = None) -> None:
    with MetricsLog(file, resumed=resumed) as log:
        for step in steps:
            write_step(log, step)


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "metrics.jsonl"


class TestWriting:
    def test_a_line_holds_all_that_it_must(self, file):
        with MetricsLog(file) as log:
            write_step(log, 3, "valid", bleu=40.5)
            assert read_metrics(file)[0]["bleu"] == 40.5  # while it is still open
        required = {"step", "split", "loss", "tokens", "seconds", "tokens_per_second", "flops", "lr"}
        assert required <= read_metrics(file)[0].keys()

    def test_what_is_not_finite_comes_back(self, file):
        with MetricsLog(file) as log:
            write_step(log, 1, gradient_norm=math.inf, score=math.nan)
        line = read_metrics(file)[0]
        assert line["gradient_norm"] == math.inf
        assert math.isnan(line["score"])

    def test_events_stand_among_the_lines(self, file):
        with MetricsLog(file) as log:
            write_step(log, 1)
            log.event("early stop", 1, metric="bleu")
            log.sync()
        assert read_metrics(file)[1] == {"event": "early stop", "step": 1, "metric": "bleu"}

    def test_a_run_is_never_written_over(self, file):
        write_steps(file, range(3))
        with pytest.raises(RunError, match=r"a run was here already; continue it with --resume"):
            MetricsLog(file)

    def test_a_full_disk_is_a_failure_with_numbers(self, file, monkeypatch):
        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with MetricsLog(file) as log:
            monkeypatch.setattr(log_module.os, "write", refuse)
            with pytest.raises(Failure, match=r"a line of metrics.jsonl could not be written .*it needs \d+ bytes"):
                write_step(log, 1)

    def test_a_write_that_stops_half_way_goes_on(self, file, monkeypatch):
        write = os.write
        monkeypatch.setattr(log_module.os, "write", lambda descriptor, data: write(descriptor, data[:7]))
        write_steps(file, range(3))
        assert [line["step"] for line in read_metrics(file)] == [0, 1, 2]


class TestResuming:
    @given(length=st.integers(0, 12), resumed=st.integers(0, 12), torn=st.integers(0, 100), again=st.integers(0, 5))
    def test_the_lines_are_those_of_an_undisturbed_run(self, length, resumed, torn, again):
        with tempfile.TemporaryDirectory() as place:
            whole, broken = Path(place) / "whole", Path(place) / "broken"
            write_steps(whole, range(1, 15))
            write_steps(broken, range(1, resumed + length + 1))
            lines = broken.read_bytes().splitlines(keepends=True)
            broken.write_bytes(b"".join(lines[:resumed]) + b"".join(lines[resumed:])[:torn])
            write_steps(broken, range(resumed + 1, resumed + 1 + again), resumed)
            write_steps(broken, range(resumed + 1, 15), resumed)
            marks = [line for line in broken.read_bytes().splitlines() if b"resume" in line]
            rest = [line for line in broken.read_bytes().splitlines() if b"resume" not in line]
            assert rest == whole.read_bytes().splitlines()
            assert len(marks) == 2

    def test_the_mark_stands_where_the_run_went_on(self, file):
        write_steps(file, range(1, 5))
        write_steps(file, range(3, 5), resumed=2)
        assert [line.get("event", line["step"]) for line in read_metrics(file)] == [1, 2, "resume", 3, 4]
        assert read_metrics(file)[2] == {**RESUME, "step": 2}

    def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(self, file):
        write_steps(file, range(1, 5))
        write_steps(file, range(1, 3), resumed=0)
        assert [line["step"] for line in read_metrics(file)] == [0, 1, 2]

    def test_metrics_that_are_gone_do_not_stop_a_run(self, file):
        write_steps(file, range(3, 4), resumed=2)
        assert [line["step"] for line in read_metrics(file)] == [2, 3]

    def test_a_failure_while_cutting_leaves_all_lines(self, file, monkeypatch):
        write_steps(file, range(1, 5))
        before = file.read_bytes()

        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(log_module.os, "fsync", refuse)
        with pytest.raises(Failure, match="No space left on device"):
            MetricsLog(file, resumed=2)
        assert file.read_bytes() == before
        assert os.listdir(file.parent) == [file.name]


class TestReading:
    def test_a_file_cut_at_any_byte_gives_the_lines_before(self, file):
        write_steps(file, range(4))
        whole = file.read_bytes()
        for length in range(len(whole) + 1):
            file.write_bytes(whole[:length])
            ends = [i for i, byte in enumerate(whole) if byte == ord("\n")]
            assert len(read_metrics(file)) == sum(end <= length for end in ends)

    @pytest.mark.parametrize("tail", [b"\0" * 50, b'{"step": 1}\0', b"[1]\n", b"\xff\xfe", b"[" * 100_000])
    def test_a_last_line_that_is_none_is_left_out(self, file, tail):
        write_steps(file, range(2))
        file.write_bytes(file.read_bytes() + tail)
        assert len(read_metrics(file)) == 2

    @pytest.mark.parametrize("line", [b"{", b"[1]", b'{"loss": 1}', b'{"step": true}', b"\0\0", b""])
    def test_a_broken_line_in_the_middle_is_named(self, file, line):
        write_steps(file, range(2))
        lines = file.read_bytes().splitlines()
        file.write_bytes(b"\n".join([lines[0], line, lines[1], b""]))
        with pytest.raises(DataError, match=r"metrics.jsonl:2: is not a line of metrics"):
            read_metrics(file)
        with pytest.raises(DataError, match=r"metrics.jsonl:2: is not a line of metrics"):
            MetricsLog(file, resumed=1)

    def test_a_file_that_is_not_there_is_a_sentence(self, file):
        with pytest.raises(DataError, match=r"cannot be read \(No such file"):
            read_metrics(file)


class FakeTracker:
    def __init__(self, failing: str = "") -> None:
        self.calls: list[object] = []
        self.failing = failing

    def write(self, step, split, numbers):
        self.calls.append((step, split, numbers["loss"]))
        if self.failing == "write":
            raise OSError("no network")

    def close(self):
        self.calls.append("closed")
        if self.failing == "close":
            raise OSError("no network")


def write_two_steps(file: Path, trackers: list[FakeTracker]) -> None:
    with MetricsLog(file, trackers=trackers) as log:
        write_step(log, 1)
        write_step(log, 2)


class TestTrackers:
    def test_each_line_is_handed_on(self, file):
        tracker = FakeTracker()
        with MetricsLog(file, trackers=[tracker]) as log:
            write_step(log, 1)
            write_step(log, 2, "valid")
        assert tracker.calls == [(1, "train", 0.5), (2, "valid", 1 / 3), "closed"]

    @pytest.mark.parametrize(("failing", "calls"), [("write", 1), ("close", 3)])
    def test_one_that_fails_is_given_up_and_the_run_goes_on(self, file, failing, calls):
        tracker, other = FakeTracker(failing), FakeTracker()
        with pytest.warns(UserWarning, match="FakeTracker failed and is given up: no network"):
            write_two_steps(file, [tracker, other])
        assert len(tracker.calls) == calls
        assert len(other.calls) == 3
        assert len(read_metrics(file)) == 2

    def test_trackio_gets_a_run_that_can_go_on(self, monkeypatch, capsys):
        calls: list[object] = []
        trackio, run = ModuleType("trackio"), ModuleType("run")
        vars(run).update(
            log=lambda metrics, step: calls.append((metrics, step)), finish=lambda: calls.append("finished")
        )

        def init(**settings: object) -> ModuleType:
            sys.stdout.write("* Trackio project initialized")
            calls.append(settings)
            return run

        vars(trackio).update(init=init)
        monkeypatch.setitem(sys.modules, "trackio", trackio)
        tracker = TrackioTracker("regard", "demo", {"seed": 1})
        tracker.write(5, "train", {"loss": 2.0})
        tracker.close()
        started = {"project": "regard", "name": "demo", "config": {"seed": 1}, "resume": "allow"}
        assert calls == [started, ({"train/loss": 2.0}, 5), "finished"]
        assert capsys.readouterr().out == ""

    @pytest.mark.parametrize(("resumed", "purge_step"), [(None, None), (400, 401)])
    def test_tensorboard_hides_what_will_be_written_again(self, monkeypatch, tmp_path, resumed, purge_step):
        calls: list[object] = []

        class SummaryWriter:
            def __init__(self, log_dir, purge_step):
                calls.append((log_dir, purge_step))

            def add_scalar(self, tag, value, global_step):
                calls.append((tag, value, global_step))

            def flush(self):
                calls.append("flushed")

            def close(self):
                calls.append("closed")

        board = ModuleType("torch.utils.tensorboard")
        vars(board).update(SummaryWriter=SummaryWriter)
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
        tracker = TensorBoardTracker(tmp_path, resumed)
        tracker.write(5, "train", {"loss": 2.0, "lr": 0.1})
        tracker.close()
        written = [("train/loss", 2.0, 5), ("train/lr", 0.1, 5), "flushed", "closed"]
        assert calls == [(str(tmp_path), purge_step), *written]

    @pytest.mark.parametrize(
        ("make", "name"),
        [(lambda: TrackioTracker("p", "n"), "Trackio"), (lambda: TensorBoardTracker(Path("x")), "TensorBoard")],
    )
    def test_a_missing_library_is_a_sentence(self, monkeypatch, make, name):
        for module in ("trackio", "tensorboard"):
            monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
        with pytest.raises(RegardError, match=rf"{name} is not installed: pip install 'regard\[track\]'"):
            make()
