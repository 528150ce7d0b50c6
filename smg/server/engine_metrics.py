"""Merging the Prometheus texts of many engines into one, each sample labelled with its worker."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(?:\{(.*)|[ \t](.*))")
_TYPE = re.compile(r"#[ \t]+TYPE[ \t]+([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]+([a-z]+)[ \t]*")
_SUFFIXES = ("_bucket", "_sum", "_count", "_total", "_created", "_info", "_gcount", "_gsum")

WORKER_LABEL = "worker_addr"


def merge(texts: Iterable[tuple[str, str]]) -> str:
    """One exposition of (worker URL, exposition) pairs: families joined, only `# TYPE` comments left.

    What is no sample is dropped; the first worker that declares a family's type decides it.
    """
    types: dict[str, str] = {}
    samples: dict[str, list[str]] = {}
    for url, text in texts:
        label = f'{WORKER_LABEL}="{_escape(url)}"'
        declared: set[str] = set()
        for line in text.splitlines():
            if line.startswith("#"):
                if found := _TYPE.fullmatch(line):
                    declared.add(found[1])
                    types.setdefault(found[1], found[2])
                    samples.setdefault(found[1], [])
            elif found := _SAMPLE.fullmatch(line):
                family = _family(found[1], declared)
                samples.setdefault(family, []).append(_labelled(found, label))
    return "".join(_lines(types, samples))


def _lines(types: dict[str, str], samples: dict[str, list[str]]) -> Iterable[str]:
    for family, lines in samples.items():
        if not lines:
            continue
        if family in types:
            yield f"# TYPE {family} {types[family]}\n"
        for line in lines:
            yield line + "\n"


def _family(name: str, declared: set[str]) -> str:
    if name not in declared:
        for suffix in _SUFFIXES:
            if name.endswith(suffix) and name[: -len(suffix)] in declared:
                return name[: -len(suffix)]
    return name


def _labelled(sample: re.Match[str], label: str) -> str:
    name, labels, value = sample.groups()
    if labels is None:
        return f"{name}{{{label}}} {value.strip()}"
    if f'{WORKER_LABEL}="' in labels:
        # Another gateway's metrics: the label of the worker behind it stays.
        return f"{name}{{{labels}"
    rest = labels.lstrip()
    return f"{name}{{{label}{'' if rest.startswith('}') else ','}{rest}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
