"""The audit log: one line for each admin request that changed something or was refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from smg import errors
from smg.server.admin.auth import AdminGuard, require_admin
from smg.server.admin.caller import NOBODY, Caller
from smg.telemetry import logs

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LEFT = 499
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSALS = (401, 403)
_PATH_CHARACTERS = 1024


class Audit:
    """`request_id` finds the ID that the answer will carry."""

    def __init__(self, guard: AdminGuard, request_id: Callable[[web.Request], str]) -> None:
        self._guard = guard
        self._request_id = request_id
        self._log = logs.get_unfiltered("audit")

    async def follow(
        self, request: web.Request, authorization: bytes | None, handler: Handler
    ) -> web.StreamResponse:
        """Answer a request to a guarded route, and write down who made it and what came of it."""
        caller, status = NOBODY, LEFT
        try:
            caller = await self._guard.identify(authorization)
            require_admin(caller)
            answer = await handler(request)
            status = answer.status
            return answer
        except errors.GatewayError as error:
            status = error.status
            raise
        except Exception:
            status = 500
            raise
        finally:
            if request.method not in _READING or status in _REFUSALS:
                self._write(request, caller, status)

    def _write(self, request: web.Request, caller: Caller, status: int) -> None:
        self._log.info(
            "admin request",
            principal=caller.id,
            name=caller.name,
            auth_method=caller.method,
            role=caller.role,
            method=request.method,
            path=request.path[:_PATH_CHARACTERS],
            status=status,
            request_id=self._request_id(request),
        )
