"""The worker: what shares a batch, what is dropped, what is refused, and that nothing ever stops it."""

from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest
from gated import SECONDS, GatedEngine
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import Failure, RegardError
from regard.web.classify import Classification
from regard.web.prometheus import ServerMetrics
from regard.web.requests import BusyError, StoppingError
from regard.web.translate import Translation
from regard.web.worker import Job, Worker


@pytest.fixture
def engine() -> GatedEngine:
    return GatedEngine()


@pytest.fixture
def worker(engine: GatedEngine) -> Iterator[Worker]:
    made = Worker("run", engine, queue=6, tokens_per_batch=100, metrics=ServerMetrics())
    made.start()
    yield made
    engine.gate.release(1000)
    made.stop(SECONDS)


def job(*texts: str, outputs: int = 1, longest: int = 10) -> Job:
    return Job(Translation(outputs), texts, longest)


def texts_of(done: Job) -> list[str]:
    return [row[0].text for row in done.future.result(SECONDS)]


def submitted(worker: Worker, engine: GatedEngine, *jobs: Job) -> None:
    """Keeps the worker at work, so that all of the jobs wait when it is free."""
    worker.submit(job("first"))
    engine.wait_for_batch()
    for one in jobs:
        worker.submit(one)


def test_what_waits_shares_a_batch_and_gets_its_own_answers(worker: Worker, engine: GatedEngine):
    jobs = [job("ab", "cd"), job("ef"), job("gh", outputs=3)]
    submitted(worker, engine, *jobs)
    engine.gate.release(3)
    assert [texts_of(one) for one in jobs] == [["ba", "dc"], ["fe"], ["hg"]]
    assert engine.batches == [["first"], ["ab", "cd", "ef"], ["gh"]]
    assert len(jobs[2].future.result()[0]) == 3


def test_other_asks_wait_their_turn_and_nobody_overtakes_for_long(worker: Worker, engine: GatedEngine):
    label, later = Job(Classification(), ["x"], 1), job("later")
    submitted(worker, engine, job("a"), label, later)
    engine.gate.release(3)
    assert label.future.result(SECONDS) == [{"label": 1.0}]
    assert engine.batches == [["first"], ["a", "later"], ["x"]]


def test_a_batch_keeps_to_its_budget_padding_counted(worker: Worker, engine: GatedEngine):
    jobs = [job("a", longest=10), job("b", longest=40), job("c", longest=90), job("d", longest=10)]
    submitted(worker, engine, *jobs)
    engine.gate.release(4)
    assert [texts_of(one) for one in jobs] == [["a"], ["b"], ["c"], ["d"]]
    assert engine.batches[1:] == [["a", "b"], ["c"], ["d"]]


def test_a_full_queue_refuses_and_those_who_left_make_room(worker: Worker, engine: GatedEngine):
    waiting = [job(str(number)) for number in range(6)]
    submitted(worker, engine, *waiting)
    with pytest.raises(BusyError, match="run is busy: 6 requests are queued already"):
        worker.submit(job("too many"))
    waiting[0].cancel()
    worker.submit(job("in its place"))
    engine.gate.release(2)
    assert texts_of(waiting[5]) == ["5"]
    assert engine.batches[1] == ["1", "2", "3", "4", "5", "in its place"]
    with pytest.raises(CancelledError):
        waiting[0].future.result(0)


def test_one_bad_text_spoils_nobody_elses(worker: Worker, engine: GatedEngine):
    jobs = [job("ab"), job("bad"), job("broken"), job("cd")]
    submitted(worker, engine, *jobs)
    engine.gate.release(1000)
    assert (texts_of(jobs[0]), texts_of(jobs[3])) == (["ba"], ["dc"])
    with pytest.raises(RegardError, match="this text is bad"):
        jobs[1].future.result(SECONDS)
    with pytest.raises(Failure, match="the model failed"):
        jobs[2].future.result(SECONDS)


def test_stopping_refuses_what_waits_and_what_comes(engine: GatedEngine):
    worker = Worker("run", engine, queue=6, tokens_per_batch=100, metrics=ServerMetrics())
    worker.start()
    at_work, waiting = job("ab"), job("cd")
    worker.submit(at_work)
    engine.wait_for_batch()
    worker.submit(waiting)
    engine.gate.release()
    worker.stop(SECONDS)
    assert texts_of(at_work) == ["ba"]
    with pytest.raises(StoppingError):
        worker.submit(job("ef"))
    if waiting.future.exception(SECONDS) is None:  # the worker was faster than the stop
        assert texts_of(waiting) == ["dc"]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 50), st.integers(1, 2)), min_size=1, max_size=12))
def test_batches_are_fair_whole_and_within_budget(shapes: list[tuple[int, int, int]]):
    worker = Worker("run", GatedEngine(), queue=100, tokens_per_batch=60, metrics=ServerMetrics())
    jobs = [Job(Translation(outputs), ["x"] * rows, longest) for rows, longest, outputs in shapes]
    for one in jobs:
        worker.submit(one)
    taken: list[Job] = []
    while worker._queued:
        first = next(one for one in jobs if one not in taken)
        batch = worker._gather()
        assert batch[0] is first
        assert len({one.work for one in batch}) == 1
        padded = sum(len(one.items) for one in batch) * max(one.longest for one in batch)
        assert padded <= 60 or len(batch) == 1
        taken += batch
    assert sorted(map(id, taken)) == sorted(map(id, jobs))
