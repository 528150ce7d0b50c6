"""`smg top`: what it shows of the console's data, where it finds the gateway, what it says when it cannot."""

from __future__ import annotations

import copy
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from rich.console import Console

from smg.cli.main import main
from smg.cli.top_view import board, lost
from smg.config import top as settings

WORKER = {
    "url": "http://10.0.0.1:8000",
    "status": "ready",
    "breaker": "closed",
    "models": ["m"],
    "labels": {},
    "load": 3,
    "report": {"age_s": 1.0, "running": 2, "waiting": 7, "cache_usage": 0.5, "tokens_per_s": 123.4},
    "calls_last_minute": 40,
    "failures_last_minute": 0,
    "hit_share": 0.25,
}
FAILURE = {
    "at": 1.0, "path": "/v1/chat/completions", "status": 503, "code": "", "model": "m",
    "worker": "http://10.0.0.1:8000", "request_id": "chatcmpl-1",
}  # fmt: skip
DATA: dict[str, Any] = {
    "version": "1.2.3",
    "policy": "cache_aware",
    "uptime_s": 7300,
    "not_ready": None,
    "in_flight": 3,
    "calls_per_s": 12.5,
    "failures_per_s": 0.5,
    "first_token": {"count": 10, "p50_s": 0.123, "p99_s": 4.5},
    "history": [],
    "queues": [{"name": "", "in_flight": 3, "limit": None, "waiting": 2, "queue_size": 100}],
    "tenants": None,
    "workers": [WORKER],
    "workers_total": 1,
    "workers_ready": 1,
    "failures": {
        "total": 1,
        "causes": [{"status": 503, "code": "", "count": 1, "at": 1.0}],
        "latest": [FAILURE],
    },
}


def shown(data: dict[str, Any], **how: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=200, **how).print(board(data, "http://gw"))
    return out.getvalue()


def test_everything_is_shown() -> None:
    text = shown(DATA)
    for part in (
        "smg 1.2.3 at http://gw: serving, 1 of 1 workers ready, up 2 h, policy cache_aware",
        "12.5 requests/s, 0.5 errors/s, 3 in flight, first token p50 123 ms, p99 4.50 s",
        "the worker answered 503",
        "chatcmpl-1",
    ):
        assert part in text
    [line] = [line.split() for line in text.splitlines() if line.startswith(" http://10.0.0.1:8000")]
    assert line == ["http://10.0.0.1:8000", "ready", "3", "2/7", "50%", "25%", "123", "40", "m"]
    assert "Tenants" not in text


def test_trouble_is_shown() -> None:
    data = copy.deepcopy(DATA)
    data["not_ready"] = "draining"
    data["tenants"] = {"denied": 4, "nearest": [{"tenant": "auth:t", "rule": "", "used": 0.9}]}
    [worker] = data["workers"]
    worker |= {"status": "not_ready", "breaker": "half_open", "report": None, "failures_last_minute": 2}
    text = shown(data)
    assert "draining" in text and "not ready, breaker half open" in text and "40 (2)" in text
    assert "4 requests refused" in text and "90%" in text


def test_names_can_neither_move_the_cursor_nor_be_markup() -> None:
    data = copy.deepcopy(DATA)
    data["workers"][0]["models"] = ["\x1b]0;owned\x07\x1b[2J", "[red]x[/red]", "a\nb"]
    data["failures"]["latest"][0]["model"] = "\u202eevil\x1b[31m"
    text = shown(data)
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "[red]x[/red]" in text and "a\ufffdb" in text


def test_what_was_known_stays_when_the_connection_is_lost() -> None:
    out = io.StringIO()
    Console(file=out, width=200).print(lost(DATA, "http://gw", "Connection refused"))
    assert "connection to http://gw lost: Connection refused" in out.getvalue()
    assert "serving" in out.getvalue()


def test_where_the_gateway_and_its_key_are_found() -> None:
    assert settings.url_of(None, {}) == settings.URL
    assert settings.url_of(None, {"SMG_TOP_URL": "http://a"}) == "http://a"
    assert settings.url_of("http://b", {"SMG_TOP_URL": "http://a"}) == "http://b"
    assert settings.key_of(None, {}) is None
    assert settings.key_of(None, {"SMG_API_KEY": "shared"}) == "shared"
    assert settings.key_of(None, {"SMG_API_KEY": "shared", "SMG_TOP_API_KEY": " k "}) == "k"
    assert settings.key_of("flag", {"SMG_TOP_API_KEY": "k"}) == "flag"


class Answers(BaseHTTPRequestHandler):
    status = 200
    body = b""
    asked: list[tuple[str, str | None]] = []

    def do_GET(self) -> None:
        type(self).asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(type(self).status)
        self.send_header("Content-Length", str(len(type(self).body)))
        self.end_headers()
        self.wfile.write(type(self).body)

    def log_message(self, *about: object) -> None:
        pass


@pytest.fixture
def answers() -> Iterator[tuple[str, type[Answers]]]:
    """A gateway that answers as it is told."""
    handler = type("Told", (Answers,), {"asked": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", handler
        finally:
            server.shutdown()
            thread.join()


def test_it_asks_with_the_key(
    answers: tuple[str, type[Answers]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url, handler = answers
    handler.body = json.dumps(DATA).encode()
    monkeypatch.setenv(settings.KEY_VARIABLE, "k")
    assert main(["top", "--once", "--url", url + "/behind/"]) == 0
    assert handler.asked == [("/behind/console/data", "Bearer k")]
    assert "smg 1.2.3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, b"", "wants an administrator's key; put it into SMG_TOP_API_KEY"),
        (403, b"", "wants an administrator's key"),
        (404, b"{}", "it answered 404"),
        (200, b"OK", "its answer is no console's"),
        (200, b"[]", "its answer is no console's"),
    ],
)
def test_what_it_says_when_there_are_no_figures(
    answers: tuple[str, type[Answers]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: int,
    body: bytes,
    said: str,
) -> None:
    for name in (settings.KEY_VARIABLE, settings.SHARED_KEY_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    url, handler = answers
    handler.status, handler.body = status, body
    assert main(["top", "--once", "--url", url]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("url", ["127.0.0.1:30000", "ftp://x", "http://", "http://x:99999", "http://[::1"])
def test_what_is_no_url(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", "--url", url]) == 2
    assert "is no URL" in capsys.readouterr().err


def test_a_key_that_cannot_be_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", "--api-key", "k\nX: y"]) == 2
    assert "no key may have" in capsys.readouterr().err
