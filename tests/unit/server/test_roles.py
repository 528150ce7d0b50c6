"""What the role claims of a token mean."""

from __future__ import annotations

from typing import Any

import pytest

from smg.config.admin import RoleMapping
from smg.server.admin.jwks import IssuerKeys
from smg.server.admin.tokens import Tokens, looks_like_token

NO_KEYS: IssuerKeys = None  # type: ignore[assignment]


def role(claims: dict[str, Any], *mapping: str) -> str:
    roles = [RoleMapping.parse(one) for one in mapping]
    return Tokens("iss", "aud", NO_KEYS, roles).role_of(claims)


@pytest.mark.parametrize("name", ["roles", "role", "groups", "group"])
@pytest.mark.parametrize("value", ["admin", ["admin"], ["other", "admin"], "Admin"])
def test_each_claim_as_text_or_list(name: str, value: object) -> None:
    assert role({name: value}) == "admin"


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"roles": []},
        {"roles": ["user"]},
        {"roles": ["user", "admin"]},
        {"roles": ["other"], "groups": ["admin"]},
        {"roles": [], "role": "admin"},
        {"roles": "user admin"},
        {"roles": "x,admin"},
        {"roles": 5},
        {"roles": {"admin": True}},
        {"roles": [["admin"], 7, None]},
        {"realm_access": {"roles": ["admin"]}},
    ],
)
def test_everything_else_is_a_user(claims: dict[str, Any]) -> None:
    assert role(claims) == "user"


def test_an_absent_claim_gives_way_to_the_next() -> None:
    assert role({"roles": None, "group": "admin"}) == "admin"


def test_a_mapping_replaces_the_plain_names() -> None:
    mapping = ("Gateway.Admin=admin", "Gateway.User=user")
    assert role({"roles": ["Gateway.Admin"]}, *mapping) == "admin"
    assert role({"roles": ["Gateway.User"]}, *mapping) == "user"
    assert role({"roles": ["admin"]}, *mapping) == "user"
    assert role({"roles": ["gateway.admin"]}, *mapping) == "user"


def test_a_mapped_name_may_have_an_equals_sign() -> None:
    assert role({"groups": ["cn=ops,dc=x"]}, "cn=ops,dc=x=admin") == "admin"


@pytest.mark.parametrize("text", ["x", "=admin", "x=root", "x=", "x=Admin"])
def test_wrong_mappings(text: str) -> None:
    with pytest.raises(ValueError, match="their_role=admin"):
        RoleMapping.parse(text)


def test_two_dots_make_a_token() -> None:
    assert looks_like_token(b"a.b.c")
    assert not looks_like_token(b"a.b") and not looks_like_token(b"a.b.c.d")
