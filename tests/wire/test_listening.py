"""Where the gateway listens, and how it stops: TLS, Unix sockets, draining, removal (FF-30, FF-31)."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from tests.waiting import until
from tests.wire.raw_client import BODY, STREAM_BODY, chat, connect, get, head, post
from tests.wire.scripted_worker import DONE, LAST_CHUNK, SSE_HEAD, ScriptedWorker, chunk, event, never_ends

KINDS = [post(BODY), post(STREAM_BODY), get("/health"), post(chat("x" * 300_000))]


class Gate:
    """A play that sends one frame and the rest when it is opened."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()

    async def __call__(self, connection, request):
        await connection.send(SSE_HEAD + chunk(event("x")))
        await self.is_open.wait()
        await connection.send(chunk(DONE) + LAST_CHUNK)


# ---- listening


@pytest.fixture
def certificate(tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    for pem in issued.cert_chain_pems:
        pem.write_to_path(str(tmp_path / "cert.pem"), append=True)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    paths = {"tls_cert_path": str(tmp_path / "cert.pem"), "tls_key_path": str(tmp_path / "key.pem")}
    return paths, client


async def test_tls(gateway, certificate):
    paths, context = certificate
    context.set_alpn_protocols(["h2", "http/1.1"])
    worker = ScriptedWorker()
    gw = await gateway(worker, **paths)
    assert gw.server.urls[0].startswith("https://")
    client = await gw.client(tls=context)
    assert client.transport.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
    for request in KINDS:
        assert (await client.ask(request)).status == 200
    assert (await client.ask(b"GET / HTTP/9.9\r\n\r\n")).status == 505
    await client.until_over()


async def test_a_client_of_tls_that_leaves_is_noticed(gateway, certificate):
    paths, context = certificate
    gate = Gate()
    worker = ScriptedWorker(gate)
    gw = await gateway(worker, **paths)
    for leave in ("close", "abort"):
        client = await gw.client(tls=context)
        await client.send(post(STREAM_BODY))
        await client.until_received(b"data: ")
        getattr(client.transport, leave)()
        await worker.exchanges[-1].until_ended()
        await gw.settled()


async def test_plain_http_on_the_tls_port_is_closed(gateway, certificate):
    worker = ScriptedWorker()
    gw = await gateway(worker, **certificate[0])
    client = await gw.client()
    await client.send(post())
    await client.until_over()
    assert worker.requests == []


async def test_unix_socket(gateway, tmp_path):
    path = str(tmp_path / "smg.sock")
    gw = await gateway(ScriptedWorker(), uds=path, port=None)
    client = await connect(path=path)
    gw.clients.append(client)
    for request in KINDS:
        assert (await client.ask(request)).status == 200
    assert gw.server.urls == [f"unix:{path}"]
    await client.send(head("POST", "/health", "Content-Length: x"))
    assert (await client.read()).status == 400


# ---- removal


async def test_removal_lets_streams_finish(gateway):
    gate = Gate()
    workers = [ScriptedWorker(gate), ScriptedWorker()]
    gw = await gateway(workers[0])
    client = await gw.client()
    await client.send(post(STREAM_BODY))
    await client.until_received(b"data: ")
    removed = gw.worker(workers[0])
    await workers[1].start()
    body = b'{"url":"%b"}' % workers[1].url.encode()
    assert (await gw.ask(post(body, target="/workers"))).status == 202
    await until(lambda: gw.server.registry.ready_count == 2)
    assert (await gw.ask(head("DELETE", f"/workers/{removed.id}"))).status == 202
    for _ in range(10):
        assert (await gw.ask(post())).get("x-smg-routed-worker-id") == workers[1].url
    assert len(workers[0].requests) == 1
    gate.is_open.set()
    assert (await client.read()).body == event("x") + DONE
    await workers[1].stop()


# ---- shutdown


async def test_draining_finishes_what_runs(gateway):
    gate = Gate()
    worker = ScriptedWorker(gate)
    gw = await gateway(worker)
    idle = await gw.client()
    assert (await idle.ask(get("/health"))).status == 200
    streaming = await gw.client()
    await streaming.send(post(STREAM_BODY))
    await streaming.until_received(b"data: ")
    late = await gw.client()
    port = gw.port
    drain = asyncio.create_task(gw.server.drain(2))
    await until(lambda: gw.server.draining)
    assert (await gw.ask(get("/readiness"), "GET")).status == 503
    assert (await gw.ask(get("/liveness"), "GET")).status == 200
    assert (await gw.ask(post(chat(model="none")))).status == 404, "new requests are served"
    response = await late.ask(get("/health"), "GET")
    assert (response.status, response.closes) == (200, True)
    await idle.until_over()
    gate.is_open.set()
    assert (await streaming.read()).body == event("x") + DONE
    await streaming.until_over()
    await drain
    with pytest.raises(ConnectionRefusedError):
        await connect(port)


async def test_beyond_the_grace_period_streams_are_cut(gateway):
    worker = ScriptedWorker(never_ends)
    gw = await gateway(worker, shutdown_grace_period_secs=1)
    clients = [await gw.client() for _ in range(3)]
    for client in clients:
        await client.send(post(STREAM_BODY))
        await client.until_received(b"data: ")
    await gw.server.drain(0)
    for client in clients:
        await client.until_over()
    for connection in worker.exchanges:
        await connection.until_ended()
    await gw.settled()


@pytest.mark.parametrize("phase", ["head", "body", "waiting", "stream"])
async def test_a_second_signal_ends_at_once(gateway, phase):
    gate = Gate()
    worker = ScriptedWorker(gate)
    gw = await gateway(worker)
    client = await gw.client()
    request = post(STREAM_BODY)
    sent = {"head": request[:30], "body": request[:-5]}.get(phase, request)
    await client.send(sent)
    if phase == "stream":
        await client.until_received(b"data: ")
    elif phase == "waiting":
        await until(lambda: worker.requests)
    gw.server.cut.set()
    await gw.server.drain(30)
    await client.until_over()
    for connection in worker.exchanges:
        await connection.until_ended()
    await gw.settled()
