"""The section AdminAccess: tokens (JWT) on admin routes and the audit log. Keys are in the section Auth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from smg.config.fields import Option
from smg.config.specs import ControlPlaneKey

ADMIN = "Admin access"


@dataclass(frozen=True, slots=True)
class RoleMapping:
    """`issuer_role=admin` or `=user`: what a role of an identity provider means here."""

    theirs: str
    ours: str

    @classmethod
    def parse(cls, text: str) -> RoleMapping:
        theirs, _, ours = text.rpartition("=")
        if not theirs.strip() or ours.strip() not in ControlPlaneKey.ROLES:
            raise ValueError("a role is mapped as their_role=admin or their_role=user")
        return cls(theirs.strip(), ours.strip())

    def __str__(self) -> str:
        return f"{self.theirs}={self.ours}"


class AdminAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use the admin routes besides the holders of keys, and what is written down about it."""

    jwt_issuer: Annotated[
        str | None,
        Option(
            group=ADMIN,
            metavar="URL",
            help="Accept tokens (JWT) of this issuer on admin routes; their iss has to be equal to it. Goes "
            "together with --jwt-audience.",
        ),
    ] = None
    jwt_audience: Annotated[
        str | None,
        Option(group=ADMIN, metavar="TEXT", help="The aud that tokens of --jwt-issuer have to carry."),
    ] = None
    jwt_jwks_uri: Annotated[
        str | None,
        Option(
            group=ADMIN,
            metavar="URL",
            help="Where the issuer's public keys are. Unset: the issuer's /.well-known/openid-configuration "
            "says it.",
        ),
    ] = None
    jwt_role_mapping: Annotated[
        tuple[RoleMapping, ...],
        Option(
            group=ADMIN,
            metavar="THEIRS=OURS",
            parse=RoleMapping.parse,
            help="What roles of the issuer mean here. Unset: admin and user mean themselves.",
        ),
    ] = ()
    control_plane_audit_enabled: Annotated[
        bool,
        Option(
            group=ADMIN,
            help="Log who changed something through an admin route, and who was refused there, whatever "
            "--log-level is.",
        ),
    ] = False
