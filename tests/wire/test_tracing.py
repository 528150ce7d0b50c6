"""Traces towards the workers and the collector (control plane, section 20)."""

from __future__ import annotations

import re
import socket
import time

import pytest

from smg.config.specs import PrefillUrl, WorkerUrl
from smg.telemetry import spans as sender
from tests.waiting import until
from tests.wire.collector import Collector, attributes, collecting
from tests.wire.raw_client import BODY, CHAT, STREAM_BODY, chat, post
from tests.wire.scripted_worker import ScriptedWorker

ID, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"traceparent: 00-{ID}-{SPAN}-01"
OWN = re.compile(rf"00-{ID}-(?!{SPAN})[0-9a-f]{{16}}-01")


@pytest.fixture
def collector():
    with collecting() as one:
        yield one


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(sender, "PAUSE_S", 0.02)


def traced(collector: Collector) -> dict[str, object]:
    return {"enable_trace": True, "otlp_traces_endpoint": f"127.0.0.1:{collector.port}"}


@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["plain", "stream"])
async def test_an_exchange_and_its_attempt_are_spans(gateway, collector, body):
    worker = ScriptedWorker()
    gw = await gateway(worker, **traced(collector))
    assert (await gw.ask(post(body, PARENT, "tracestate: a=b", "X-Request-ID: r1"))).status == 200
    (request,) = worker.requests
    assert OWN.fullmatch(request.get("traceparent"))
    assert request.all("tracestate") == ["a=b"]
    await until(lambda: len(collector.spans) == 2, "two spans came")
    attempt, whole = sorted(collector.spans, key=lambda span: span.kind, reverse=True)
    assert {span.trace_id.hex() for span in collector.spans} == {ID}
    assert whole.parent_span_id.hex() == SPAN
    assert attempt.parent_span_id == whole.span_id
    assert attempt.span_id.hex() == request.get("traceparent").split("-")[2]
    found = attributes(whole)
    assert found.pop("smg.ttft_s") > 0
    found.pop("smg.longest_gap_s", None)
    assert found == {
        "http.request.method": "POST",
        "http.route": CHAT,
        "http.response.status_code": 200,
        "gen_ai.request.model": "m",
        "smg.attempts": 1,
        "smg.request_id": "r1",
        "smg.stream": body is STREAM_BODY,
        "smg.worker": worker.url,
    }
    assert attributes(attempt) == {"smg.worker": worker.url, "http.response.status_code": 200}
    assert abs(whole.end_time_unix_nano * 1e-9 - time.time()) < 60
    assert collector.resources[0]["service.name"] == "smg"
    await until(lambda: 'smg_trace_spans_total{result="sent"} 2' in gw.metrics, "they are counted")


async def test_each_attempt_has_a_span_of_its_own(gateway, collector):
    async def fails(connection, request):
        await connection.answer(b"{}", "503 Service Unavailable")

    bad, good = ScriptedWorker(fails), ScriptedWorker()
    gw = await gateway(bad, good, **traced(collector))
    while not bad.requests:
        assert (await gw.ask(post(BODY, PARENT))).status == 200
    await until(lambda: any(attributes(s).get("smg.attempts") == 2 for s in collector.spans), "it came")
    (whole,) = (s for s in collector.spans if attributes(s).get("smg.attempts") == 2)
    attempts = [s for s in collector.spans if s.parent_span_id == whole.span_id]
    assert [attributes(s)["http.response.status_code"] for s in attempts] == [503, 200]
    assert [s.status.code for s in attempts] == [2, 0]
    ids = [request.get("traceparent").split("-")[2] for request in (bad.requests[-1], good.requests[-1])]
    assert [s.span_id.hex() for s in attempts] == ids


async def test_errors_are_told(gateway, collector):
    gw = await gateway(ScriptedWorker(), **traced(collector))
    assert (await gw.ask(post(chat(model="nope"), PARENT))).status == 404
    await until(lambda: collector.spans, "a span came")
    (span,) = collector.spans
    assert attributes(span)["error.type"] == "model_not_found"
    assert attributes(span)["http.response.status_code"] == 404


@pytest.mark.parametrize(
    "lines",
    [[], ["traceparent: garbage", "tracestate: a=b"], [PARENT, PARENT]],
    ids=["none", "garbage", "two"],
)
async def test_without_a_good_parent_a_trace_begins(gateway, collector, lines):
    worker = ScriptedWorker()
    gw = await gateway(worker, **traced(collector))
    assert (await gw.ask(post(BODY, *lines))).status == 200
    (sent,) = worker.requests[0].all("traceparent")
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", sent)
    assert ID not in sent
    assert worker.requests[0].all("tracestate") == [""]
    await until(lambda: len(collector.spans) == 2, "two spans came")
    assert {span.trace_id.hex() for span in collector.spans} == {sent.split("-")[1]}


async def test_what_the_caller_does_not_sample_makes_no_span(gateway, collector):
    worker = ScriptedWorker()
    gw = await gateway(worker, **traced(collector))
    await gw.ask(post(BODY, PARENT[:-2] + "00"))
    assert re.fullmatch(rf"00-{ID}-(?!{SPAN})[0-9a-f]{{16}}-00", worker.requests[0].get("traceparent"))
    await gw.ask(post(BODY))
    await until(lambda: len(collector.spans) == 2, "those of the second came")
    assert ID not in {span.trace_id.hex() for span in collector.spans}


async def test_off_both_headers_pass_as_sent(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker)
    await gw.ask(post(BODY, PARENT, "tracestate: a=b"))
    await gw.ask(post(BODY))
    first, second = worker.requests
    assert [first.get("traceparent"), first.get("tracestate")] == [PARENT[13:], "a=b"]
    assert [second.get("traceparent"), second.get("tracestate")] == [None, None]


async def test_a_collector_that_is_not_there_disturbs_nothing(gateway, monkeypatch, caplog):
    monkeypatch.setattr(sender, "EXPORT_S", 0.2)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{closed.getsockname()[1]}"
        gw = await gateway(ScriptedWorker(), enable_trace=True, otlp_traces_endpoint=endpoint)
        for _ in range(3):
            assert (await gw.ask(post(BODY))).status == 200
            await until(lambda: gw.server._spans.lost and not gw.server._spans._queue, "they are lost")
    complaints = [record for record in caplog.records if "spans lost" in record.getMessage()]
    assert len(complaints) == 1
    assert not [record for record in caplog.records if record.name.startswith(("opentelemetry", "grpc"))]


async def test_a_collector_that_hangs_fills_a_bounded_queue(gateway, collector, monkeypatch):
    monkeypatch.setattr(sender, "QUEUE_SPANS", 4)
    collector.held.set()
    gw = await gateway(ScriptedWorker(), **traced(collector))
    await gw.ask(post(BODY))
    await until(collector.asked.is_set, "the collector was asked")
    for _ in range(5):
        assert (await gw.ask(post(BODY))).status == 200
    assert len(gw.server._spans._queue) <= 4
    assert gw.server._spans.lost >= 6
    collector.free()


async def test_what_is_left_is_sent_at_the_end(gateway, collector, monkeypatch):
    monkeypatch.setattr(sender, "PAUSE_S", 3600)
    gw = await gateway(ScriptedWorker(), **traced(collector))
    await gw.ask(post(BODY))
    await gw.server.close()
    assert len(collector.spans) == 2


async def test_both_workers_of_a_pair_belong_to_the_trace(gateway, collector):
    prefill, decode = ScriptedWorker(), ScriptedWorker()
    for worker in (prefill, decode):
        await worker.start()
    gw = await gateway(
        wait=False,
        pd_disaggregation=True,
        prefill=(PrefillUrl.parse(f"{prefill.url} 8998"),),
        decode=(WorkerUrl.parse(decode.url),),
        **traced(collector),
    )
    try:
        await until(lambda: gw.server.registry.ready_count == 2, "both are ready")
        assert (await gw.ask(post(BODY, PARENT))).status == 200
        sent = [worker.requests[0].get("traceparent") for worker in (prefill, decode)]
        assert all(OWN.fullmatch(one) for one in sent)
        assert sent[0] != sent[1]
        await until(lambda: len(collector.spans) == 3, "three spans came")
        assert {attributes(s)["smg.worker"] for s in collector.spans} == {prefill.url, decode.url}
    finally:
        for worker in (prefill, decode):
            await worker.stop()
