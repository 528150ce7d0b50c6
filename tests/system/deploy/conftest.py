"""Without Helm (the extra `package`, which `.ci/run` installs) the chart's tests are not collected."""

from __future__ import annotations

import importlib.util

HAS_HELM = importlib.util.find_spec("helm_python") is not None

collect_ignore = [] if HAS_HELM else ["test_chart.py", "test_chart_runs.py"]
