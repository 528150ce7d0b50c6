"""The routes of the data plane that go to workers: path, label, and what the gateway reads of the body."""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec

from smg import errors
from smg.api.request_id import DEFAULT_PREFIX, PREFIXES

PAIRED = frozenset({"chat", "completions", "generate", "messages", "responses", "rerank"})
"""Endpoints that prefill/decode pairs serve."""


class Surface(msgspec.Struct, frozen=True, dict=True):
    """One endpoint. `endpoint` is its label in metrics; `may_pipe`: a large body may go to the worker
    unread; `needs`: a member that must be there; `takes_form`: the body is a form instead of JSON;
    `not_external`: neither external providers nor pairs serve it, this is answered when nobody else has the
    model;
    `is_realtime`: only workers of the Realtime API serve it."""

    path: str
    endpoint: str
    needs_model: bool = True
    may_pipe: bool = False
    needs: bytes | None = None
    takes_form: bool = False
    not_external: Callable[[], errors.GatewayError] | None = None
    is_realtime: bool = False

    @functools.cached_property
    def id_prefix(self) -> bytes:
        return PREFIXES.get(self.path, DEFAULT_PREFIX).encode()


SURFACES = (
    Surface("/v1/chat/completions", "chat", may_pipe=True),
    Surface("/v1/completions", "completions", may_pipe=True),
    Surface("/generate", "generate", needs_model=False, may_pipe=True),
    Surface("/v1/responses", "responses", needs=b"input"),
    Surface("/v1/messages", "messages", may_pipe=True),
    Surface("/v1/embeddings", "embeddings", may_pipe=True),
    Surface("/v1/rerank", "rerank", needs_model=False),
    Surface("/rerank", "rerank", needs_model=False),
    Surface("/v1/classify", "classify", needs_model=False, may_pipe=True),
    Surface("/classify", "classify", needs_model=False),
    Surface("/v1/score", "score", needs_model=False),
    Surface("/score", "score", needs_model=False),
    Surface("/v1/decisions", "decisions", not_external=errors.decisions_not_supported),
    Surface(
        "/v1/audio/transcriptions",
        "transcriptions",
        takes_form=True,
        not_external=errors.transcriptions_not_supported,
    ),
    Surface("/v1/realtime/sessions", "realtime", is_realtime=True),
    Surface("/v1/realtime/client_secrets", "realtime", is_realtime=True),
    Surface("/v1/realtime/transcription_sessions", "realtime", is_realtime=True),
)

# Served beside the data plane: a WebSocket, and a call whose body is no JSON.
REALTIME_SOCKET = Surface("/v1/realtime", "realtime", is_realtime=True)
REALTIME_CALLS = Surface("/v1/realtime/calls", "realtime", is_realtime=True)
