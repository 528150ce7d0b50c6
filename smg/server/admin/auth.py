"""Who may use the admin routes: control-plane keys when there are any, else the shared key."""

from __future__ import annotations

from collections.abc import Iterable

from smg import errors
from smg.admission.identity import REALM, Identity, Keys, bearer_key
from smg.config.specs import ControlPlaneKey

ADMIN = "admin"


class AdminGuard:
    """With tenant keys only, nobody may; with no key at all, everybody."""

    def __init__(self, identity: Identity, control_keys: Iterable[ControlPlaneKey] = ()) -> None:
        self._identity = identity
        self._roles = Keys((key.key, key.role) for key in control_keys)

    def check(self, authorization: bytes | None) -> None:
        """Raises 401 or 403 unless the first `Authorization` header opens the admin routes."""
        if not len(self._roles):
            self._check_shared(authorization)
            return
        key = bearer_key(authorization)
        if key is None:
            raise errors.control_plane_unauthorized(wrong_key=False)
        role = self._roles.find(key)
        if role is None:
            raise errors.control_plane_unauthorized(wrong_key=True)
        if role != ADMIN:
            raise errors.admin_role_required()

    def is_control_key(self, key: bytes) -> bool:
        return self._roles.find(key) is not None

    def _check_shared(self, authorization: bytes | None) -> None:
        if self._identity.is_open:
            return
        key = bearer_key(authorization)
        if key is None or not self._identity.is_shared_key(key):
            raise errors.unauthorized(REALM, wrong_key=key is not None)
