"""What a discovery file may say: one broken rule refuses it whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smg.workers.discovery.file import MAX_ENTRIES, PAIRED, SnapshotError, read_listing

URL = "http://10.0.0.1:8000"


def listing(*workers: Any, **members: Any) -> bytes:
    return json.dumps({"version": 1, "workers": list(workers), **members}).encode()


def test_every_member() -> None:
    entry = {
        "id": "a",
        "url": "http://10.0.0.1:8000/",
        "worker_type": "prefill",
        "bootstrap_port": 8998,
        "model_id": "renamed",
        "kv_connector": "NixlConnector",
        "kv_role": "kv_producer",
        "kv_engine_id": "e1",
    }
    ((url, spec),) = read_listing(listing(entry), PAIRED).items()
    assert url == spec.url == URL
    assert spec.models is not None and [card.id for card in spec.models] == ["renamed"]
    assert (spec.worker_type, spec.bootstrap_port) == ("prefill", 8998)
    assert (spec.kv_connector, spec.kv_role, spec.kv_engine_id) == ("NixlConnector", "kv_producer", "e1")
    assert spec.labels == {
        "smg.ai/discovery-provider": "file",
        "smg.ai/discovery-id": "a",
        "served_model_name": "renamed",
    }


def test_only_the_url_is_needed() -> None:
    ((url, spec),) = read_listing(listing({"url": URL})).items()
    assert (spec.worker_type, spec.models) == ("regular", None)
    assert spec.labels == {"smg.ai/discovery-provider": "file", "smg.ai/discovery-id": url}
    assert read_listing(listing({"url": URL, "id": None, "model_id": None})).keys() == {URL}


@pytest.mark.parametrize("text", ["10.0.0.1:8000", " http://10.0.0.1:8000", "10.0.0.1:8000/"])
def test_a_url_may_leave_out_its_scheme(text: str) -> None:
    assert read_listing(listing({"url": text})).keys() == {URL}
    with pytest.raises(SnapshotError):
        read_listing(listing({"url": text}, {"url": URL}))


def test_an_empty_list_is_a_list() -> None:
    assert read_listing(listing()) == {}


def test_many_workers() -> None:
    many = [{"url": f"http://10.0.{number // 250}.{number % 250}:80"} for number in range(MAX_ENTRIES)]
    assert len(read_listing(listing(*many))) == MAX_ENTRIES
    with pytest.raises(SnapshotError):
        read_listing(listing(*many, {"url": URL}))


BAD: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"not json",
    "cut off": listing({"url": URL})[:-3],
    "text behind": listing({"url": URL}) + b"x",
    "no UTF-8": b'{"version": 1, "workers": [], "\xff": 1}',
    "byte order mark": b"\xef\xbb\xbf" + listing(),
    "UTF-16": listing().decode().encode("utf-16"),
    "NaN": b'{"version": NaN, "workers": []}',
    "deep": b"[" * 100_000,
    "no object": b"[]",
    "null": b"null",
    "no version": b'{"workers": []}',
    "version 2": listing(version=2),
    "version as text": listing(version="1"),
    "version true": listing(version=True),
    "no workers": b'{"version": 1}',
    "workers null": listing(workers=None),
    "workers as object": listing(workers={}),
    "unknown member": listing(extra=1),
    "a member twice": b'{"version": 1, "version": 1, "workers": []}',
    "plain URL": listing(URL),
    "entry without URL": listing({"id": "a"}),
    "URL null": listing({"url": None}),
    "URL empty": listing({"url": ""}),
    "other scheme": listing({"url": "ftp://x"}),
    "URL with credentials": listing({"url": "http://user:secret@x"}),
    "unknown member of an entry": listing({"url": URL, "priority": 5}),
    "empty ID": listing({"url": URL, "id": ""}),
    "ID twice": listing({"url": URL, "id": "a"}, {"url": "http://b", "id": "a"}),
    "ID that is another's URL": listing({"url": "http://b", "id": URL}, {"url": URL}),
    "endpoint twice": listing({"url": URL, "id": "a"}, {"url": URL, "id": "b"}),
    "endpoint twice, another spelling": listing({"url": URL, "id": "a"}, {"url": "http://10.0.0.1:8000/"}),
    "unknown type": listing({"url": URL, "worker_type": "nope"}),
    "type of pairs": listing({"url": URL, "worker_type": "decode"}),
    "bootstrap port of a regular worker": listing({"url": URL, "bootstrap_port": 5}),
    "bootstrap port as text": listing({"url": URL, "bootstrap_port": "5"}),
    "bootstrap port too high": listing({"url": URL, "bootstrap_port": 70_000}),
    "empty model": listing({"url": URL, "model_id": ""}),
    "model as list": listing({"url": URL, "model_id": ["a"]}),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_whole(name: str) -> None:
    with pytest.raises(SnapshotError) as refused:
        read_listing(BAD[name])
    assert refused.value.reason == "invalid"
    assert str(refused.value)
    assert "secret" not in str(refused.value)


def test_encode_workers_are_refused_also_among_pairs() -> None:
    with pytest.raises(SnapshotError, match="no encode workers"):
        read_listing(listing({"url": URL, "worker_type": "encode"}), PAIRED)
