"""The text is valid for an independent parser, and says what was counted."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parsed

from smg.telemetry.exposition import escape, histogram_lines, number, scalar_lines
from smg.telemetry.families import COUNTER, FAMILIES, GAUGE, HISTOGRAM, Family


def test_labels_stand_in_the_order_of_the_table() -> None:
    family = Family("x_total", COUNTER, ("worker", "from", "to"), "Help.")
    text = scalar_lines(family, [(("w", "closed", "open"), 1)])
    assert text == (
        '# HELP x_total Help.\n# TYPE x_total counter\nx_total{worker="w",from="closed",to="open"} 1\n'
    )


def test_a_histogram() -> None:
    family = Family("x", HISTOGRAM, ("a",), "Help.")
    assert histogram_lines(family, (0.5, 7), [(("b",), [1, 0, 2, 9.25])]).splitlines()[2:] == [
        'x_bucket{a="b",le="0.5"} 1',
        'x_bucket{a="b",le="7"} 1',
        'x_bucket{a="b",le="+Inf"} 3',
        'x_sum{a="b"} 9.25',
        'x_count{a="b"} 3',
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (2.0, "2"), (0.1, "0.1"), (1e300, "1e+300"), (math.inf, "+Inf"), (-math.inf, "-Inf")],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text
    assert float(text) == value


def test_no_number() -> None:
    assert number(math.nan) == "NaN"


# The parser itself cuts lines at these, and label values that end in a backslash confuse it.
words = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=20
)


@given(st.dictionaries(st.tuples(words, words), st.floats(allow_nan=False), max_size=5))
def test_a_parser_reads_back_labels_and_values(samples: dict[tuple[str, str], float]) -> None:
    family = Family("x", GAUGE, ("a", "b"), 'A "help" with \\ and\nlines.')
    (found,) = parsed(scalar_lines(family, samples.items()))
    read = {(s.labels["a"], s.labels["b"]): s.value for s in found.samples}
    assert (found.type, read) == ("gauge", samples)


def test_what_is_escaped() -> None:
    assert escape('a"b\\c\nd') == 'a\\"b\\\\c\\nd'


def test_the_table_follows_the_rules_of_names() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))
    for family in FAMILIES:
        assert (family.kind == COUNTER) == family.name.endswith("_total"), family.name
        assert family.help.endswith("."), family.name
        assert "le" not in family.labels
