"""Trace contexts: what is continued, what is replaced, and which spans come of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.telemetry.trace import Span, Trace, read_parent

ID, SPAN = b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7"
GOOD = b"00-%b-%b-01" % (ID, SPAN)


def lines(forward: bytes) -> list[bytes]:
    return forward.split(b"\r\n")[:-1]


@pytest.mark.parametrize(
    "value",
    [
        GOOD,
        GOOD[:-2] + b"00",
        GOOD[:-2] + b"ff",
        b"01" + GOOD[2:],
        b"cc" + GOOD[2:] + b"-more",
        b"01" + GOOD[2:] + b"-",
    ],
)
def test_good_parents(value: bytes) -> None:
    parent = read_parent([value])
    assert parent is not None
    assert (parent.trace_id, parent.span_id, parent.flags) == (ID, SPAN, value[53:55])


@pytest.mark.parametrize(
    "values",
    [
        [],
        [b""],
        [b"garbage"],
        [GOOD, GOOD],
        [GOOD.upper()],
        [b"ff" + GOOD[2:]],
        [GOOD + b"-more"],
        [b"01" + GOOD[2:] + b"more"],
        [GOOD[:-1]],
        [b"00-%b-%b-01" % (b"0" * 32, SPAN)],
        [b"00-%b-%b-01" % (ID, b"0" * 16)],
        [b"00-%b-%b-0x" % (ID, SPAN)],
        [b"00_" + GOOD[3:]],
    ],
)
def test_bad_parents(values: list[bytes]) -> None:
    assert read_parent(values) is None


@given(st.binary(max_size=80))
def test_any_bytes(value: bytes) -> None:
    read_parent([value])


def test_a_trace_is_continued() -> None:
    spans: list[Span] = []
    forward = b"accept: a\r\nTraceParent:  %b \r\nx-b: c\r\nTracestate: a=b\r\ntracestate: c=d\r\n" % GOOD
    trace = Trace(forward, 0, spans.append)
    sent = lines(trace.forward("http://w"))
    assert sent[:2] == [b"accept: a", b"x-b: c"]
    assert sent[3:] == [b"Tracestate: a=b", b"tracestate: c=d"]
    found = re.fullmatch(rb"traceparent: 00-%b-([0-9a-f]{16})-01" % ID, sent[2])
    assert found is not None
    assert found[1] != SPAN


@pytest.mark.parametrize("forward", [b"", b"traceparent: garbage\r\ntracestate: a=b\r\n"])
def test_a_new_trace_is_sampled_and_forgets_the_state(forward: bytes) -> None:
    spans: list[Span] = []
    trace = Trace(forward, 0, spans.append)
    first, state = lines(trace.forward("http://w"))
    assert re.fullmatch(rb"traceparent: 00-[0-9a-f]{32}-[0-9a-f]{16}-01", first)
    assert state == b"tracestate: "
    trace.end("POST /x", 200, "", {})
    assert [span.parent_id for span in spans] == [spans[1].span_id, ""]


def test_what_is_not_sampled_is_passed_on_and_makes_no_span() -> None:
    spans: list[Span] = []
    trace = Trace(b"traceparent: %b00\r\n" % GOOD[:-2], 0, spans.append)
    assert lines(trace.forward("http://w"))[0].endswith(b"-00")
    trace.attempt_ended(500, "")
    trace.end("POST /x", 200, "", {})
    assert spans == []


def test_a_span_for_each_attempt() -> None:
    spans: list[Span] = []
    trace = Trace(b"traceparent: %b\r\n" % GOOD, 5, spans.append)
    sent = [lines(trace.forward("http://a"))[0]]
    trace.attempt_ended(503, "")
    sent.append(lines(trace.forward("http://b"))[0])
    trace.end("POST /x", 200, "", {"smg.attempts": 2})
    first, second, whole = spans
    assert [span.span_id.encode() for span in (first, second)] == [line[49:65] for line in sent]
    assert {span.trace_id for span in spans} == {ID.decode()}
    assert first.parent_id == second.parent_id == whole.span_id
    assert (whole.parent_id, whole.is_server, whole.begun_ns) == (SPAN.decode(), True, 5)
    assert [span.failed for span in spans] == [True, False, False]
    assert first.attributes == {"smg.worker": "http://a", "http.response.status_code": 503}
    assert whole.attributes == {"smg.attempts": 2, "http.response.status_code": 200}
    assert first.ended_ns <= second.begun_ns <= second.ended_ns <= whole.ended_ns


@pytest.mark.parametrize(
    ("status", "code", "failed"),
    [(200, "", False), (404, "model_not_found", False), (200, "stream_error", True)],
)
def test_what_counts_as_failed(status: int, code: str, failed: bool) -> None:
    spans: list[Span] = []
    Trace(b"", 0, spans.append).end("POST /x", status, code, {})
    assert (spans[0].failed, spans[0].attributes.get("error.type", "")) == (failed, code)
