"""Merging Prometheus texts."""

from smg.server.engine_metrics import merge

ONE = """# HELP sglang:requests help text
# TYPE sglang:requests counter
sglang:requests_total{model="m"} 5.0
# TYPE latency histogram
latency_bucket{le="+Inf",model="a}b"} 2 # {trace="x"} 1.0
latency_sum 3.5
latency_count 2 1700000000
untyped 1
# EOF
"""

TWO = """# TYPE latency histogram
latency_bucket{ le="+Inf" } 7
latency_sum{} 1
latency_created 5
 <html>
# TYPE sglang:requests gauge
sglang:requests{worker_addr="http://inner"} 9
# TYPE nothing counter
"""


def test_families_are_joined_and_labelled() -> None:
    merged = merge([("http://a", ONE), ("http://b", TWO)])
    assert merged.splitlines() == [
        "# TYPE sglang:requests counter",
        'sglang:requests_total{worker_addr="http://a",model="m"} 5.0',
        'sglang:requests{worker_addr="http://inner"} 9',
        "# TYPE latency histogram",
        'latency_bucket{worker_addr="http://a",le="+Inf",model="a}b"} 2 # {trace="x"} 1.0',
        'latency_sum{worker_addr="http://a"} 3.5',
        'latency_count{worker_addr="http://a"} 2 1700000000',
        'latency_bucket{worker_addr="http://b",le="+Inf" } 7',
        'latency_sum{worker_addr="http://b"} 1',
        'latency_created{worker_addr="http://b"} 5',
        'untyped{worker_addr="http://a"} 1',
    ]


def test_label_is_escaped() -> None:
    assert merge([('a"b\\', "x 1")]) == 'x{worker_addr="a\\"b\\\\"} 1\n'


def test_nothing() -> None:
    assert merge([]) == merge([("u", "")]) == ""
