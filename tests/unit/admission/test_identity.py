"""Keys, schemes and blanks of the data plane's authentication."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.admission.identity import Identity, bearer_key
from smg.errors import GatewayError, Shape, render

TENANTS = (("red", "red-key"), ("red", "red-key-2"), ("blue", "blau-schlüssel"))


def refusal(identity: Identity, header: bytes | None) -> str:
    with pytest.raises(GatewayError) as caught:
        identity.identify(header)
    assert (caught.value.status, caught.value.shape) == (401, Shape.EMPTY)
    assert render(caught.value)[1] == b""
    return dict(caught.value.headers)["WWW-Authenticate"]


def test_open_without_keys() -> None:
    identity = Identity(None)
    assert identity.is_open
    assert identity.identify(b"Bearer anything").name == "anonymous"
    assert identity.identify(None).key is None


@pytest.mark.parametrize(
    "header",
    [b"Bearer sk", b"bearer sk", b"BEARER   sk  ", b"Bearer\tsk", b"  Bearer sk\t"],
)
def test_shared_key(header: bytes) -> None:
    identity = Identity("sk", TENANTS)
    assert identity.identify(header).name == "shared"
    assert identity.identify(header) is identity.identify(b"Bearer sk")


def test_tenants() -> None:
    identity = Identity(None, TENANTS)
    red = identity.identify(b"Bearer red-key")
    assert (red.name, red.key) == ("red", "auth:red")
    assert identity.identify(b"Bearer red-key-2") is red
    assert identity.identify("Bearer blau-schlüssel".encode()).name == "blue"


@pytest.mark.parametrize(
    "header", [None, b"", b"Basic sk", b"sk", b"Bearer", b"Bearer ", b"Bearersk", b"Bearer \t "]
)
def test_missing_key(header: bytes | None) -> None:
    assert refusal(Identity("sk"), header) == 'Bearer realm="data-plane"'


@pytest.mark.parametrize(
    "key", [b"skk", b"s", b"red", b"red:red-key", b"\xff\xfe", b"SK", b"sk sk", b"k" * 65536]
)
def test_wrong_key(key: bytes) -> None:
    refused = refusal(Identity("sk", TENANTS), b"Bearer " + key)
    assert refused == 'Bearer realm="data-plane", error="invalid_token"'


def test_kinds_of_keys() -> None:
    identity = Identity("sk", TENANTS)
    assert identity.is_gateway_key(b"sk")
    assert identity.is_gateway_key(b"red-key")
    assert not identity.is_gateway_key(b"own")
    assert identity.is_shared_key(b"sk")
    assert not identity.is_shared_key(b"red-key")
    assert not Identity(None, TENANTS).is_shared_key(b"sk")
    assert not Identity(None).is_gateway_key(b"")


def test_keys_are_not_kept() -> None:
    identity = Identity("very-secret", [("red", "also-secret")])
    assert "secret" not in repr(vars(type(identity))) + repr(identity.identify(b"Bearer very-secret"))


@given(st.binary(max_size=40))
def test_any_header_is_an_answer(header: bytes) -> None:
    key = bearer_key(header)
    if key is None:
        assert "error" not in refusal(Identity("sk"), header)
    elif key != b"sk":
        assert "error" in refusal(Identity("sk"), header)
