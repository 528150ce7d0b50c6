"""`--storage-context-headers`: what is noted of a request in its log line and its span."""

from __future__ import annotations

import logging

import pytest

from smg.config.specs import ContextHeader
from smg.telemetry import spans as sender
from tests.waiting import until
from tests.wire.collector import attributes, collecting
from tests.wire.raw_client import BODY, post
from tests.wire.scripted_worker import ScriptedWorker

NAMES = (ContextHeader.parse("X-Team=team"), ContextHeader.parse("x-cost-centre=cost"))


class Lines(logging.Handler):
    """The fields of what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append({"message": record.msg, **getattr(record, "fields", {})})


@pytest.fixture
def lines():
    handler, logger = Lines(), logging.getLogger("smg")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


@pytest.mark.parametrize(
    ("sent", "noted"),
    [
        (["X-Team: red", "X-Cost-Centre: 7"], {"team": "red", "cost": "7"}),
        (["x-team: red", "X-Other: 1"], {"team": "red"}),
        ([], {}),
        (["X-Team: " + "r" * 300], {"team": "r" * 256}),
    ],
)
async def test_the_values_stand_in_the_log_line(gateway, lines, sent, noted):
    worker = ScriptedWorker()
    gw = await gateway(worker, storage_context_headers=NAMES)
    assert (await gw.ask(post(BODY, *sent))).status == 200
    await until(lambda: any(one["message"] == "request" for one in lines.said), "the line came")
    (line,) = (one for one in lines.said if one["message"] == "request")
    assert line["context"] == noted
    assert worker.requests[0].all("x-team") == []


async def test_without_the_option_nothing_is_noted(gateway, lines):
    gw = await gateway(ScriptedWorker())
    await gw.ask(post(BODY, "X-Team: red"))
    await until(lambda: any(one["message"] == "request" for one in lines.said), "the line came")
    assert all("context" not in one for one in lines.said)


async def test_the_values_stand_in_the_span(gateway, monkeypatch):
    monkeypatch.setattr(sender, "PAUSE_S", 0.02)
    with collecting() as collector:
        traced = {"enable_trace": True, "otlp_traces_endpoint": f"127.0.0.1:{collector.port}"}
        gw = await gateway(ScriptedWorker(), storage_context_headers=NAMES, **traced)
        await gw.ask(post(BODY, "X-Team: red"))
        await until(lambda: len(collector.spans) == 2, "two spans came")
        assert any(attributes(span).get("smg.context.team") == "red" for span in collector.spans)
