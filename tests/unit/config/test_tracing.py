"""The options of tracing, and when they keep a gateway from starting."""

from __future__ import annotations

import pytest

from smg.config import tracing
from smg.config.tracing import Tracing, problem_of


@pytest.mark.parametrize(
    "endpoint", ["localhost:4317", "http://collector:4317", "https://c.example:443", "[::1]:4317"]
)
def test_good_endpoints(endpoint: str) -> None:
    assert problem_of(Tracing(enable_trace=True, otlp_traces_endpoint=endpoint)) is None


@pytest.mark.parametrize(
    "endpoint",
    ["", "collector", "grpc://c:4317", "c:99999", "c:x", ":4317", "http://u:secret@c:4317", "http://[::1"],
)
def test_bad_endpoints(endpoint: str) -> None:
    problem = problem_of(Tracing(enable_trace=True, otlp_traces_endpoint=endpoint))
    assert problem is not None and problem.startswith("--otlp-traces-endpoint: needs HOST:PORT")
    assert "secret" not in problem
    assert problem_of(Tracing(otlp_traces_endpoint=endpoint)) is None


def test_without_the_extra_the_gateway_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_is_installed", lambda name: False)
    assert problem_of(Tracing()) is None
    problem = problem_of(Tracing(enable_trace=True))
    assert problem == "--enable-trace needs the packages that pip install 'smg[otel]' installs"
