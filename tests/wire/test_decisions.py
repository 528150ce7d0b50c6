"""Decisions over real sockets: who is asked in which words, mixed fleets, retries, and errors of workers."""

from __future__ import annotations

import json

from smg.errors import ERROR_CODE_HEADER
from tests.wire.conftest import Start
from tests.wire.raw_client import post
from tests.wire.scripted_worker import Connection, Play, Request, ScriptedWorker, plain

PATH = "/v1/decisions"
BODY = b'{"model":"m", "input":"late","questions":[{"type":"predicate","instructions":"On time?"}]}'
ODD = b'{"model":"m", "input":"","questions":[], "x":1e-7,"big":123456789012345678901234567890}'
REPLY = {
    "model": "served",
    "answers": {"q0": {"type": "noul", "noul": 0.25}},
    "usage": {"input_tokens": 7, "output_tokens": 0},
}


class OtherEngine(ScriptedWorker):
    """An engine that is not SGLang."""

    def probe(self, path: str) -> bytes:
        return super().probe(path).replace(b'"owned_by": "sglang"', b'"owned_by": "vllm"  ')


def answers(
    body: object = REPLY, status: str = "200 OK", *lines: str, kind: str = "application/json"
) -> Play:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def play(connection: Connection, request: Request) -> None:
        await connection.send(plain(content, status, *lines, kind=kind))

    return play


def decisions(body: bytes = BODY) -> bytes:
    return post(body, target=PATH)


async def test_sglang_is_asked_as_system_one(gateway: Start) -> None:
    worker = ScriptedWorker(answers(REPLY, "200 OK", "x-own: 1", 'etag: "e"', "content-language: en"))
    live = await gateway(worker)
    response = await live.ask(decisions())
    assert (response.status, response.get("content-type")) == (200, "application/json")
    assert (response.get("x-own"), response.get("etag"), response.get("content-language")) == (
        "1",
        None,
        None,
    )
    assert response.get("x-smg-routed-worker-id") == worker.url
    assert response.json()["answers"] == [{"type": "predicate", "name": None, "probability": 0.25}]
    asked = worker.requests[0]
    assert (asked.target, asked.get("content-type")) == ("/v1/systemone", "application/json")
    await live.settled()


async def test_another_engine_gets_the_clients_bytes_and_answers_itself(gateway: Start) -> None:
    worker = OtherEngine(answers(b"not here", "404 Not Found", kind="text/plain"))
    live = await gateway(worker)
    response = await live.ask(decisions(ODD))
    assert (response.status, response.get("content-type"), response.body) == (404, "text/plain", b"not here")
    assert (worker.requests[0].target, worker.requests[0].body) == (PATH, ODD)


async def test_in_a_mixed_fleet_the_chosen_workers_rules_apply(gateway: Start) -> None:
    sglang, other = ScriptedWorker(answers()), OtherEngine(answers(b"{}"))
    live = await gateway(sglang, other, policy="round_robin")
    responses = [await live.ask(decisions(ODD)) for _ in range(2)]
    refused, passed = sorted(responses, key=lambda one: -one.status)
    assert (refused.status, refused.code) == (400, "unsupported_decisions_request")
    assert refused.get("x-smg-routed-worker-id") is None
    assert passed.status == 200
    assert (len(sglang.requests), len(other.requests)) == (0, 1)
    await live.settled()


async def test_a_bad_reply_is_tried_again_elsewhere(gateway: Start) -> None:
    bad, good = ScriptedWorker(answers({"model": "m"})), ScriptedWorker(answers())
    live = await gateway(bad, good, policy="round_robin")
    for _ in range(2):
        response = await live.ask(decisions())
        assert (response.status, response.get("x-smg-routed-worker-id")) == (200, good.url)
    assert bad.requests
    assert len(good.requests) == 2


async def test_the_last_bad_reply_is_told(gateway: Start) -> None:
    worker = ScriptedWorker(answers(b"hello", kind="text/plain"))
    live = await gateway(worker, retry_max_retries=3)
    response = await live.ask(decisions())
    assert (response.status, response.code) == (502, "invalid_decisions_response")
    assert response.json()["error"]["message"].startswith("Invalid SGLang Decisions JSON: ")
    assert response.get("x-smg-routed-worker-id") == worker.url
    assert len(worker.requests) == 3


async def test_an_openai_error_is_passed_on(gateway: Start) -> None:
    body = b'{"error": {"message":"slow down", "code":1}}'
    worker = ScriptedWorker(answers(body, "429 Too Many Requests", "retry-after: 7"))
    live = await gateway(worker, retry_max_retries=2)
    response = await live.ask(decisions())
    assert (response.status, response.body, response.get("retry-after")) == (429, body, "7")
    assert response.get(ERROR_CODE_HEADER.lower()) is None
    assert len(worker.requests) == 2


async def test_another_error_is_wrapped(gateway: Start) -> None:
    worker = ScriptedWorker(answers({"detail": "gone mad"}, "529 Overloaded", "retry-after: 7"))
    live = await gateway(worker)
    response = await live.ask(decisions())
    assert (response.status, response.get("retry-after")) == (529, "7")
    assert response.all("content-type") == ["application/json"]
    error = {"type": "Unknown", "code": "upstream_decisions_error", "message": "gone mad", "param": None}
    assert response.json() == {"error": error}
    assert len(worker.requests) == 1


async def test_a_wrapped_error_that_the_worker_has_tried_again(gateway: Start) -> None:
    worker = ScriptedWorker(answers({"detail": "gone mad"}, "529 Overloaded"))
    live = await gateway(worker, retry_max_retries=2)
    live.worker(worker).retryable = {529}
    assert (await live.ask(decisions())).status == 529
    assert len(worker.requests) == 2


async def test_a_wrapped_error_is_tried_again_like_any(gateway: Start) -> None:
    bad, good = ScriptedWorker(answers(b"busy", "503 Service Unavailable")), ScriptedWorker(answers())
    live = await gateway(bad, good, policy="round_robin")
    responses = [await live.ask(decisions()) for _ in range(2)]
    assert [one.status for one in responses] == [200, 200]
    assert bad.requests


async def test_a_redirect_is_relayed_as_it_came(gateway: Start) -> None:
    worker = ScriptedWorker(answers(b"away", "307 Temporary Redirect", "location: /x", kind="text/plain"))
    live = await gateway(worker)
    response = await live.ask(decisions())
    assert (response.status, response.get("location"), response.body) == (307, "/x", b"away")


async def test_bad_requests_reach_no_worker(gateway: Start) -> None:
    worker = ScriptedWorker(answers())
    live = await gateway(worker)
    client = await live.client()
    for body, code in (
        (b"{", "json_parse_error"),
        (b'{"model":"m","input":"x"}', "json_parse_error"),
        (
            BODY.replace(b'"late"', b'[{"role":"user","content":[{"type":"input_image","image_url":"u"}]}]'),
            400,
        ),
        (BODY.replace(b'"m"', b'"nobody"'), "model_not_found"),
    ):
        response = await client.ask(decisions(body))
        assert response.code == code
    assert (await client.ask(decisions())).status == 200
    assert len(worker.requests) == 1
