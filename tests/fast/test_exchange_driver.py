"""The driver of an exchange's coroutine: where it may wait, how it is woken and cancelled, what it leaves."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from smg._fast.ingress import Ingress
from tests.fast.stage import HEAD, LIMIT, Stage, answer, answers_of, echo, forever, post
from tests.fast.transports import FakeTransport, Timers, armed
from tests.waiting import turns

ROOT = Path(__file__).resolve().parents[2]
Wait = Callable[[Exchange], Coroutine[Any, Any, None]]


class LoopTimers(Timers):
    """Turns are those of the running loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        asyncio.get_running_loop().call_soon(callback, *args)


def looping(serve: Any) -> Stage:
    stage = Stage(serve)
    stage.timers.call_soon = LoopTimers().call_soon  # type: ignore[method-assign]
    return stage


def statuses(client: FakeTransport) -> list[int]:
    return [one.status for one in answers_of(client)]


# ---- without a loop at all


def test_it_completes_within_the_call_that_began_it() -> None:
    stage = Stage(echo)
    client = FakeTransport().connect(Ingress(stage.front))
    client.deliver(post(b"hello"))
    assert statuses(client) == [200]
    stage.assert_settled()


def test_it_is_resumed_within_the_call_that_it_waited_for() -> None:
    stage = Stage(echo)
    client = FakeTransport().connect(Ingress(stage.front))
    client.deliver(post(b"hello")[:-1])
    assert not client.writes
    client.deliver(b"o")
    assert statuses(client) == [200]


def test_awaiting_twice_is_harmless() -> None:
    async def serve(x: Exchange) -> None:
        body = x.receive_body(LIMIT)
        await body
        await body
        await x
        answer(x, x.body)

    stage = Stage(serve)
    assert statuses(stage.client(post(b"hello")[:-1], b"o")) == [200]


# ---- waiting for others


async def by_future(x: Exchange) -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, None)
    await future


async def by_done_future(x: Exchange) -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_result(None)
    await future


async def by_sleep(x: Exchange) -> None:
    await asyncio.sleep(0)


async def by_timer(x: Exchange) -> None:
    await asyncio.sleep(1e-9)


async def by_task(x: Exchange) -> None:
    await asyncio.get_running_loop().create_task(turns(2))


async def by_gather(x: Exchange) -> None:
    await asyncio.gather(turns(1), turns(2))


async def by_event(x: Exchange) -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    await event.wait()


async def by_failed_task(x: Exchange) -> None:
    async def fail() -> None:
        raise OSError

    with pytest.raises(OSError):
        await asyncio.get_running_loop().create_task(fail())


WAITS = [by_future, by_done_future, by_sleep, by_timer, by_task, by_gather, by_event, by_failed_task]


@pytest.mark.parametrize("wait", WAITS)
async def test_it_can_wait_for_anything(wait: Wait) -> None:
    answered = asyncio.Semaphore(0)

    async def serve(x: Exchange) -> None:
        await wait(x)
        await x.receive_body(LIMIT)
        await wait(x)
        await wait(x)
        answer(x, x.body)
        answered.release()

    stage = looping(serve)
    client = stage.client(post(b"hello"), post(b"you"))
    async with asyncio.timeout(30):
        await answered.acquire()
        await answered.acquire()
    assert [one.body for one in answers_of(client)] == [b"hello", b"you"]
    stage.assert_settled()


async def test_a_body_that_comes_while_it_waits_for_another() -> None:
    async def serve(x: Exchange) -> None:
        body = x.receive_body(LIMIT)
        await by_sleep(x)
        await by_future(x)
        await body
        answer(x, x.body)

    stage = looping(serve)
    client = stage.client(post(b"hello")[:-1])
    client.deliver(b"o")
    assert not statuses(client)
    await turns(4)
    assert statuses(client) == [200]


async def test_waking_it_does_not_cut_another_wait_short() -> None:
    reached: list[str] = []
    answered = asyncio.Event()

    async def serve(x: Exchange) -> None:
        body = x.receive_body(LIMIT)
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(1e-9, future.set_result, None)
        await future
        reached.append("future")
        await body
        answer(x, x.body)
        answered.set()

    stage = looping(serve)
    client = stage.client(post(b"hello")[:-1], b"o")
    assert not reached
    async with asyncio.timeout(30):
        await answered.wait()
    assert reached == ["future"] and statuses(client) == [200]


# ---- the client leaves


async def receiving(x: Exchange) -> None:
    await x.receive_body(LIMIT)


async def never(x: Exchange) -> None:
    await forever()


async def never_in_task(x: Exchange) -> None:
    await asyncio.get_running_loop().create_task(forever())


async def long_sleep(x: Exchange) -> None:
    await asyncio.sleep(3600)


@pytest.mark.parametrize("how", ["lose", "reset", "end", "abort_all"])
@pytest.mark.parametrize("wait", [receiving, never, never_in_task, long_sleep, by_sleep, by_future, by_task])
async def test_a_client_that_leaves_cancels_it(wait: Wait, how: str) -> None:
    stage = looping(wait)
    # With `end` while the body is received the client is still there for an answer, so it sends all of it.
    client = stage.client(post(b"hello")[: -1 if wait is receiving and how != "end" else None])
    if wait is receiving and how == "end":
        return
    assert stage.exchanges and not stage.ended
    if how == "abort_all":
        stage.front.abort_all()
        client.settle()
    else:
        getattr(client, how)()
    await turns(4)
    [error] = stage.ended
    assert isinstance(error, asyncio.CancelledError)
    assert stage.x.client_left and stage.counts.client_left == 1
    assert not armed(stage.limits) and len(asyncio.all_tasks()) == 1
    stage.assert_settled()


async def test_a_client_that_leaves_while_a_worker_is_asked() -> None:
    async def serve(x: Exchange) -> None:
        await x.receive_body(LIMIT)
        await x.send(stage.connection(), HEAD, x.body)

    stage = looping(serve)
    stage.client(post(b"hello")).lose()
    assert isinstance(stage.ended[0], asyncio.CancelledError)
    assert stage.worker.was_aborted and not armed(stage.limits)


async def test_what_it_waited_for_is_done_when_the_client_leaves() -> None:
    future = asyncio.get_running_loop().create_future()

    async def serve(x: Exchange) -> None:
        await future

    stage = looping(serve)
    client = stage.client(post(b"hello"))
    future.set_result(None)
    client.lose()
    await turns(4)
    assert isinstance(stage.ended[0], asyncio.CancelledError)


async def test_a_failure_that_nobody_hears_of_any_more_is_not_complained_of() -> None:
    loop = asyncio.get_running_loop()
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda loop, context: complaints.append(context))
    for how in ("leaves", "interrupted"):
        future = loop.create_future()
        stage = looping(_waiting_for(future))
        client = stage.client(post(b"hello"))
        future.set_exception(ConnectionRefusedError())
        client.lose() if how == "leaves" else stage.x.interrupt()
        await turns(4)
        assert isinstance(stage.ended[0], asyncio.CancelledError)
        del future, stage, client
        gc.collect()
    assert not complaints


def _waiting_for(future: asyncio.Future[None]) -> Any:
    async def serve(x: Exchange) -> None:
        await future

    return serve


async def test_it_may_clean_up_and_wait_for_that() -> None:
    steps: list[str] = []

    async def serve(x: Exchange) -> None:
        try:
            await forever()
        finally:
            await by_sleep(x)
            await by_future(x)
            steps.append("clean")

    stage = looping(serve)
    stage.client(post(b"hello")).lose()
    await turns(8)
    assert steps == ["clean"] and isinstance(stage.ended[0], asyncio.CancelledError)


async def test_nothing_more_can_be_asked_for_an_exchange_whose_client_left() -> None:
    outcomes: list[Any] = []

    async def serve(x: Exchange) -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            pass
        await x.receive_body(LIMIT)
        outcomes.append(x.received)
        with pytest.raises(RuntimeError, match="left"):
            await x.send(stage.connection(), HEAD, b"")
        x.answer(200, b"OK", b"", b"")
        x.abort()
        outcomes.append(x.status)

    stage = looping(serve)
    client = stage.client(post(b"hello"))
    client.lose()
    await turns(4)
    assert outcomes == [fast.BODY_ABORTED, 200] and client.data == b""
    assert stage.ended == [None] and stage.worker.was_aborted


async def test_a_client_that_leaves_after_the_answer_disturbs_nothing() -> None:
    async def serve(x: Exchange) -> None:
        x.answer(200, b"OK", b"", b"")
        await by_sleep(x)
        await by_future(x)

    stage = looping(serve)
    client = stage.client(post())
    client.lose()
    await turns(4)
    assert stage.ended == [None] and not stage.x.client_left and stage.counts.client_left == 0


# ---- exceptions


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("wait", [None, by_sleep, receiving])
async def test_an_exception_ends_the_connection(error: BaseException, wait: Wait | None) -> None:
    async def serve(x: Exchange) -> None:
        if wait is not None:
            await wait(x)
        raise error

    stage = looping(serve)
    client = stage.client(post(b"hello")[:-1], b"o")
    await turns(4)
    assert stage.ended == [error]
    failures = [] if isinstance(error, asyncio.CancelledError) else [error]
    assert [one["exception"] for one in stage.timers.failures] == failures
    assert client.was_aborted and client.data == b""
    client.settle()
    assert not armed(stage.limits) and not stage.front.open


async def test_ending_without_an_answer_ends_the_connection() -> None:
    async def serve(x: Exchange) -> None:
        pass

    stage = looping(serve)
    client = stage.client(post(b"hello"))
    assert client.was_aborted and not stage.timers.failures


async def test_an_exception_after_the_answer_leaves_the_connection() -> None:
    async def serve(x: Exchange) -> None:
        answer(x, b"")
        raise ValueError

    stage = looping(serve)
    client = stage.client(post(), post())
    assert statuses(client) == [200, 200] and len(stage.timers.failures) == 2
    assert not client.is_closing


async def test_an_answer_while_a_worker_is_asked_lets_go_of_it() -> None:
    async def serve(x: Exchange) -> None:
        x.stream = True
        x.send(stage.connection(), HEAD, b"")
        answer(x, b"")

    stage = looping(serve)
    client = stage.client(post())
    assert stage.worker.was_aborted and statuses(client) == [200]
    stage.worker.deliver(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
    assert statuses(client) == [200] and not stage.limits.request.armed


async def test_a_cancelled_future_is_an_exception_like_others() -> None:
    async def serve(x: Exchange) -> None:
        task = asyncio.get_running_loop().create_task(forever())
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        answer(x, b"")

    stage = looping(serve)
    client = stage.client(post())
    await turns(4)
    assert statuses(client) == [200]


def test_an_answer_that_has_not_come_cannot_be_relayed() -> None:
    async def serve(x: Exchange) -> None:
        with pytest.raises(RuntimeError, match="no answer"):
            x.relay_answer()
        answer(x, b"")

    stage = Stage(serve)
    stage.client(post())
    assert stage.ended == [None]


# ---- re-entrancy


def test_an_exchange_begins_when_another_has_ended() -> None:
    order: list[str] = []

    async def serve(x: Exchange) -> None:
        await x.receive_body(LIMIT)
        assert x.body is not None
        body = x.body.decode()
        order.append(f"begin {body}")
        x.stream = True
        await x.send(stage.connection(), HEAD, x.body)
        order.append(f"end {body}")

    stage = Stage(serve)
    stage.client(post(b"1") + post(b"2"))
    for _ in range(2):
        stage.worker.deliver(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        stage.turn()
    assert order == ["begin 1", "end 1", "begin 2", "end 2"]
    assert len(stage.workers) == 1 and len(stage.pool.idle) == 1
    stage.assert_settled()


def test_two_exchanges_drive_each_other() -> None:
    clients: list[FakeTransport] = []

    async def serve(x: Exchange) -> None:
        await x.receive_body(LIMIT)
        if x.body == b"a":
            clients[1].deliver(post(b"b"))
        answer(x, x.body)

    stage = Stage(serve)
    clients += [stage.client(), stage.client()]
    clients[0].deliver(post(b"a"))
    assert [statuses(client) for client in clients] == [[200], [200]]


def test_cutting_everything_from_within() -> None:
    async def serve(x: Exchange) -> None:
        stage.front.abort_all()
        await x.receive_body(LIMIT)

    stage = Stage(serve)
    client = stage.client(post(b"hello"))
    assert client.was_aborted and isinstance(stage.ended[0], asyncio.CancelledError)
    client.settle()
    assert not armed(stage.limits)


# ---- nothing is left behind


def test_exchanges_are_freed_without_the_collector() -> None:
    stage = Stage(echo)
    client = stage.client(post(b"hello"))
    gc.collect()
    gc.disable()
    try:
        before = alive()
        for _ in range(100):
            stage.exchanges.clear()
            stage.ended.clear()
            stage.send(client, post(b"hello")[:-1], b"o")
        assert alive() == before
    finally:
        gc.enable()


def alive() -> int:
    return sum(isinstance(one, Exchange) for one in gc.get_objects())


SOAK = """
import gc, resource
from tests.fast.stage import Stage, relay_stage, post, echo, get
from tests.fast.transports import FakeTransport
from smg._fast.ingress import Ingress

SSE = b"HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n"

def round(number):
    stage = relay_stage(keepalive_s=1e-9)
    client = stage.client(post(b"x" * 1000) + post(b"y") + get())
    stage.worker.deliver(SSE + b"5\\r\\nhello\\r\\n")
    if number % 3 == 0:
        client.reset()
    elif number % 3 == 1:
        stage.worker.reset()
        stage.turn()
        stage.worker.deliver(SSE + b"0\\r\\n\\r\\n")
    else:
        stage.worker.deliver(b"0\\r\\n\\r\\n" + SSE)
        stage.front.abort_all()
    stage.turn()
    large = Stage(echo)
    large.client(post(b"x" * 100_000)).lose()
    large.client(post(b"x" * 100_000)[:90_000]).lose()

def memory():
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(gc.get_objects())

for number in range(300):
    round(number)
before = memory()
for number in range(1500):
    round(number)
after = memory()
print(after[0] - before[0], after[1] - before[1])
"""


def test_many_ends_leave_no_memory_behind() -> None:
    done = subprocess.run([sys.executable, "-c", SOAK], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    kilobytes, objects = (int(number) for number in done.stdout.split())
    assert kilobytes < 4000 and objects < 100
