"""Names of a text, against a dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from smg._fast.jsonnames import Names
from smg._fast.jsonspan import elements
from tests.fast.json_texts import names, texts


@given(texts(st.lists(names, max_size=30)), st.lists(st.booleans(), min_size=30, max_size=30))
def test_names_are_a_set_of_which_some_are_crossed_off(
    case: tuple[list[str], bytes], adds: list[bool]
) -> None:
    written, text = case
    known = Names(text)
    expected: dict[str, bool] = {}
    first: dict[str, tuple[int, int]] = {}
    spans = list(elements(text, text.index(b"[")))
    for name, span, is_added in zip(written, spans, adds, strict=False):
        if is_added:
            assert known.add(*span) == (name not in expected)
            expected.setdefault(name, True)
            first.setdefault(name, span)
        else:
            assert known.cross_off(*span) == expected.get(name, False)
            if name in expected:
                expected[name] = False
    assert len(known) == len(expected)
    assert [name.encode() in known for name in written] == [name in expected for name in written]
    assert known.left() == next((first[name] for name, is_left in expected.items() if is_left), None)


def test_many_names() -> None:
    text = b"[" + b",".join(b'"n%d"' % (number % 50_000) for number in range(100_000)) + b"]"
    known = Names(text)
    spans = list(elements(text, 0))
    assert [known.add(*span) for span in spans] == [True] * 50_000 + [False] * 50_000
    assert known.left() == spans[0]
    assert all(known.cross_off(*span) for span in spans[50_000:])
    assert known.left() is None
