"""Which request ID is used, and what a generated one looks like."""

import re

import pytest

from smg.api.request_id import RequestIds, generate, is_valid


@pytest.mark.parametrize(
    ("headers", "chosen"),
    [
        ({b"x-request-id": b"a", b"x-correlation-id": b"b"}, "a"),
        ({b"x-correlation-id": b"b", b"x-trace-id": b"c"}, "b"),
        ({b"request-id": b"d"}, "d"),
        ({b"x-request-id": b"", b"x-trace-id": b"c"}, "c"),
        ({b"x-request-id": b"!" * 128}, "!" * 128),
    ],
)
def test_first_header_counts(headers: dict[bytes, bytes], chosen: str) -> None:
    assert RequestIds().choose(headers.get, "/x") == chosen


@pytest.mark.parametrize("bad", [b"a b", b"a" * 129, "ä".encode(), b"a\x7f", b"a\t"])
def test_invalid_header_is_replaced_and_ends_the_search(bad: bytes) -> None:
    headers = {b"x-request-id": bad, b"x-trace-id": b"c"}
    assert RequestIds().choose(headers.get, "/x").startswith("req-")
    assert not is_valid(bad)


def test_configured_headers_replace_the_usual_ones() -> None:
    ids = RequestIds(["My-Id", "other"])
    assert ids.choose({b"my-id": b"1", b"other": b"2"}.get, "/x") == "1"
    assert ids.choose({b"x-request-id": b"1"}.get, "/x") != "1"


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/v1/chat/completions", "chatcmpl-"),
        ("/v1/completions", "cmpl-"),
        ("/generate", "gnt-"),
        ("/v1/responses", "resp-"),
        ("/v1/messages", "msg_"),
        ("/v1/embeddings", "req-"),
    ],
)
def test_prefix_of_the_route(path: str, prefix: str) -> None:
    assert re.fullmatch(prefix + "[A-Za-z0-9]{24}", RequestIds().choose({}.get, path))


def test_generated_ids_are_valid_and_differ() -> None:
    made = {generate("x-") for _ in range(1000)}
    assert len(made) == 1000
    assert all(is_valid(one.encode()) for one in made)
