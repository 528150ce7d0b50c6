"""A scrape with 200 workers: what the loop does of it, and the text, which a thread makes."""

import pyperf

from smg.telemetry.exchanges import Kind
from smg.telemetry.metrics import Metrics

WORKERS, MODELS = 200, 2
PATHS = (("/v1/chat/completions", "chat"), ("/v1/completions", "completions"))
PER_WORKER = (
    "smg_worker_requests_active",
    "smg_worker_health",
    "smg_worker_http2",
    "smg_worker_cb_state",
    "smg_worker_cb_consecutive_failures",
    "smg_worker_cb_consecutive_successes",
    "smg_worker_engine_running",
    "smg_worker_engine_waiting",
    "smg_worker_engine_cache_usage",
    "smg_worker_prompt_bytes_total",
    "smg_worker_matched_bytes_total",
)


def busy_metrics() -> Metrics:
    metrics = Metrics()
    urls = [f"http://10.0.{i // 250}.{i % 250}:30000" for i in range(WORKERS)]
    metrics.exchanges.live = lambda: set(urls)
    for url in urls:
        for model in range(MODELS):
            for path, endpoint in PATHS:
                row = metrics.exchanges.add(path, endpoint, url, f"model-{model}", Kind())
                for outcome in ((200, "", False, True), (200, "", False, False), (503, "", False, False)):
                    row.counts[outcome] = 1000
    for name in PER_WORKER:
        metrics.plug(name, lambda: [((url,), 1) for url in urls])
    metrics.plug(
        "smg_worker_cb_outcomes_total",
        lambda: [((url, outcome), 1) for url in urls for outcome in ("success", "failure")],
    )
    return metrics


def main() -> None:
    runner = pyperf.Runner(program_args=("-m", "benches.micro.scrape"))
    metrics = busy_metrics()
    taken = metrics.snapshot()
    runner.bench_func(f"snapshot of {WORKERS} workers, on the loop", metrics.snapshot)
    runner.bench_func(f"text of {WORKERS} workers, in a thread", metrics.render, taken)


if __name__ == "__main__":
    main()
