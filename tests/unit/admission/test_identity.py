"""Keys, schemes and blanks of the data plane's authentication."""

import hashlib

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
    assert identity.identify(None).key == "anonymous"


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


def named(identity: Identity, value: bytes | None, address: str | None = None) -> str:
    return identity.stranger(lambda name: value if name == b"x-org" else None, lambda: address).key


def test_strangers_are_told_apart_by_a_trusted_header_then_by_their_address() -> None:
    identity = Identity(None, header="X-Org")
    assert identity.tells_strangers_apart
    assert named(identity, b"red", "10.0.0.1") == "header:red"
    assert named(identity, b"  a b ", "10.0.0.1") == "header:a b"
    assert named(identity, None, "10.0.0.1") == "ip:10.0.0.1"
    assert named(identity, b"", "10.0.0.1") == "ip:10.0.0.1"
    assert named(identity, b" ", None) == "anonymous"
    assert named(identity, "rüd".encode(), "10.0.0.1") == "ip:10.0.0.1"
    assert named(Identity(None), b"red", "10.0.0.1") == "ip:10.0.0.1"


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("::1", "ip:::1"),
        ("::ffff:10.1.2.3", "ip:10.1.2.3"),
        ("fe80::1%eth0", "ip:fe80::1"),
        ("10.0.0.1", "ip:10.0.0.1"),
    ],
)
def test_addresses_have_one_spelling(address: str, key: str) -> None:
    assert named(Identity(None), None, address) == key


def test_a_long_tenant_header_is_refused() -> None:
    identity = Identity(None, header="x-org")
    assert named(identity, b"q" * 200) == "header:" + "q" * 200
    with pytest.raises(GatewayError) as caught:
        named(identity, b"q" * 201)
    assert (caught.value.status, caught.value.code) == (400, "invalid_tenant_header")


def test_the_shared_key_is_no_tenants_name() -> None:
    identity = Identity("sk", [("shared", "other")])
    assert identity.identify(b"Bearer other").key == "auth:shared"
    assert identity.identify(b"Bearer sk").key == "auth:" + hashlib.sha256(b"sk").hexdigest()


def test_metrics_do_not_show_a_digest_of_the_shared_key() -> None:
    identity = Identity("sk", [("red", "red-key")])
    shared = identity.identify(b"Bearer sk")
    assert shared.label == "auth" and shared.key != shared.label
    red = identity.identify(b"Bearer red-key")
    assert red.label == red.key == "auth:red"
