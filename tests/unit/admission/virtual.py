"""A loop whose clock moves when told, and requests that ask for permits on it."""

from __future__ import annotations

import asyncio
from typing import Any

from smg.admission.identity import Tenant
from smg.admission.permits import Permit, Permits
from smg.errors import GatewayError
from tests.flow.conversation import FlowLoop


class Headers:
    def __init__(self, fields: dict[bytes, bytes]) -> None:
        self._fields = fields

    def get(self, name: bytes, /) -> bytes | None:
        return self._fields.get(name)


class Request:
    """`state`: new, waiting, running, done, preempted, left, or the code of the error it got."""

    def __init__(self, number: int, priority: bytes | None = None, tenant: str = "anonymous") -> None:
        self.number = number
        self.head = Headers({b"x-smg-priority": priority} if priority is not None else {})
        self.tenant = Tenant(tenant, tenant)
        self.started = False
        self.state = "new"
        self.permit: Permit | None = None
        self.task: asyncio.Task[None] | None = None
        self.error: GatewayError | None = None

    def interrupt(self) -> None:
        assert self.state == "running" and not self.started
        self.state = "preempted"

    def __repr__(self) -> str:
        return f"{self.number}:{self.state}"


class Stage:
    """Requests come, end and leave; the loop runs until nothing is left to do after each step."""

    def __init__(self) -> None:
        self.loop = FlowLoop()

    def comes(self, permits: Permits, request: Request) -> Request:
        async def run() -> None:
            try:
                request.permit = permits.take(request)
                if request.permit is None:
                    request.state = "waiting"
                    request.permit = await permits.wait(request)
                request.state = "running"
            except GatewayError as error:
                request.error = error
                request.state = str(error.code)
            except asyncio.CancelledError:
                request.state = "left"

        async def begin() -> Any:
            request.task = asyncio.get_running_loop().create_task(run())

        self.loop.call(lambda: self.loop.create_task(begin()))
        return request

    def ends(self, request: Request) -> None:
        """A running or displaced request gives its permit back."""
        permit, request.permit = request.permit, None
        assert permit is not None
        if request.state == "running":
            request.state = "done"
        self.loop.call(permit.release)

    def leaves(self, request: Request) -> None:
        """The client of a waiting request goes away."""
        assert request.task is not None
        self.loop.call(request.task.cancel)

    def pass_time(self, seconds: float) -> None:
        self.loop.now += seconds
        self.loop.settle()

    def close(self, permits: Permits) -> None:
        assert permits.in_flight == 0 and permits.snapshot()["waiting"] == 0
        assert not asyncio.all_tasks(self.loop)
        assert not self.loop.failures
        left = [handle for handle in self.loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        assert not left, left

    def shut(self) -> None:
        """Whatever still waits is given up."""
        for task in asyncio.all_tasks(self.loop):
            self.loop.call(task.cancel)
        self.loop.close()
