"""Names of workers: every address is tried, and what a name no longer stands for is left."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from smg.backends import dial
from smg.backends.dial import Dialer
from smg.config.specs import WorkerUrl
from tests.waiting import turns


class Names:
    """A resolver that answers as a test says."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: Sequence[str] = addresses
        self.problem: OSError | None = None
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        assert host == "engine.example"
        self.asked += 1
        await self.may_answer.wait()
        if self.problem is not None:
            raise self.problem
        return self.addresses


class Server:
    """Listens on one loopback address and notes who came."""

    def __init__(self) -> None:
        self.port = 0
        self.came = 0
        self._servers: list[asyncio.Server] = []

    async def listen(self, address: str) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._make, address, self.port)
        self.port = server.sockets[0].getsockname()[1]
        self._servers.append(server)

    def _make(self) -> asyncio.Protocol:
        self.came += 1
        return asyncio.Protocol()

    def close(self) -> None:
        for server in self._servers:
            server.close()


class Peer(asyncio.Protocol):
    def __init__(self) -> None:
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.address = transport.get_extra_info("peername")[0]
        transport.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    await server.listen("127.0.0.2")
    yield server
    server.close()


def dialer(server: Server, names: Names, gone: list[None] | None = None) -> Dialer:
    target = WorkerUrl.parse(f"http://engine.example:{server.port}")
    return Dialer(target, lambda: (gone if gone is not None else []).append(None), names)


async def reach(one: Dialer, timeout_s: float = 20) -> str:
    """The address that a connection came to."""
    peer = await one.open(Peer, None, timeout_s)  # type: ignore[arg-type]
    assert isinstance(peer, Peer)
    return peer.address


async def looked(one: Dialer) -> None:
    assert one._looking is not None
    await asyncio.wait([one._looking])


async def test_the_next_address_is_tried_when_one_refuses(server: Server) -> None:
    assert await reach(dialer(server, Names("127.0.0.3", "127.0.0.2"))) == "127.0.0.2"


async def test_all_refuse(server: Server) -> None:
    with pytest.raises(OSError, match=r"refused|111"):
        await reach(dialer(server, Names("127.0.0.3", "127.0.0.4")))


async def test_an_address_that_does_not_answer_leaves_time_for_the_others(server: Server) -> None:
    """A listener whose queue is full says nothing to who connects."""
    deaf = socket.socket()
    deaf.bind(("127.0.0.5", server.port))
    deaf.listen(0)
    fillers = []
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(("127.0.0.5", server.port))
        fillers.append(filler)
    try:
        assert await reach(dialer(server, Names("127.0.0.5", "127.0.0.2")), timeout_s=1) == "127.0.0.2"
    finally:
        for one in (deaf, *fillers):
            one.close()


@pytest.mark.parametrize("addresses", [(), ("127.0.0.2",)], ids=["nothing", "an old answer"])
async def test_names_that_are_not_resolved(server: Server, addresses: tuple[str, ...]) -> None:
    names = Names(*addresses)
    one = dialer(server, names)
    if addresses:
        assert await reach(one) == "127.0.0.2"
        one._known_at -= 10
    names.problem = socket.gaierror(-2, "Name or service not known")
    if addresses:
        assert await reach(one) == "127.0.0.2"
    else:
        with pytest.raises(socket.gaierror):
            await reach(one)
    names.problem, names.addresses = None, ("127.0.0.2",)
    assert await reach(one) == "127.0.0.2"


async def test_a_name_without_addresses(server: Server) -> None:
    with pytest.raises(OSError, match="no address"):
        await reach(dialer(server, Names()))


async def test_one_answer_serves_who_comes_together(server: Server) -> None:
    names = Names("127.0.0.2")
    one = dialer(server, names)
    names.may_answer.clear()
    coming = [asyncio.create_task(reach(one)) for _ in range(20)]
    await turns()
    names.may_answer.set()
    assert await asyncio.gather(*coming) == ["127.0.0.2"] * 20
    assert names.asked == 1


async def test_a_later_connection_asks_anew(server: Server) -> None:
    names, gone = Names("127.0.0.2"), list[None]()
    one = dialer(server, names, gone)
    await reach(one)
    await server.listen("127.0.0.6")
    names.addresses = ("127.0.0.6",)
    one._known_at -= dial.FRESH_S
    assert await reach(one) == "127.0.0.6"
    assert (names.asked, len(gone)) == (2, 1)


async def test_looking_again_finds_what_is_gone(server: Server) -> None:
    names, gone = Names("127.0.0.2"), list[None]()
    one = dialer(server, names, gone)
    await reach(one)
    assert one.due_ns < 1 << 62
    for addresses, left in (
        (("127.0.0.2",), 0),
        (("127.0.0.2", "127.0.0.6"), 0),
        (("127.0.0.6",), 1),
        ((), 1),
        (("127.0.0.7",), 2),
    ):
        names.addresses = addresses
        one.look_again()
        one.look_again()
        await looked(one)
        assert len(gone) == left
    assert names.asked == 6


async def test_an_address_is_no_name(server: Server) -> None:
    names = Names()
    for host in ("127.0.0.2", "[::1]"):
        one = Dialer(WorkerUrl.parse(f"http://{host}:{server.port}"), lambda: None, names)
        if host == "127.0.0.2":
            assert await reach(one) == host
        assert one.due_ns > 1 << 62
    assert names.asked == 0


async def test_who_is_closed_looks_no_more(server: Server) -> None:
    names = Names("127.0.0.2")
    names.may_answer.clear()
    one = dialer(server, names)
    one.look_again()
    await turns()
    one.close()
    await looked(one)
    assert one._looking is not None
    assert one._looking.cancelled()
