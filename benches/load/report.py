"""Medians and ratios of a run as a table, a JSON file and a plot."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches.load.cases import Rows
from benches.load.processes import ROOT

OURS = "smg"
PLOTTED = (
    "CPU per request, µs",
    "CPU per 1 MB request, µs",
    "CPU per event, µs",
    "latency p50, µs",
    "latency p99, µs",
    "idle connection, KiB",
)


def summary(rows: Rows) -> dict[str, dict[str, float]]:
    """figure → gateway → median, and "smg/OTHER" → median of the ratios round by round."""
    figures = list(dict.fromkeys(figure for row in rows.values() for figure in row))
    found: dict[str, dict[str, float]] = {}
    for figure in figures:
        line = {name: statistics.median(row[figure]) for name, row in rows.items() if figure in row}
        own = rows.get(OURS, {}).get(figure, [])
        for name, row in rows.items():
            pairs = [a / b for a, b in zip(own, row.get(figure, []), strict=False) if b]
            if name != OURS and pairs:
                line[f"{OURS}/{name}"] = statistics.median(pairs)
        found[figure] = line
    return found


def table(found: dict[str, dict[str, float]]) -> str:
    """Markdown."""
    columns = list(dict.fromkeys(name for line in found.values() for name in line))
    columns.sort(key=lambda name: "/" in name)
    lines = ["| figure | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for figure, line in found.items():
        cells = [_cell(line.get(name), 2 if "/" in name else 1) for name in columns]
        lines.append(f"| {figure} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def environment() -> dict[str, Any]:
    """Where and with what it was measured; no names of hosts or people."""
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    return {
        "commit": commit or None,
        "cpu": cpu.partition(":")[2].strip(),
        "cores": len(os.sched_getaffinity(0)),
        "python": sys.version.split()[0],
        "kernel": platform.release(),
    }


def write_json(path: Path, rows: Rows, words: Sequence[str]) -> None:
    content = {"options": list(words), "environment": environment(), "summary": summary(rows), "rounds": rows}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_plot(path: Path, found: dict[str, dict[str, float]], gateways: Sequence[str]) -> bool:
    """One bar a gateway in one field a figure; False when matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figures = [figure for figure in PLOTTED if figure in found]
    if not figures:
        return False
    columns = min(3, len(figures))
    lines = -(-len(figures) // columns)
    drawing, fields = pyplot.subplots(lines, columns, figsize=(4 * columns, 2.6 * lines), squeeze=False)
    for field in fields.flat[len(figures) :]:
        field.set_visible(False)
    for field, figure in zip(fields.flat, figures, strict=False):
        names = [name for name in gateways if name in found[figure]]
        values = [found[figure][name] for name in names]
        bars = field.barh(names, values, color=["#2a6fdb" if n == OURS else "#9aa5b1" for n in names])
        field.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
        field.set_title(figure, fontsize=10)
        field.invert_yaxis()
        field.margins(x=0.2)
        field.tick_params(labelsize=8)
        field.spines[["top", "right"]].set_visible(False)
    drawing.tight_layout()
    drawing.savefig(path, dpi=120)
    pyplot.close(drawing)
    return True
