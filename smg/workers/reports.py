"""The texts in which engines report their load, each read into one row for each data-parallel rank."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from smg.workers.worker import LoadReport

Row = dict[str, float]
"""Members of SGLang's `/v1/loads`, those of `MEMBERS` that were reported; `dp_rank` always."""

MEMBERS = (
    "num_running_reqs",
    "num_waiting_reqs",
    "num_total_reqs",
    "num_used_tokens",
    "max_total_num_tokens",
    "token_usage",
    "gen_throughput",
    "cache_hit_rate",
    "utilization",
    "max_running_requests",
    "num_waiting_uncached_tokens",
)
_VLLM = {
    b"vllm:num_requests_running": "num_running_reqs",
    b"vllm:num_requests_waiting": "num_waiting_reqs",
    b"vllm:kv_cache_usage_perc": "token_usage",
}
# What follows a sample's name: labels, whose values may hold any character, its value, perhaps a time.
_SAMPLE = re.compile(rb"(?:(\{.*\})[ \t]*|[ \t]+)(\S+)")
_MAX_RANKS = 1024
_MOST = 1e15


def report_of(rows: Sequence[Row], now: float) -> LoadReport | None:
    """The rows added up: of the caches the mean, of what only some ranks tell nothing."""
    if not rows:
        return None

    def total(name: str) -> float:
        return sum(row.get(name, 0.0) for row in rows)

    uncached = [row["num_waiting_uncached_tokens"] for row in rows if "num_waiting_uncached_tokens" in row]
    usage = [row["token_usage"] for row in rows if "token_usage" in row]
    return LoadReport(
        at=now,
        running_requests=int(total("num_running_reqs")),
        waiting_requests=int(total("num_waiting_reqs")),
        waiting_tokens=sum(uncached) if len(uncached) == len(rows) else None,
        token_usage=sum(usage) / len(usage) if usage else 0.0,
        throughput=total("gen_throughput"),
    )


def rows_of_loads(body: bytes) -> list[Row]:
    """SGLang's `/v1/loads`."""
    return [_row(one, place) for place, one in enumerate(_entries(body, "loads"))]


def rows_of_old_load(body: bytes) -> list[Row]:
    """SGLang's older `/get_load`."""
    rows = []
    for place, one in enumerate(_entries(body, None)):
        row = _row(one, place)
        total, waiting = _number(one.get("num_reqs")), row.setdefault("num_waiting_reqs", 0)
        row["num_total_reqs"] = total if total is not None else waiting
        row["num_running_reqs"] = max(row["num_total_reqs"] - waiting, 0)
        tokens = _number(one.get("num_tokens"))
        if tokens is not None:
            row["num_used_tokens"] = tokens
        rows.append(row)
    return rows


def rows_of_metrics(body: bytes) -> list[Row]:
    """vLLM's Prometheus text, in which a label names the engine, of which there is one a rank."""
    rows: dict[bytes, Row] = {}
    for name, labels, value in _samples(body):
        engine = labels.partition(b'engine="')[2].partition(b'"')[0]
        if engine not in rows and len(rows) == _MAX_RANKS:
            continue
        row = rows.setdefault(engine, {"dp_rank": _rank(engine, len(rows))})
        member = _VLLM[name]
        if member == "token_usage":
            row[member] = min(max(value, row.get(member, 0)), 1.0)
        else:
            row[member] = row.get(member, 0) + value
    return list(rows.values())


def _samples(body: bytes) -> Iterator[tuple[bytes, bytes, float]]:
    """Name, labels and value of each sample of vLLM's load. The text may have some ten thousand others, which
    are not looked at."""
    for name in _VLLM:
        at = body.find(name)
        while at >= 0:
            end = body.find(b"\n", at)
            end = end if end >= 0 else len(body)
            found = (
                _SAMPLE.match(body, at + len(name), end) if at == 0 or body[at - 1 : at] == b"\n" else None
            )
            value = _float(found[2]) if found is not None else None
            if found is not None and value is not None:
                yield name, found[1] or b"", value
            at = body.find(name, end)


def _rank(text: bytes, place: int) -> int:
    return int(text) if text.isdigit() and len(text) < 10 else place


def _row(entry: dict[str, Any], place: int) -> Row:
    rank = entry.get("dp_rank")
    row: Row = {"dp_rank": rank if type(rank) is int and 0 <= rank < 1 << 31 else place}
    for name in MEMBERS:
        number = _number(entry.get(name))
        if number is not None:
            row[name] = number
    return row


def _number(value: Any) -> float | None:
    """What it counts, None when it is no number that something could be counted by."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MOST else None


def _float(text: bytes) -> float | None:
    try:
        return _number(float(text))
    except ValueError:
        return None


def _entries(body: bytes, member: str | None) -> Iterable[dict[str, Any]]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []
    if member is not None:
        value = value.get(member) if isinstance(value, dict) else None
    return [one for one in value[:_MAX_RANKS] if isinstance(one, dict)] if isinstance(value, list) else []
