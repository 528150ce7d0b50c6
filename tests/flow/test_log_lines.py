"""One line an exchange, with what an operator needs; and no line, at any level, that gives a secret away."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from smg.config.model import Telemetry
from smg.telemetry import logs
from tests.flow.conversation import SSE, Flow, chat

SECRET = "s3cr3t-k3y-0f-a-t3nant"
BODY = chat().partition(b"\r\n\r\n")[2]
WORDS = st.text("abcdefgh-", min_size=1, max_size=12).map(lambda word: f"x{word}")
NAMES = st.sampled_from(
    ["Authorization", "authorization", "X-Api-Key", "Cookie", "Proxy-Authorization", "X-SMG-Routing-Key"]
) | st.sampled_from(["traceparent", "X-Forwarded-For", "User-Agent", "X-Correlation-ID-2"])
VALUES = st.sampled_from(["{}", "Bearer {}", "bearer  {}", "Basic {}", "http://u:{}@h/", "a={}; b=c", '"{}"'])


@contextmanager
def written(level: str, *, as_json: bool = True) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    stop = logs.setup(Telemetry(log_level=level, log_json=as_json), stream)
    try:
        yield stream
    finally:
        stop()


def test_the_line_of_an_exchange(flow: Flow) -> None:
    with written("info") as stream:
        client = flow.client(chat(stream=True))
        flow.worker(0).sends(SSE)
        flow.worker(0).streams(b"data: a\n\n", end=True)
        assert client.answer.status == 200
    entry = json.loads(stream.getvalue())
    assert entry["target"] == "smg.request"
    assert (entry["path"], entry["status"], entry["code"]) == ("/v1/chat/completions", 200, "")
    assert (entry["model"], entry["worker"], entry["attempts"]) == ("m", "http://w0:8000", 1)
    assert entry["stream"] and not entry["client_left"]
    assert entry["ttft"] <= entry["seconds"]
    assert "trace_id" not in entry


@settings(max_examples=60)
@given(
    st.lists(st.tuples(NAMES | WORDS, VALUES), max_size=6), st.booleans(), st.sampled_from([200, 400, 503])
)
def test_headers_are_never_logged(lines: list[tuple[str, str]], as_json: bool, status: int) -> None:
    flow = Flow(workers=1, attempts=1, api_key=SECRET + "-of-all")
    head = [
        b"POST /v1/chat/completions HTTP/1.1",
        b"Host: a",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(BODY),
        *(f"{name}: {value.format(SECRET)}".encode() for name, value in lines),
        b"Authorization: Bearer " + (SECRET + "-of-all").encode(),
    ]
    try:
        with written("debug", as_json=as_json) as stream:
            client = flow.client(b"\r\n".join(head) + b"\r\n\r\n" + BODY)
            if not client.answers:
                flow.worker(0).answers(status, b'{"key":"%b"}' % SECRET.encode())
            client.leaves()
        assert stream.getvalue()
        assert SECRET not in stream.getvalue()
    finally:
        flow.close()


def test_credentials_that_somebody_logs_all_the_same() -> None:
    log = logs.get("test")
    for as_json in (True, False):
        with written("debug", as_json=as_json) as stream:
            log.info(
                "a worker", url=f"http://user:{SECRET}@host:1/x", other=f"Authorization: Bearer {SECRET}"
            )
            log.exception("it failed", ValueError(f"https://{SECRET}@host refused bearer {SECRET}, twice"))
            logging.getLogger("aiohttp").warning("to %s", f"redis://:{SECRET}@host/0")
        assert SECRET not in stream.getvalue()
        assert "http://***@host:1/x" in stream.getvalue()
        assert "refused bearer ***" in stream.getvalue()
