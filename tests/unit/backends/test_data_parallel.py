"""A rank's number in the body: one member changed or added, every other byte kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg.backends.data_parallel import large_with_rank, with_rank


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", b'{"data_parallel_rank":3}'),
        (b" { } \n", b' { "data_parallel_rank":3} \n'),
        (b'{"a": 1.00}', b'{"a": 1.00,"data_parallel_rank":3}'),
        (b'{"a": {"b": 1}  }\n', b'{"a": {"b": 1}  ,"data_parallel_rank":3}\n'),
        (b'{"data_parallel_rank": null, "a": 1}', b'{"data_parallel_rank": 3, "a": 1}'),
        (
            b'{"data_parallel_rank":1,"data_parallel_rank":2}',
            b'{"data_parallel_rank":3,"data_parallel_rank":3}',
        ),
        (b'{"a": "data_parallel_rank}"}', b'{"a": "data_parallel_rank}","data_parallel_rank":3}'),
        (b'{"x": {"data_parallel_rank": 1}}', b'{"x": {"data_parallel_rank": 1},"data_parallel_rank":3}'),
    ],
)
def test_bytes(body: bytes, expected: bytes) -> None:
    assert with_rank(body, 3) == expected
    assert json.loads(large_with_rank(body, 3)) == json.loads(expected)


def test_a_name_written_with_escapes_does_not_win() -> None:
    body = b'{"\\u0064ata_parallel_rank": 9, "a": 1}'
    assert json.loads(with_rank(body, 3)) == {"data_parallel_rank": 3, "a": 1}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(max_size=4) | st.just("data_parallel_rank")


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.integers(0, 1023), st.sampled_from([None, 2]))
def test_the_meaning_is_the_clients_but_for_the_rank(
    content: dict[str, Any], rank: int, indent: int | None
) -> None:
    body = json.dumps(content, indent=indent).encode()
    written = with_rank(body, rank)
    assert json.loads(large_with_rank(body, rank)) == json.loads(written)
    assert json.loads(written) == content | {"data_parallel_rank": rank}
    if "data_parallel_rank" not in content:
        added = len(b'"data_parallel_rank":%d' % rank) + bool(content)
        assert len(written) == len(body) + added
