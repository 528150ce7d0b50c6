"""Draws hit ratio and time to first token of routing policies on recorded traces.

    python tools/plot_policies.py docs/policies.svg conversation=FILE.json synthetic=FILE.json

A file holds, by policy, `hit_ratio`, `ttft_mean_s` and `ttft_p99_s`; `of_bound` where known. Needs the
extra `bench`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Rows = dict[str, dict[str, float]]
OTHERS = {"original", "none"}
WIDE = 100
"""Figures further apart than this are drawn on a logarithmic axis."""


def ordered(rows: Rows) -> list[str]:
    """The shortest mean time to first token on top, which is drawn last."""
    return sorted(rows, key=lambda name: -rows[name]["ttft_mean_s"])


def draw(axes: Any, rows: Rows, values: str, title: str, unit: str) -> None:
    names = ordered(rows)
    colours = ["#9aa3ad" if name in OTHERS else "#2f6f9f" for name in names]
    bars = axes.barh(names, [rows[name][values] for name in names], color=colours)
    axes.bar_label(bars, fmt="%.3f" if values == "hit_ratio" else "%.2f", padding=3, fontsize=7)
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlabel(unit, fontsize=8)
    axes.tick_params(labelsize=8)
    axes.margins(x=0.14)
    shown = [rows[name][values] for name in names]
    if max(shown) > WIDE * min(shown):
        axes.set_xscale("log")
        axes.set_xlim(min(shown) / 2, max(shown) * 4)
    axes.spines[["top", "right"]].set_visible(False)


def main(arguments: list[str]) -> int:
    if len(arguments) < 2 or not all("=" in one for one in arguments[1:]):
        print(__doc__, file=sys.stderr)
        return 2
    import matplotlib

    matplotlib.use("svg")
    # The same figures give the same file, and text stays text.
    matplotlib.rcParams.update({"svg.hashsalt": "smg", "svg.fonttype": "none"})
    from matplotlib import pyplot

    traces = {
        name: json.loads(Path(file).read_text())
        for name, _, file in (a.partition("=") for a in arguments[1:])
    }
    figure, grid = pyplot.subplots(len(traces), 3, figsize=(11, 3.4 * len(traces)), squeeze=False)
    for line, (trace, rows) in zip(grid, traces.items(), strict=True):
        draw(line[0], rows, "hit_ratio", f"{trace}: hit ratio", "block tokens found / asked")
        draw(line[1], rows, "ttft_mean_s", "mean time to first token", "seconds")
        draw(line[2], rows, "ttft_p99_s", "99th percentile", "seconds")
    figure.tight_layout()
    figure.savefig(arguments[0], metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
