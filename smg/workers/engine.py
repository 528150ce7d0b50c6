"""Small requests of the gateway's own to engines: probes, metadata, cache flushes. Never a client's request.

Every answer is bounded in time and size, redirects are not followed, and whatever goes wrong is an
`EngineError` whose text names neither a key nor a URL.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from http.cookies import CookieError
from ssl import SSLContext
from typing import Any

import aiohttp
import msgspec

MAX_ANSWER_BYTES = 4 << 20
SOCKET_CLOSE_S = 2.0
"""How long an engine may take to answer the end of a WebSocket."""

_LEFT_OUT = ("User-Agent", "Accept-Encoding")


class EngineError(Exception):
    """No usable answer; the text says why in a few words."""


class SocketRefused(EngineError):
    """An engine answered an upgrade to a WebSocket with another status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the upgrade was answered with {status}")
        self.status = status


class Answer:
    """Status, media type and whole body of an engine's answer."""

    __slots__ = ("body", "content_type", "status")

    def __init__(self, status: int, content_type: str, body: bytes) -> None:
        self.status = status
        self.content_type = content_type
        self.body = body

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise EngineError("the answer is not JSON") from None


def open_session() -> aiohttp.ClientSession:
    """The session all `EngineClient`s of a process share; needs a running loop."""
    # A fresh connection per request: a probe must not succeed or fail by what an old one knows.
    connector = aiohttp.TCPConnector(limit=0, force_close=True, ttl_dns_cache=10)
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        skip_auto_headers=_LEFT_OUT,
        trace_configs=[trace],
    )


async def _refuse_redirect(*about: object) -> None:
    # A WebSocket's request cannot be told not to follow them.
    raise EngineError("the engine redirects")


class EngineClient:
    """`tls`: the context for https workers, `None` for the system's default."""

    def __init__(self, session: aiohttp.ClientSession, tls: SSLContext | None = None) -> None:
        self._session = session
        self._tls: SSLContext | bool = tls if tls is not None else True

    async def get(
        self,
        url: str,
        key: str | None,
        timeout_s: float,
        limit: int = MAX_ANSWER_BYTES,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        return await self.request("GET", url, key, timeout_s, limit=limit, headers=headers)

    async def request(
        self,
        method: str,
        url: str,
        key: str | None,
        timeout_s: float,
        body: bytes | None = None,
        limit: int = MAX_ANSWER_BYTES,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One exchange with an engine; `key` is sent as bearer token. Raises `EngineError`."""
        sent = dict(headers or {})
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        if body is not None:
            sent["Content-Type"] = "application/json"
        with _translated(timeout_s):
            async with self._session.request(
                method,
                url,
                headers=sent,
                data=body,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                ssl=self._tls,
                skip_auto_headers=_LEFT_OUT,
            ) as response:
                return Answer(response.status, response.content_type, await _read(response, limit))

    async def open_socket(
        self, url: str, headers: dict[str, str], timeout_s: float, max_message_bytes: int
    ) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket whose pings and closes are the caller's to answer. Raises `EngineError`, of the kind
        `SocketRefused` when the engine answered with another status."""
        with _translated(timeout_s):
            async with asyncio.timeout(timeout_s):
                return await self._session.ws_connect(
                    url,
                    headers=headers,
                    autoping=False,
                    autoclose=False,
                    compress=0,
                    max_msg_size=max_message_bytes,
                    ssl=self._tls,
                    timeout=aiohttp.ClientWSTimeout(ws_receive=None, ws_close=SOCKET_CLOSE_S),
                )


@contextlib.contextmanager
def _translated(timeout_s: float) -> Iterator[None]:
    """Whatever goes wrong becomes an `EngineError`."""
    try:
        yield
    except TimeoutError:
        raise EngineError(f"no answer within {timeout_s:g} seconds") from None
    except aiohttp.ClientConnectorCertificateError:
        raise EngineError("the certificate is not trusted") from None
    except aiohttp.ClientSSLError:
        raise EngineError("the TLS handshake failed") from None
    except aiohttp.ClientConnectorError as error:
        raise EngineError(f"no connection: {error.os_error.strerror or 'unreachable'}") from None
    except aiohttp.WSServerHandshakeError as error:
        if error.status == 101:
            raise EngineError("the upgrade was answered wrongly") from None
        raise SocketRefused(error.status) from None
    except (aiohttp.ClientError, OSError, ValueError, CookieError) as error:
        raise EngineError(f"the exchange failed: {type(error).__name__}") from None


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    parts = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > limit:
            raise EngineError(f"the answer is longer than {limit} bytes")
        parts.append(part)
    return b"".join(parts)
