"""The console's data as tables for a terminal. Names come from others: what cannot be printed is replaced."""

from __future__ import annotations

import time
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]

MAX_ERRORS = 10
NOTHING = "-"
_LEAST_WIDTHS = {"worker": 22, "state": 7, "time": 8, "cause": 15}
_STATUS = {"ready": "green", "pending": "yellow", "draining": "yellow"}


def board(data: Json, url: str) -> RenderableType:
    """Everything."""
    parts: list[RenderableType] = [_headline(data, url), _figures(data), _workers(data), _queues(data)]
    if data["tenants"] is not None:
        parts.append(_tenants(data["tenants"]))
    return Group(*parts, _causes(data["failures"]), _latest(data["failures"]))


def lost(data: Json | None, url: str, problem: str) -> RenderableType:
    """What was known last, and that it is old."""
    told = text(f"connection to {url} lost: {problem}", "bold red")
    return Group(told, board(data, url)) if data is not None else told


def text(value: object, style: str = "") -> Text:
    """A text that cannot move the cursor or change colours."""
    return Text(
        "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(value)), style
    )


def _table(*columns: str) -> Table:
    """A column whose name begins with a blank is of numbers. Where the terminal is narrow, those that have a
    least width keep it and the others are cut."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in columns:
        is_number = name.startswith(" ")
        least = len(name) - 1 if is_number else _LEAST_WIDTHS.get(name)
        table.add_column(
            text(name.strip()),
            justify="right" if is_number else "left",
            overflow="ellipsis",
            no_wrap=True,
            min_width=least,
        )
    return table


def _under(title: str, table: Table) -> Group:
    return Group(text(title, "bold"), table)


def _headline(data: Json, url: str) -> Text:
    ready, total = data["workers_ready"], data["workers_total"]
    state = data["not_ready"] or ("serving" if ready else "no worker is ready")
    line = text("smg ", "bold") + text(f"{data['version']} at {url}: ")
    line += text(state, "green" if state == "serving" else "bold red")
    return line + text(
        f", {ready} of {total} workers ready, up {duration(data['uptime_s'])}, policy {data['policy']}"
    )


def _figures(data: Json) -> Text:
    first = data["first_token"]
    failing = "red" if data["failures_per_s"] else ""
    line = text(f"{data['calls_per_s']:g} requests/s, ") + text(
        f"{data['failures_per_s']:g} errors/s", failing
    )
    line += text(f", {data['in_flight']} in flight, first token p50 {seconds(first['p50_s'])}, ")
    return line + text(f"p99 {seconds(first['p99_s'])}")


def _workers(data: Json) -> Group:
    table = _table(
        "worker", "state", " load", " run/wait", " cache", " hits", " tok/s", " calls", "models",
    )  # fmt: skip
    for one in data["workers"]:
        report = one["report"]
        failed = one["failures_last_minute"]
        table.add_row(
            text(one["url"]),
            _state(one),
            text(one["load"]),
            text(NOTHING if report is None else f"{report['running']}/{report['waiting']}"),
            text(NOTHING if report is None else share(report["cache_usage"])),
            text(share(one["hit_share"])),
            text(round(report["tokens_per_s"]) if report is not None else NOTHING),
            text(one["calls_last_minute"]) + text(f" ({failed})" if failed else "", "red"),
            text(", ".join(one["models"]), "dim"),
        )
    return _under("Workers; calls within a minute, in brackets those that failed", table)


def _state(one: Json) -> Text:
    """The status, and the breaker unless it is closed."""
    status, breaker = one["status"], one["breaker"]
    shown = text(status.replace("_", " "), _STATUS.get(status, "bold red"))
    if breaker != "closed":
        shown += text(
            f", breaker {breaker.replace('_', ' ')}", "yellow" if breaker == "half_open" else "bold red"
        )
    return shown


def _queues(data: Json) -> Group:
    table = _table("class", " in flight", " at most", " waiting", " may wait")
    for one in data["queues"]:
        numbers = [one[name] for name in ("in_flight", "limit", "waiting", "queue_size")]
        table.add_row(text(one["name"] or "all"), *(text(NOTHING if n is None else n) for n in numbers))
    return _under("Queues", table)


def _tenants(tenants: Json) -> Group:
    title = f"Tenants near their limits, {tenants['denied']} requests refused"
    table = _table("tenant", "limit", " used")
    for one in tenants["nearest"]:
        style = "red" if one["used"] >= 1 else "yellow" if one["used"] >= 0.8 else ""
        table.add_row(
            text(one["tenant"]), text(one["rule"] or "whole budget"), text(share(one["used"]), style)
        )
    return _under(title, table)


def _causes(failures: Json) -> Group:
    table = _table("cause", " status", " latest", "last")
    for one in failures["causes"]:
        table.add_row(
            text(_cause(one)), text(one["status"]), text(one["count"]), text(_clock(one["at"]), "dim")
        )
    return _under(f"Errors by cause, {failures['total']} since the start", table)


def _latest(failures: Json) -> Group:
    table = _table("time", " status", "cause", "route", "model", "by worker", "request")
    for one in failures["latest"][:MAX_ERRORS]:
        names = (_cause(one), one["path"], one["model"], one["worker"], one["request_id"])
        table.add_row(text(_clock(one["at"]), "dim"), text(one["status"]), *map(text, names))
    return _under("Last errors", table)


def _cause(one: Json) -> str:
    if not one["code"]:
        return f"the worker answered {one['status']}"
    return "invalid request" if one["code"].isdecimal() else str(one["code"])


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def share(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0%}"


def seconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def duration(whole_s: int) -> str:
    minutes = whole_s // 60
    if minutes < 1:
        return f"{whole_s} s"
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 2880 else f"{minutes // 1440} days"
