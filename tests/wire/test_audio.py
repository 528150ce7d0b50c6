"""Transcriptions over real sockets: the upload through a file, retries of it, and every way it can end."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from smg.api.multipart import MultipartParser, boundary_of
from tests.unit.api.test_audio import END, FILE, field
from tests.unit.api.test_multipart import Collector, part
from tests.waiting import until
from tests.wire.conftest import Start
from tests.wire.raw_client import chunked_post, head
from tests.wire.scripted_worker import Connection, Request, ScriptedWorker, answers_ok, event

PATH = "/v1/audio/transcriptions"
TYPE = "Content-Type: multipart/form-data; boundary=b"
FORM = FILE + field("model", "m") + END
LARGE = os.urandom(3 << 20)
LARGE_FORM = part(LARGE, b'form-data; name="file"; filename="a"') + field("model", "m") + END


def upload(form: bytes = FORM, *lines: str) -> bytes:
    return head("POST", PATH, TYPE, f"Content-Length: {len(form)}", *lines) + form


def received(request: Request) -> dict[bytes | None, bytes]:
    """The values of the form a worker got."""
    boundary = boundary_of((request.get("content-type") or "").encode())
    assert boundary is not None
    collector = Collector()
    parser = MultipartParser(boundary, collector)
    parser.feed(request.body)
    parser.close()
    return {name: data for name, _, _, data in collector.parts}


def spooled() -> int:
    """How many nameless temporary files of a megabyte or more this process has open."""
    folder = os.path.realpath(tempfile.gettempdir())
    count = 0
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            link = os.readlink(one)
            count += link.startswith(folder) and link.endswith("(deleted)") and one.stat().st_size >= 1 << 20
    return count


@pytest.fixture(autouse=True)
def no_file_stays_open() -> Iterator[None]:
    assert spooled() == 0
    yield
    assert spooled() == 0


async def test_a_large_file_arrives_whole(gateway: Start) -> None:
    worker = ScriptedWorker()
    live = await gateway(worker)
    client = await live.client()
    for _ in range(2):
        response = await client.ask(upload(LARGE_FORM))
        assert (response.status, response.get("x-smg-routed-worker-id")) == (200, worker.url)
    assert [received(one) for one in worker.requests] == [{b"file": LARGE, b"model": b"m"}] * 2
    assert worker.requests[0].target == PATH
    await live.settled()
    assert spooled() == 0


async def test_a_chunked_form_cut_anywhere(gateway: Start) -> None:
    worker = ScriptedWorker()
    live = await gateway(worker)
    pieces = [FORM[at : at + 7] for at in range(0, len(FORM), 7)]
    request = chunked_post(*pieces, target=PATH).replace(b"Content-Type: application/json", TYPE.encode())
    response = await live.ask(request)
    assert response.status == 200
    assert received(worker.requests[0]) == {b"file": b"RIFFdata", b"model": b"m"}


async def test_an_upload_waits_for_a_slow_worker(gateway: Start) -> None:
    """The file stays where it is until the worker takes it."""

    async def play(connection: Connection, request: Request) -> None:
        connection.stop_reading()
        await until(lambda: spooled() == 1)
        connection.read_on()
        await until(lambda: connection.received > len(LARGE))
        await connection.answer()

    worker = ScriptedWorker(play, plays_at_head=True, receive_buffer=1 << 16)
    live = await gateway(worker)
    assert (await live.ask(upload(LARGE_FORM))).status == 200
    await live.settled()


async def test_a_status_is_tried_again_with_the_same_form(gateway: Start) -> None:
    async def play(connection: Connection, request: Request) -> None:
        if len(worker.requests) == 1:
            await connection.answer(b"busy", "503 Service Unavailable")
        else:
            await connection.answer()

    worker = ScriptedWorker(play)
    live = await gateway(worker)
    assert (await live.ask(upload(LARGE_FORM))).status == 200
    first, second = worker.requests
    assert first.body == second.body
    assert received(second)[b"file"] == LARGE
    await live.settled()


async def test_a_pooled_connection_that_died_is_replaced(gateway: Start) -> None:
    async def play(connection: Connection, request: Request) -> None:
        if connection.exchanges == 2:
            connection.reset()
        else:
            await connection.answer()

    worker = ScriptedWorker(play)
    live = await gateway(worker, disable_retries=True)
    for _ in range(2):
        assert (await live.ask(upload())).status == 200
    assert received(worker.requests[-1])[b"file"] == b"RIFFdata"


async def test_a_worker_that_refuses_is_not_asked_again(gateway: Start) -> None:
    workers = ScriptedWorker(), ScriptedWorker()
    live = await gateway(*workers, policy="round_robin", health_check_interval_secs=3600)
    await workers[0].stop()
    responses = [await live.ask(upload()) for _ in range(2)]
    assert sorted(one.status for one in responses) == [200, 502]
    failed = max(responses, key=lambda one: one.status)
    assert failed.code == "call_upstream_connection_failed"
    await live.settled()


async def test_an_answer_is_streamed_when_asked_for(gateway: Start) -> None:
    async def play(connection: Connection, request: Request) -> None:
        await connection.stream(event("a"), event("b"))

    worker = ScriptedWorker(play)
    live = await gateway(worker)
    response = await live.ask(upload(FILE + field("model", "m") + field("stream", "1") + END))
    assert response.get("content-type") == "text/event-stream"
    assert response.body.startswith(event("a") + event("b"))
    assert received(worker.requests[0])[b"stream"] == b"true"


async def test_an_early_answer_ends_the_upload(gateway: Start) -> None:
    async def play(connection: Connection, request: Request) -> None:
        connection.stop_reading()
        await connection.answer(b"too large", "413 Payload Too Large")

    worker = ScriptedWorker(play, plays_at_head=True, receive_buffer=1 << 16)
    live = await gateway(worker)
    response = await live.ask(upload(LARGE_FORM))
    assert (response.status, response.body) == (413, b"too large")
    await live.settled()


async def test_a_client_that_leaves_while_it_uploads(gateway: Start) -> None:
    worker = ScriptedWorker()
    live = await gateway(worker)
    client = await live.client()
    await client.send(upload(LARGE_FORM)[: 2 << 20])
    await until(lambda: spooled() == 1, "the file is written")
    client.reset()
    await until(lambda: spooled() == 0, "the file is closed")
    assert worker.requests == []
    await live.settled()


async def test_a_client_that_leaves_while_the_worker_is_sent_it(gateway: Start) -> None:
    async def play(connection: Connection, request: Request) -> None:
        connection.stop_reading()
        client.reset()
        await until(lambda: spooled() == 0, "the file is closed")
        connection.read_on()

    worker = ScriptedWorker(play, plays_at_head=True, receive_buffer=1 << 16)
    live = await gateway(worker)
    client = await live.client()
    await client.send(upload(LARGE_FORM))
    await until(lambda: worker.exchanges, "the worker is asked")
    await worker.exchanges[0].until_ended()
    await live.settled()


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (field("model", "m") + END, "Missing required 'file' part"),
        (FORM.replace(b"--b--", b"--b-x"), "Failed to read the form: malformed boundary line"),
        (FORM[:40], "Failed to read the form: the form ends early"),
    ],
)
async def test_a_refused_form(gateway: Start, form: bytes, message: str) -> None:
    worker = ScriptedWorker()
    live = await gateway(worker)
    response = await live.ask(upload(form))
    assert (response.status, response.body.decode()) == (400, message)
    assert response.get("content-type") == "text/plain; charset=utf-8"
    assert response.get("x-request-id")
    assert worker.requests == []


async def test_a_wrong_value_is_told_before_the_file_has_come(gateway: Start) -> None:
    live = await gateway(ScriptedWorker())
    client = await live.client()
    form = field("temperature", "2") + LARGE_FORM
    await client.send(upload(form)[:1000])
    response = await client.read()
    assert response.body == b"Invalid 'temperature' value: 2 (must be a finite number in [0.0, 1.0])"
    assert response.closes


async def test_a_form_above_the_limit(gateway: Start) -> None:
    worker = ScriptedWorker()
    live = await gateway(worker, max_payload_size=1 << 20)
    response = await live.ask(upload(LARGE_FORM))
    assert (response.status, response.code) == (413, "request_body_too_large")
    request = chunked_post(LARGE_FORM, target=PATH).replace(b"Content-Type: application/json", TYPE.encode())
    response = await live.ask(request)
    assert (response.status, response.code) == (413, "request_body_too_large")
    assert worker.requests == []


async def test_an_upload_that_stalls(gateway: Start) -> None:
    live = await gateway(ScriptedWorker(answers_ok), stream_body_stall_timeout_secs=1)
    client = await live.client()
    await client.send(upload(LARGE_FORM)[: 2 << 20])
    response = await client.read()
    assert (response.status, response.code) == (408, "request_body_stalled")
