import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.config.specs import (
    ContextHeader,
    ControlPlaneKey,
    ModelAlias,
    PrefillUrl,
    TenantKey,
    WorkerUrl,
    resolve_aliases,
)


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "path", "base"),
    [
        ("http://a", "http", "a", 80, "", "http://a"),
        ("http://a/", "http", "a", 80, "", "http://a"),
        ("http://a:80", "http", "a", 80, "", "http://a"),
        ("http://a:", "http", "a", 80, "", "http://a"),
        ("https://a", "https", "a", 443, "", "https://a"),
        ("https://a:80", "https", "a", 80, "", "https://a:80"),
        (
            "http://Engine-1.Example:8000",
            "http",
            "engine-1.example",
            8000,
            "",
            "http://engine-1.example:8000",
        ),
        ("http://10.0.0.1:8000/", "http", "10.0.0.1", 8000, "", "http://10.0.0.1:8000"),
        ("http://[::1]:8000", "http", "::1", 8000, "", "http://[::1]:8000"),
        ("https://[2001:DB8:0::1]", "https", "2001:db8::1", 443, "", "https://[2001:db8::1]"),
        ("http://a:1/x/y/", "http", "a", 1, "/x/y", "http://a:1/x/y"),
        ("http://a/%7Ex", "http", "a", 80, "/%7Ex", "http://a/%7Ex"),
        ("http://under_score:1", "http", "under_score", 1, "", "http://under_score:1"),
    ],
)
def test_worker_url(text: str, scheme: str, host: str, port: int, path: str, base: str) -> None:
    url = WorkerUrl.parse(text)
    assert (url.scheme, url.host, url.port, url.path) == (scheme, host, port, path)
    assert url.base == str(url) == base
    assert WorkerUrl.parse(base) == url
    assert url.tls == (scheme == "https")


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("", "begins with http://"),
        ("a:8000", "begins with http://"),
        ("HTTP://a", "lower case"),
        ("Https://a", "lower case"),
        ("ftp://a", "begins with http://"),
        ("grpc://a:1", "gRPC workers are not built yet"),
        ("grpcs://a:1", "gRPC workers are not built yet"),
        ("ipc:///x", "ZMQ workers are not built yet"),
        ("http://", "names no host"),
        ("http://:80", "names no host"),
        ("http://a:0", "not a port"),
        ("http://a:65536", "not a port"),
        ("http://a:-1", "not a port"),
        ("http://a:8²", "not a port"),
        ("http://a b", "not a host name"),
        ("http://-a", "not a host name"),
        ("http://ä", "not a host name"),
        ("http://a\r\nx: y", "not a host name"),
        ("http://1.2.3", "not an IPv4 address"),
        ("http://1.2.3.256", "not an IPv4 address"),
        ("http://::1", "needs brackets"),
        ("http://[::1", "brackets"),
        ("http://[::1]x", "brackets"),
        ("http://[fe80::1%25eth0]", "not an IPv6 address"),
        ("http://[zz]", "not an IPv6 address"),
        ("http://a?x=1", "no query"),
        ("http://a/x#y", "no fragment"),
        ("http://a/x y", "not a path"),
        ("http://a/%zz", "not a path"),
        ("http://a\\b", "not a host name"),
    ],
)
def test_worker_url_refused(text: str, piece: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        WorkerUrl.parse(text)
    assert piece in str(refused.value)


def test_worker_url_with_credentials_is_refused_without_showing_them() -> None:
    with pytest.raises(ValueError, match="no credentials") as refused:
        WorkerUrl.parse("http://user:hunter2@a:1")
    assert "hunter2" not in str(refused.value)


def test_authority_is_a_host_header() -> None:
    assert WorkerUrl.parse("http://[::1]:8000/x").authority == "[::1]:8000"
    assert WorkerUrl.parse("https://a:443").authority == "a"


@given(st.text(max_size=40))
def test_any_accepted_url_round_trips(tail: str) -> None:
    try:
        url = WorkerUrl.parse("http://" + tail)
    except ValueError:
        return
    assert WorkerUrl.parse(str(url)) == url
    assert not any(letter.isspace() for letter in url.base)


def test_model_alias() -> None:
    alias = ModelAlias.parse("al = org/m=2")
    assert alias == ModelAlias("al", "org/m=2")
    assert ModelAlias.parse(str(alias)) == alias


@pytest.mark.parametrize("text", ["", "a", "a=", "=m", " = "])
def test_model_alias_refused(text: str) -> None:
    with pytest.raises(ValueError, match="alias=model"):
        ModelAlias.parse(text)


def test_alias_chains_end_at_the_canonical_model() -> None:
    pairs = [ModelAlias("al2", "al"), ModelAlias("al", "m1"), ModelAlias("al", "m1")]
    assert resolve_aliases(pairs) == (ModelAlias("al2", "m1"), ModelAlias("al", "m1"))


@pytest.mark.parametrize(
    ("pairs", "piece"),
    [
        (["a=a"], "circle: a = a"),
        (["a=b", "b=c", "c=a"], "circle: a = b = c = a"),
        (["x=a", "a=b", "b=a"], "circle: a = b = a"),
        (["a=m1", "a=m2"], "both 'm1' and 'm2'"),
    ],
)
def test_aliases_refused(pairs: list[str], piece: str) -> None:
    with pytest.raises(ValueError, match=piece):
        resolve_aliases(map(ModelAlias.parse, pairs))


def test_a_long_alias_chain_is_followed() -> None:
    pairs = [ModelAlias(f"a{n}", f"a{n + 1}") for n in range(2000)]
    assert resolve_aliases(pairs)[0].model == "a2000"


def test_tenant_key_may_contain_colons() -> None:
    key = TenantKey.parse("team-red:a:b")
    assert (key.tenant, key.key) == ("team-red", "a:b")
    assert TenantKey.parse(str(key)) == key
    assert "a:b" not in repr(key)


@pytest.mark.parametrize("text", ["", "x", ":y", "x:", " : "])
def test_tenant_key_needs_both_parts(text: str) -> None:
    with pytest.raises(ValueError, match="tenant_id:key"):
        TenantKey.parse(text)


def test_control_plane_key_may_contain_colons() -> None:
    key = ControlPlaneKey.parse("k1:Service Account:admin:a:b")
    assert (key.id, key.name, key.role, key.key) == ("k1", "Service Account", "admin", "a:b")
    assert ControlPlaneKey.parse(str(key)) == key
    assert "a:b" not in repr(key)


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("x", "id:name:role:key"),
        ("id:name:admin", "id:name:role:key"),
        ("id:name:admin:", "id:name:role:key"),
        (":name:admin:k", "id:name:role:key"),
        ("id:name:root:hunter2", "admin or user"),
        ("id:name:Admins:hunter2", "admin or user"),
    ],
)
def test_control_plane_key_refused_without_showing_it(text: str, piece: str) -> None:
    with pytest.raises(ValueError, match=piece) as refused:
        ControlPlaneKey.parse(text)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "port", "shown"),
    [
        ("http://a:1 9001", 9001, "http://a:1 9001"),
        ("http://a:1  None", None, "http://a:1 none"),
        ("http://a:1", None, "http://a:1 none"),
        ("http://[::1]:1 0", 0, "http://[::1]:1 0"),
    ],
)
def test_prefill_url(text: str, port: int | None, shown: str) -> None:
    one = PrefillUrl.parse(text)
    assert one.bootstrap_port == port and str(one) == shown
    assert PrefillUrl.parse(str(one)) == one


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("http://a:1 x", "is not a bootstrap port"),
        ("http://a:1 65536", "is not a bootstrap port"),
        ("http://a:1 -1", "is not a bootstrap port"),
        ("http://a:1 5 6", "URL, or URL and its bootstrap port"),
        ("a:1 5", "begins with http://"),
    ],
)
def test_no_prefill_url(text: str, piece: str) -> None:
    with pytest.raises(ValueError, match=piece):
        PrefillUrl.parse(text)


def test_a_context_header() -> None:
    header = ContextHeader.parse("X-Tenant-ID = tenant_id")
    assert header == ContextHeader("x-tenant-id", "tenant_id")
    assert ContextHeader.parse(str(header)) == header


@pytest.mark.parametrize("text", ["", "x-a", "=k", "x-a=", "x a=k", "x:a=k", "Authorization=k", "cookie=k"])
def test_what_is_no_context_header(text: str) -> None:
    with pytest.raises(ValueError, match=r"header|secret"):
        ContextHeader.parse(text)
