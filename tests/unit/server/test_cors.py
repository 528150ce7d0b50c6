"""CORS headers by configured origins."""

from smg.server.cors import Cors


def test_off() -> None:
    assert not Cors(()).is_on
    assert Cors(()).headers("http://a") == ()


def test_listed_origin_is_echoed() -> None:
    cors = Cors(["http://a"])
    headers = dict(cors.headers("http://a"))
    assert headers["Access-Control-Allow-Origin"] == "http://a"
    assert headers["Vary"] == "Origin"
    assert headers["Access-Control-Expose-Headers"] == "x-request-id,traceparent,tracestate"
    assert cors.headers("http://b") == cors.headers(None) == (("Vary", "Origin"),)


def test_any_origin() -> None:
    assert dict(Cors(["*"]).headers("http://a"))["Access-Control-Allow-Origin"] == "*"


def test_preflight() -> None:
    cors = Cors(["http://a"])
    headers = dict(cors.preflight("http://a", "authorization, x-b"))
    assert headers["Access-Control-Allow-Methods"] == "GET,POST,PATCH,DELETE,OPTIONS"
    assert headers["Access-Control-Allow-Headers"] == "authorization, x-b"
    assert headers["Access-Control-Max-Age"] == "3600"
    assert (
        dict(cors.preflight("http://a", "a\r\nb"))["Access-Control-Allow-Headers"]
        == "authorization,content-type"
    )
    assert cors.preflight("http://b", None) == ()
