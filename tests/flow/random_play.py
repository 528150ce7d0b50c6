"""Clients, workers and clocks that do what chance says; afterwards nothing may be left of any exchange.

`python -m tests.flow.random_play SEED ROUNDS` fails with the round's number, which a debugger can go to.
"""

from __future__ import annotations

import contextlib
import gc
import json
import random
import sys
from typing import Any

from smg._fast.exchange import Exchange
from smg.admission.budgets import LocalBudgets
from smg.admission.limits import Limits
from smg.admission.priority import Scheduler
from smg.admission.tenants import Tenants
from smg.config.admission import CLASSES
from smg.config.model import DATA_PATHS
from smg.config.side_files import Classes, ClassOptions, DefaultScope, SchedulerFile, TenantsFile
from tests.fast.transports import FakeTransport
from tests.flow.conversation import SSE, ClientEnd, Flow, chat, request
from tests.flow.pairs import PairFlow

SAID = (
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    b'HTTP/1.1 200 OK\r\ncontent-length: 53\r\n\r\n{"meta_info":{"input_token_logprobs":[[0.10,1]]},"a":1}',
    b"HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\n{}",
    b"HTTP/1.1 400 No\r\ncontent-length: 2\r\n\r\n{}",
    b"HTTP/1.1 500 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab",
    b"junk\r\n\r\n",
    SSE,
    SSE + b"7\r\ndata: 1\r\n",
    SSE + b"9\r\ndata: 1\n\n\r\n0\r\n\r\n",
    b"9\r\ndata: 1\n\n\r\n",
    b'13\r\ndata: {"usage":{"pro\r\n',
    b"14000\r\n" + b"d" * 0x14000 + b"\r\n",
    b"0\r\n\r\n",
    b"zz\r\n",
    b"x" * 70_000,
)
CONNECTORS = (None, "NixlConnector", "MooncakeConnector")


class Game:
    """One flow, of pairs or of whole workers, and everybody in it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.clients: list[ClientEnd] = []
        one = ClassOptions(
            reserved_floor=1,
            queue_size=3,
            queue_timeout_secs=30,
            starvation_threshold_secs=20,
            can_preempt=True,
        )
        file = SchedulerFile(classes=Classes(system=one, interactive=one, default=one, bulk=one))
        plenty = DefaultScope(tokens_per_minute=10**6, requests_per_minute=10**6)
        capacity = chance.choice((2, 4, 8))
        options: dict[str, Any] = {
            "permits": lambda loop: Scheduler(file, "system", 9, capacity, loop),
            "attempts": 3,
            "keepalive_s": chance.choice((0.0, 1e-9)),
            "data_path": chance.choice(DATA_PATHS),
        }
        if chance.random() < 0.5:
            budgets = LocalBudgets(clock=lambda: 0.0)
            options["tenants"] = Tenants(Limits(TenantsFile(default_policy=plenty)), budgets)
        self.flow = self._pairs(options) if chance.random() < 0.7 else Flow(2, pipe_above=1000, **options)

    def _pairs(self, options: dict[str, Any]) -> Flow:
        chance = self.chance
        options["runtime"] = chance.choice(("sglang", "vllm"))
        options["connector"] = chance.choice(CONNECTORS) if options["runtime"] == "vllm" else None
        return PairFlow(2, 2, limit=chance.choice((None, 1, 2)), queue=chance.choice((0, 2)), **options)

    @property
    def connections(self) -> list[FakeTransport]:
        return [one for end in self.flow.ends for one in end.connections if not one.is_lost]

    def step(self) -> None:
        moves = {
            self._come: 30,
            self._leave: 8,
            self._take: 7,
            self._say: 38,
            self._end: 5,
            self._interrupt: 4,
            self._wait: 6,
            self._change: 2,
        }
        self.chance.choices(list(moves), list(moves.values()))[0]()
        self._settle()

    def _settle(self) -> None:
        for one in [*self.connections, *(client.transport for client in self.clients)]:
            if one.is_closing and not one.is_lost:
                self.flow.act(one.settle)

    # ---- what may happen

    def _request(self) -> bytes:
        chance = self.chance
        lines = [b"x-smg-priority: " + chance.choice(CLASSES).encode()]
        if chance.random() < 0.1:
            lines.append(b"connection: close")
        if chance.random() < 0.25:
            asked = {"text": "x", "stream": chance.random() < 0.5, "return_logprob": chance.random() < 0.7}
            return request(json.dumps(asked).encode(), *lines, path=b"/generate")
        model = "none" if chance.random() < 0.05 else "m"
        text = "x" * chance.choice((1, 100, 90_000))
        return chat(*lines, stream=chance.random() < 0.6, model=model, text=text)

    def _come(self) -> None:
        chance = self.chance
        client = self.flow.client(full_above=chance.choice((None, None, 0, 500)))
        self.clients.append(client)
        data = b"".join(self._request() for _ in range(chance.choice((1, 1, 1, 3))))
        cut = chance.randrange(len(data)) if chance.random() < 0.3 else len(data)
        client.sends(*filter(None, (data[:cut], data[cut:] if chance.random() < 0.8 else b"")))

    def _leave(self) -> None:
        if self.clients:
            client = self.chance.choice(self.clients)
            self.chance.choice((client.leaves, client.ends))()

    def _take(self) -> None:
        if self.clients and not (client := self.chance.choice(self.clients)).transport.is_lost:
            self.flow.act(client.transport.drain)

    def _say(self) -> None:
        if connections := self.connections:
            connection, said = self.chance.choice(connections), self.chance.choice(SAID)
            self.flow.act(lambda: connection.deliver(said))

    def _end(self) -> None:
        if connections := self.connections:
            connection = self.chance.choice(connections)
            self.flow.act(self.chance.choice((connection.reset, connection.end)))

    def _interrupt(self) -> None:
        current = getattr(self.flow, "current", None)
        if current is not None and not current.started:
            self.flow.act(current.interrupt)

    def _wait(self) -> None:
        if self.chance.random() < 0.6:
            self.flow.pass_time(self.chance.choice((1, 25, 40, 70)))
        else:
            self._expire(self.chance.choice(("request", "first_byte", "body_stall", "idle")))

    def _change(self) -> None:
        if self.chance.random() < 0.5:
            end = self.chance.choice(self.flow.ends)
            end.connects = self.chance.choice(("at once", "refused", "at once"))
        else:
            scheduler: Any = self.flow.permits
            capacity = self.chance.randrange(1, 9)
            self.flow.act(lambda: scheduler.set_capacity(capacity))

    def _expire(self, name: str) -> None:
        with contextlib.suppress(AssertionError):  # nothing waits in it
            self.flow.expire(name)

    # ---- the end

    def finish(self) -> None:
        flow = self.flow
        for client in self.clients:
            if not client.transport.is_lost:
                client.leaves()
        flow.pass_time(1000)
        self._expire("request")  # a side whose client has its answer already
        flow.pass_time(1000)
        self._settle()
        assert not flow.loop.failures, flow.loop.failures
        assert [end.worker.load for end in flow.ends] == [0] * len(flow.ends)
        scheduler: Any = flow.permits
        assert scheduler.in_flight == 0 and not any(scheduler.used) and not any(scheduler._silent)
        assert not scheduler._waiting and not any(map(len, scheduler.lines))
        assert flow.begun == len(flow.recorded)
        tenants = flow.tenants
        assert tenants is None or tenants.allowed >= tenants.refunded
        assert not flow.front.open
        names = ("request", "body_stall", "idle", "look")
        waited = {name: getattr(flow.limits, name).armed for name in names}
        assert not any(waited.values()), waited
        flow.close()


def play(seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    known = 0
    for number in range(rounds):
        game = Game(chance)
        try:
            for _ in range(chance.randrange(3, 40)):
                game.step()
            game.finish()
        except BaseException:
            print(f"seed {seed}, round {number}", file=sys.stderr)
            raise
        del game
        if number == rounds // 2:
            known = _exchanges()
    assert _exchanges() <= known + 60, "exchanges are left"


def _exchanges() -> int:
    gc.collect()
    gc.collect()
    return sum(type(one) is Exchange for one in gc.get_objects())


if __name__ == "__main__":
    play(int(sys.argv[1]), int(sys.argv[2]))
