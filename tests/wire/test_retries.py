"""What is tried again and where, and what failing workers do to clients (FF-27, FF-28, FF-29)."""

from __future__ import annotations

import time

import pytest

from tests.waiting import until
from tests.wire.raw_client import BODY, STREAM_BODY, chat, get, post
from tests.wire.scripted_worker import SSE_HEAD, ScriptedWorker, chunk, event, plain

BODIES = pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["plain", "stream"])


def says(status: int, *lines: str):
    async def play(connection, request):
        await connection.send(plain(b'{"from":"worker"}', f"{status} Said So", *lines))

    return play


async def dies(connection, request):
    connection.close()


async def resets(connection, request):
    connection.reset()


async def breaks_off(connection, request):
    await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
    connection.close()


async def breaks_the_stream(connection, request):
    await connection.send(SSE_HEAD + chunk(event("x")))
    await until(lambda: connection.worker.seen())
    connection.close()


CALLS = {
    **dict.fromkeys((200, 302, 400, 401, 403, 404, 409, 422, 425, 501, 529), 1),
    500: 2,
    **dict.fromkeys((408, 429, 502, 503, 504), 5),
}


@BODIES
@pytest.mark.parametrize(("status", "calls"), CALLS.items())
async def test_which_answers_are_tried_again(gateway, status, calls, body):
    workers = [ScriptedWorker(says(status, "Retry-After: 3", "X-Own: 1")) for _ in range(2)]
    gw = await gateway(*workers)
    response = await gw.ask(post(body))
    assert sum(len(worker.requests) for worker in workers) == calls
    assert (response.status, response.body) == (status, b'{"from":"worker"}')
    assert (response.get("retry-after"), response.get("x-own")) == ("3", "1")
    assert response.get("x-smg-error-code") is None
    assert response.get("x-smg-routed-worker-id") in [worker.url for worker in workers]
    assert {one.body for worker in workers for one in worker.requests} == {body}
    await gw.settled()


@BODIES
async def test_a_500_of_the_only_worker_is_final(gateway, body):
    worker = ScriptedWorker(says(500))
    gw = await gateway(worker)
    assert (await gw.ask(post(body))).status == 500
    assert len(worker.requests) == 1


@BODIES
@pytest.mark.parametrize("trouble", [says(503), says(500), says(429), dies, resets, breaks_off])
async def test_another_worker_is_preferred(gateway, trouble, body):
    bad, good = ScriptedWorker(trouble), ScriptedWorker()
    gw = await gateway(bad, good)
    for _ in range(4):
        response = await gw.ask(post(BODY if trouble is breaks_off else body))
        assert response.status == 200
        assert response.get("x-smg-routed-worker-id") == good.url
    assert len(good.requests) == 4


@BODIES
@pytest.mark.parametrize(
    ("trouble", "code"),
    [
        (dies, "call_upstream_request_error"),
        (resets, "call_upstream_request_error"),
        (breaks_off, "read_response_body_failed"),
    ],
)
async def test_troubles_are_tried_up_to_the_limit(gateway, trouble, code, body):
    worker = ScriptedWorker(trouble)
    gw = await gateway(worker, retry_max_retries=3)
    response = await gw.ask(post(BODY if trouble is breaks_off else body))
    assert (response.status, response.code) == (502, code)
    assert worker.url not in response.body.decode()
    assert len(worker.requests) == 3
    await gw.settled()


@pytest.mark.parametrize("trouble", [says(503), dies])
async def test_disable_retries_means_one_attempt(gateway, trouble):
    worker = ScriptedWorker(trouble)
    gw = await gateway(worker, disable_retries=True)
    assert (await gw.ask(post())).status in (502, 503)
    assert len(worker.requests) == 1


async def test_never_after_the_first_byte(gateway):
    workers = [ScriptedWorker(breaks_the_stream) for _ in range(2)]
    gw = await gateway(*workers)
    client = await gw.client()
    for worker in workers:
        worker.seen = lambda: client.total
    response = await client.ask(post(STREAM_BODY))
    assert response.body.startswith(event("x"))
    assert b"stream_error" in response.body
    assert sum(len(worker.requests) for worker in workers) == 1


async def test_a_stream_may_be_retried_while_nothing_was_sent(gateway):
    async def play(connection, request):
        if len(connection.worker.requests) < 3:
            await connection.answer(b"{}", "503 Busy")
        else:
            await connection.stream(event("at last"))

    worker = ScriptedWorker(play)
    gw = await gateway(worker)
    assert (await gw.ask(post(STREAM_BODY))).body.startswith(event("at last"))
    assert len(worker.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429])
async def test_client_errors_never_open_the_breaker(gateway, status):
    worker = ScriptedWorker(says(status))
    gw = await gateway(worker, cb_failure_threshold=3, retry_max_retries=1)
    for _ in range(20):
        assert (await gw.ask(post())).status == status
    worker.play = says(200)
    assert (await gw.ask(post())).status == 200


@pytest.mark.parametrize("trouble", [says(500), says(502), says(503), dies, resets])
async def test_failures_open_the_breaker(gateway, trouble):
    worker = ScriptedWorker(trouble)
    gw = await gateway(
        worker,
        cb_failure_threshold=3,
        cb_timeout_duration_secs=1,
        cb_success_threshold=1,
        retry_max_retries=1,
    )
    for _ in range(3):
        assert (await gw.ask(post())).status >= 500
    asked = len(worker.requests)
    response = await gw.ask(post())
    assert (response.status, response.code) == (503, "no_available_workers")
    assert response.get("retry-after") is None
    assert len(worker.requests) == asked
    assert b'"m"' in (await gw.ask(get("/v1/models"), "GET")).body
    assert (await gw.ask(post(chat(model="other")))).status == 404
    worker.play = says(200)
    breaker = gw.worker(worker).breaker
    await until(lambda: breaker.would_allow(time.monotonic()))
    assert (await gw.ask(post())).status == 200


async def test_a_dead_worker_is_invisible_while_another_lives(gateway):
    dead, living = ScriptedWorker(), ScriptedWorker()
    gw = await gateway(
        dead,
        living,
        health_check_interval_secs=1,
        health_failure_threshold=1,
        health_check_timeout_secs=1,
        health_success_threshold=1,
    )
    await dead.stop()
    for _ in range(30):
        assert (await gw.ask(post())).status == 200
    await living.stop()
    response = await gw.ask(post())
    assert response.status in (502, 503)
    await until(lambda: gw.server.registry.ready_count == 0)
    response = await gw.ask(post())
    assert (response.status, response.code) == (503, "no_available_workers")
    assert (await gw.ask(get("/readiness"), "GET")).status == 503
    assert (await gw.ask(get("/liveness"), "GET")).status == 200
    await dead.start()
    await until(lambda: gw.server.registry.ready_count == 1)
    assert (await gw.ask(post())).status == 200
    assert (await gw.ask(get("/readiness"), "GET")).status == 200


async def test_an_unknown_model_asks_nobody(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    response = await gw.ask(post(chat(model="nope")))
    assert (response.status, response.code) == (404, "model_not_found")
    assert worker.requests == []
