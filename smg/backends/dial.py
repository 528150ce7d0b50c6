"""New connections to a worker's host, and what its name stands for at the moment.

A name is looked up for a new connection, and now and then while pooled connections serve, which would else
go on for ever to an address that is the worker's no more.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from smg._fast.egress import Egress
from smg.config.specs import WorkerUrl
from smg.telemetry import logs

log = logs.get(__name__)

FRESH_S = 1.0
"""So long one answer serves all new connections."""
LOOK_AGAIN_S = 5.0
LOOK_UP_S = 5.0
"""Longest wait for an answer where an older one is at hand."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Dialer:
    """`on_gone` is called when an address is no longer among those of the name. `due_ns`: from then on
    (monotonic) a request should call `look_again`. `resolve` gives the addresses of a host."""

    def __init__(
        self, target: WorkerUrl, on_gone: Callable[[], None], resolve: Resolve | None = None
    ) -> None:
        self._target = target
        self._on_gone = on_gone
        self.resolve = resolve or _resolve
        self._is_name = not _is_address(target.host)
        self._known: tuple[str, ...] = () if self._is_name else (target.host,)
        self._known_at = -FRESH_S
        self._looking: asyncio.Task[None] | None = None
        self.due_ns = sys.maxsize

    async def open(self, make: Callable[[], Egress], tls: ssl.SSLContext | None, timeout_s: float) -> Egress:
        """A connection to the first address that takes one. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        addresses = await self._addresses(timeout_s)
        failure: OSError = OSError("the name has no address")
        for place, address in enumerate(addresses):
            # What does not answer must leave time for the others.
            left_s = max(end - loop.time(), 0.0) / (len(addresses) - place)
            try:
                async with asyncio.timeout(left_s):
                    _, egress = await loop.create_connection(  # type: ignore[type-var]
                        make,
                        address,
                        self._target.port,
                        ssl=tls,
                        server_hostname=self._target.host if tls is not None else None,
                    )
                return egress
            except OSError as error:  # a TimeoutError as well
                error.__traceback__ = None
                failure = error
        raise failure

    def look_again(self) -> None:
        """Ask in the background whether the addresses are still the same."""
        self.due_ns = sys.maxsize
        self._begin_to_look()

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _addresses(self, timeout_s: float) -> tuple[str, ...]:
        if not self._is_name or time.monotonic() - self._known_at < FRESH_S:
            return self._known
        looking = self._begin_to_look()
        await asyncio.wait([looking], timeout=min(timeout_s, LOOK_UP_S) if self._known else timeout_s)
        # An old answer is better than none.
        if not self._known and looking.done() and not looking.cancelled():
            looking.result()
        return self._known

    def _begin_to_look(self) -> asyncio.Task[None]:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())
            self._looking.add_done_callback(self._note)
        return self._looking

    async def _look(self) -> None:
        found = tuple(dict.fromkeys(await self.resolve(self._target.host, self._target.port)))
        if not found:
            return
        gone = [address for address in self._known if address not in found]
        self._known, self._known_at = found, time.monotonic()
        if gone:
            log.info("worker moved", host=self._target.host, gone=gone, now=list(found))
            self._on_gone()

    def _note(self, looked: asyncio.Task[None]) -> None:
        self.due_ns = time.monotonic_ns() + int(LOOK_AGAIN_S * 1e9)
        if not looked.cancelled() and looked.exception() is not None:
            log.warn("worker name not resolved", host=self._target.host, problem=str(looked.exception()))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]
