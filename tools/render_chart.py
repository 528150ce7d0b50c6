"""Prints what the chart makes of values, as `helm template` would: `python tools/render_chart.py -f FILE`.

Rendered by Helm's own code, from the wheel of the extra `package`, so that no helm is needed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "helm" / "smg"


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Maps are merged, anything else is replaced, as with several -f of Helm."""
    result = dict(below)
    for name, value in above.items():
        before = result.get(name)
        both = isinstance(before, dict) and isinstance(value, dict)
        result[name] = merged(before, value) if both else value
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description="Print the chart's objects.")
    parser.add_argument("-f", "--values", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--name", default="smg", help="of the release (default: smg)")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--lint", action="store_true", help="look for mistakes in the chart instead")
    args = parser.parse_args()
    try:
        import helm_python as helm
    except ImportError:
        print("Helm is missing: pip install '.[package]'", file=sys.stderr)
        return 2
    if args.lint:
        found = [one for one in helm.lint(CHART)["messages"] if one["severity"] > 1]
        print("\n".join(f"{one['path']}: {one['error']}" for one in found) or "no mistakes")
        return 1 if found else 0
    values: dict[str, Any] = {}
    for path in args.values:
        values = merged(values, yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    try:
        with helm.Chart.load(CHART) as chart:
            chart.validate_schema(values)
            made = chart.render(values, name=args.name, namespace=args.namespace)
    except helm.HelmError as problem:
        print(problem, file=sys.stderr)
        return 1
    for name, text in sorted(made.items()):
        if text.strip() and not name.endswith(".txt"):
            print(f"---\n# {name}\n{text.strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
