"""Prometheus's text format 0.0.4: families and samples to text, labels in the order they are listed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from smg.telemetry.families import Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
Sample = tuple[Labels, float]
Row = tuple[Labels, Sequence[float]]
"""Labels of a row of a histogram; its counts by bucket, the open one last, and the sum of what it counted."""


def scalar_lines(family: Family, samples: Iterable[Sample]) -> str:
    """A counter's or gauge's lines."""
    lines = _head(family)
    form = _form(family.name, family.labels) + " %s"
    for labels, value in samples:
        shown = value if type(value) is int else number(value)
        lines.append(form % (*map(escape, labels), shown))
    return "\n".join(lines) + "\n"


def histogram_lines(family: Family, bounds: Sequence[float], rows: Iterable[Row]) -> str:
    """A histogram's lines; bounds ascending, without infinity."""
    lines = _head(family)
    name, labels = family.name, family.labels
    bucket = _form(name + "_bucket", (*labels, "le")) + " %s"
    total = _form(name + "_sum", labels) + " %s"
    count = _form(name + "_count", labels) + " %s"
    marks = [*map(number, bounds), "+Inf"]
    for values, row in rows:
        shown = tuple(map(escape, values))
        seen = 0
        for mark, amount in zip(marks, row, strict=False):
            seen += int(amount)
            lines.append(bucket % (*shown, mark, seen))
        lines.append(total % (*shown, number(row[-1])))
        lines.append(count % (*shown, seen))
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """The shortest text that is read back as the same number."""
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def escape(value: str) -> str:
    """A label's value as it stands between quotation marks."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def _head(family: Family) -> list[str]:
    text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    return [f"# HELP {family.name} {text}", f"# TYPE {family.name} {family.kind}"]


def _form(name: str, labels: Labels) -> str:
    """A sample's line up to its value, with `%s` for each label's value."""
    inner = ",".join(f'{label}="%s"' for label in labels)
    return f"{name}{{{inner}}}" if inner else name
