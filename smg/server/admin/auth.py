"""Who may use the admin routes: holders of control-plane keys or tokens where there are such, else of the
shared key."""

from __future__ import annotations

from collections.abc import Iterable

from smg import errors
from smg.admission.identity import REALM, Identity, Keys, bearer_key
from smg.config.specs import ControlPlaneKey
from smg.server.admin.caller import ADMIN, ANYBODY, SHARED, Caller
from smg.server.admin.tokens import Tokens, looks_like_token
from smg.server.admin.verify import TokenError
from smg.telemetry import logs

log = logs.get(__name__)


class AdminGuard:
    """With tenant keys only, nobody may; with no key at all, everybody."""

    def __init__(
        self,
        identity: Identity,
        control_keys: Iterable[ControlPlaneKey] = (),
        tokens: Tokens | None = None,
    ) -> None:
        self._identity = identity
        self._callers = Keys((key.key, Caller("key", key.id, key.role, key.name)) for key in control_keys)
        self._tokens = tokens

    async def check(self, authorization: bytes | None) -> None:
        """Raises 401 or 403 unless the first `Authorization` header opens the admin routes."""
        require_admin(await self.identify(authorization))

    async def opens(self, authorization: bytes | None) -> bool:
        """Does it open the admin routes?"""
        try:
            await self.check(authorization)
        except errors.GatewayError:
            return False
        return True

    async def identify(self, authorization: bytes | None) -> Caller:
        """Whose credential it is, whatever its role. Raises 401."""
        if self._tokens is None and not len(self._callers):
            return self._identify_shared(authorization)
        key = bearer_key(authorization)
        if key is None:
            raise errors.control_plane_unauthorized(wrong_key=False)
        if self._tokens is not None and looks_like_token(key):
            try:
                return await self._tokens.identify(key)
            except TokenError as refusal:
                log.warn("token refused on an admin route", reason=str(refusal))
                raise errors.control_plane_unauthorized(wrong_key=True) from None
        caller = self._callers.find(key)
        if not isinstance(caller, Caller):
            raise errors.control_plane_unauthorized(wrong_key=True)
        return caller

    def is_control_key(self, key: bytes) -> bool:
        """Is it a credential for admin routes, which no provider may see?"""
        is_token = self._tokens is not None and looks_like_token(key)
        return is_token or self._callers.find(key) is not None

    def _identify_shared(self, authorization: bytes | None) -> Caller:
        if self._identity.is_open:
            return ANYBODY
        key = bearer_key(authorization)
        if key is None or not self._identity.is_shared_key(key):
            raise errors.unauthorized(REALM, wrong_key=key is not None)
        return SHARED


def require_admin(caller: Caller) -> None:
    """Raises 403 for another role."""
    if caller.role != ADMIN:
        raise errors.admin_role_required()
