"""Chaos: three classes, five tenants with budgets, engines that die, stall and crawl, clients that leave.

    python -m benches.load.chaos --seconds 600

Every answer must be one that the rules allow, whole and of the right text; no tenant may be served more
requests than its budget and one; at the end nothing may be in flight or queued. Exit status 1 if not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from benches.load.soak import Broken, Engines, expected_texts, free_port, payload, rest_of_answer, what_became

HANG_S = 90.0
CLASSES = ("interactive", "default", "bulk")
SCHEDULER = {
    "classes": {
        "interactive": {
            "reserved_floor": 8,
            "queue_size": 32,
            "queue_timeout_secs": 5,
            "starvation_threshold_secs": 2,
            "can_preempt": True,
        },
        "default": {
            "reserved_floor": 4,
            "queue_size": 32,
            "queue_timeout_secs": 10,
            "starvation_threshold_secs": 5,
            "can_preempt": False,
        },
        "bulk": {
            "reserved_floor": 0,
            "queue_size": 64,
            "queue_timeout_secs": 20,
            "starvation_threshold_secs": 10,
            "can_preempt": False,
        },
    },
    "tenant_policies": {
        "auth:red": {"max_class": "interactive"},
        "auth:blue": {"max_class": "interactive"},
        "auth:green": {"max_class": "default"},
        "auth:grey": {"max_class": "bulk"},
    },
}
# Which answers but a stream the rules allow: status → codes, and whether Retry-After must be there.
SHED = {
    (429, "scheduler_queue_full"): True,
    (429, "tenant_rate_limit_exceeded"): True,
    (503, "scheduler_queue_timeout"): True,
    (503, "scheduler_preempted"): True,
    (503, "no_available_workers"): False,
    (502, "call_upstream_connection_failed"): False,
    (502, "call_upstream_request_error"): False,
    (502, "read_response_body_failed"): False,
    (504, "call_upstream_timeout"): False,
}
# What an engine that was told to fail says itself.
FROM_ENGINES = (500, 503)


@dataclass
class Tenant:
    """`clients` at once, `per_minute` requests allowed, `share` of each class among them."""

    name: str
    per_minute: int
    clients: int
    weights: tuple[int, int, int]
    served: list[float] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.name}-secret"


TENANTS = (
    Tenant("red", 60_000, 40, (3, 1, 0)),
    Tenant("blue", 400, 30, (1, 1, 1)),
    Tenant("green", 200, 30, (1, 2, 0)),
    Tenant("grey", 80, 20, (0, 1, 3)),
    Tenant("white", 20, 4, (0, 1, 0)),
)


def budgets() -> dict[str, object]:
    scopes = [
        {
            "tenant_key": f"auth:{one.name}",
            "requests_per_minute": one.per_minute,
            "tokens_per_minute": 100_000_000,
        }
        for one in TENANTS
    ]
    rest = {"requests_per_minute": 60, "tokens_per_minute": 100_000}
    return {"default_policy": rest, "tenants": scopes}


def written(folder: str, name: str, content: object) -> str:
    """A file with JSON, which is YAML as well."""
    path = Path(folder, name)
    path.write_text(json.dumps(content))
    return str(path)


class Chaos:
    def __init__(self, port: int, expected: dict[str, str], seed: int) -> None:
        self.port = port
        self.expected = expected
        self.random = random.Random(seed)
        self.seen: Counter[str] = Counter()
        self.faults: list[str] = []
        self.begun = time.monotonic()

    async def exchange(self, tenant: Tenant) -> None:
        prompt = self.random.choice(list(self.expected))
        kind = self.random.choices(CLASSES, tenant.weights)[0]
        leave_after = self.random.randint(1, 30) if self.random.random() < 0.2 else None
        headers = f"authorization: Bearer {tenant.key}\r\nx-smg-priority: {kind}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(payload(prompt, headers))
            if leave_after is not None and self.random.random() < 0.3:
                await asyncio.sleep(self.random.random() * 0.2)
                self.seen["left before an answer"] += 1
                return
            head = await reader.readuntil(b"\r\n\r\n")
            answered = time.monotonic()
            status, body, complete = await rest_of_answer(reader, head, leave_after)
            self.judge(tenant, prompt, head.lower(), status, body, complete, answered)
        finally:
            writer.transport.abort()

    def judge(
        self,
        tenant: Tenant,
        prompt: str,
        head: bytes,
        status: int,
        body: bytes,
        complete: bool,
        answered: float,
    ) -> None:
        if status != 200:
            self.judge_error(head, status, body)
            return
        tenant.served.append(answered)
        self.seen[what_became(self.expected[prompt], body, complete)] += 1

    def judge_error(self, head: bytes, status: int, body: bytes) -> None:
        if b"x-smg-error-code:" not in head:
            if status not in FROM_ENGINES:
                raise Broken(f"status {status}: {body[:100]!r}")
            self.seen[f"engine's {status}"] += 1
            return
        code = json.loads(body)["error"]["code"]
        if f"x-smg-error-code: {code}\r\n".encode() not in head:
            raise Broken(f"header and body tell two codes: {head!r}")
        must = SHED.get((status, code))
        if must is None or (must and b"retry-after:" not in head):
            raise Broken(f"status {status} {code}: {head!r}")
        if (code == "scheduler_preempted") != (b"x-smg-preempted: true" in head):
            raise Broken(f"preempted or not: {head!r}")
        self.seen[f"{status} {code}"] += 1

    async def client(self, tenant: Tenant, deadline: float) -> None:
        while time.monotonic() < deadline:
            try:
                await asyncio.wait_for(self.exchange(tenant), HANG_S)
            except TimeoutError:
                self.faults.append(f"hung: {tenant.name}")
            except (Broken, ValueError, KeyError) as error:
                self.faults.append(str(error))
            except (OSError, asyncio.IncompleteReadError) as error:
                self.faults.append(f"connection: {type(error).__name__}")
            await asyncio.sleep(self.random.random() * 0.2)

    async def run(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        clients = [self.client(one, deadline) for one in TENANTS for _ in range(one.clients)]
        await asyncio.gather(*clients)

    def over_budget(self) -> dict[str, float]:
        """How many requests, at most, a tenant had been served beyond a full budget and what it refills."""
        worst: dict[str, float] = {}
        for tenant in TENANTS:
            over = [
                count - tenant.per_minute * (1 + (at - self.begun) / 60)
                for count, at in enumerate(sorted(tenant.served), start=1)
            ]
            worst[tenant.name] = max(over, default=0.0)
        return worst


async def post(url: str, content: object) -> None:
    def send() -> None:
        body = json.dumps(content).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=5).read()

    try:
        await asyncio.to_thread(send)
    except OSError:
        pass  # that engine is dead at the moment


async def disturb(engines: Engines, seconds: float, rng: random.Random) -> Counter[str]:
    """Break one engine after the other, each in its way; two of them are left alone at any time."""
    deadline, done = time.monotonic() + seconds, Counter[str]()
    while time.monotonic() < deadline - 10:
        port = rng.choice(engines.ports)
        how = rng.choice(("killed", "refusing", "stalled", "slow", "failing", "cutting"))
        done[how] += 1
        faults = f"http://127.0.0.1:{port}/sim/faults"
        if how in ("killed", "refusing"):
            await engines.kill(port)
            await asyncio.sleep(rng.uniform(3, 8) if how == "refusing" else 0.3)
            await engines.start(port)
        else:
            plan = {
                "stalled": {"kind": "stall", "probability": 0.5},
                "slow": {"kind": "delay", "seconds": 1.5},
                "failing": {"kind": "status", "status": rng.choice(FROM_ENGINES), "probability": 0.5},
                "cutting": {"kind": "cut", "after_events": rng.randint(0, 20), "probability": 0.3},
            }[how]
            await post(faults, [plan])
            await asyncio.sleep(rng.uniform(2, 5))
            await post(faults, [])
        await asyncio.sleep(rng.uniform(0.5, 2))
    return done


GAUGES = (
    "smg_http_connections_active",
    "smg_worker_requests_active",
    "smg_admission_inflight",
    "smg_scheduler_inflight",
    "smg_scheduler_queue_depth",
)


def gauges(metrics_port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=5) as scraped:
        lines = scraped.read().decode().splitlines()
    totals = {}
    for name in GAUGES:
        values = [
            float(line.rpartition(" ")[2]) for line in lines if line.startswith((name + "{", name + " "))
        ]
        if not values:
            raise SystemExit(f"{name} is not among the metrics")
        totals[name] = sum(values)
    return totals


async def settled(metrics_port: int) -> dict[str, float]:
    for _ in range(100):
        found = await asyncio.to_thread(gauges, metrics_port)
        if not any(found.values()):
            break
        await asyncio.sleep(0.1)
    return found


async def main(given: argparse.Namespace) -> int:
    engines = Engines(given.engines, given.tokens, given.running)
    port, metrics_port = free_port(), free_port()
    for engine_port in engines.ports:
        await engines.start(engine_port)
    expected = await expected_texts(engines.urls[0])
    with tempfile.TemporaryDirectory() as folder:
        scheduler, limits = written(folder, "scheduler", SCHEDULER), written(folder, "limits", budgets())
        keys = [part for one in TENANTS for part in ("--tenant-api-key", f"{one.name}:{one.key}")]
        gateway = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "smg", "launch", "--host", "127.0.0.1", "--port", str(port)),
            *("--prometheus-port", str(metrics_port), "--log-level", "error"),
            *("--health-check-interval-secs", "1", "--first-byte-timeout-secs", "3"),
            *("--between-bytes-timeout-secs", "3", "--cb-timeout-duration-secs", "2"),
            *("--priority-scheduler-enabled", "--priority-scheduler-config", scheduler),
            *("--tenant-rate-limit-enabled", "--tenant-rate-limit-config", limits),
            *(*keys, "--worker-urls", *engines.urls),
        )
        try:
            await ready(port)
            chaos = Chaos(port, expected, given.seed)
            disturbing = asyncio.create_task(disturb(engines, given.seconds, random.Random(given.seed)))
            await chaos.run(given.seconds)
            done = await disturbing
            left = await settled(metrics_port)
        finally:
            if gateway.returncode is None:
                gateway.send_signal(signal.SIGINT)
                await gateway.wait()
            await engines.close()
    return report(chaos, done, left)


async def ready(port: int) -> None:
    url = f"http://127.0.0.1:{port}/readiness"
    for _ in range(200):
        try:
            await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=2).read())
            return
        except OSError:
            await asyncio.sleep(0.1)
    raise SystemExit("the gateway did not become ready")


def report(chaos: Chaos, done: Counter[str], left: dict[str, float]) -> int:
    print("answers:")
    for what, count in sorted(chaos.seen.items(), key=lambda item: -item[1]):
        print(f"  {count:8} {what}")
    print(f"engines disturbed: {dict(done)}")
    print(f"faults: {len(chaos.faults)}")
    for fault, count in Counter(chaos.faults).most_common(10):
        print(f"  {count} x {fault}")
    over = chaos.over_budget()
    for tenant in TENANTS:
        print(f"  tenant {tenant.name}: {len(tenant.served)} served, {over[tenant.name]:.2f} over its budget")
    for name, value in left.items():
        print(f"  {name} at the end: {value:g}")
    return int(bool(chaos.faults) or max(over.values()) > 1 or any(left.values()))


def parse() -> argparse.Namespace:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--engines", type=int, default=4)
    options.add_argument("--tokens", type=int, default=40)
    options.add_argument("--running", type=int, default=8, help="requests an engine runs at once")
    options.add_argument("--seed", type=int, default=1)
    return options.parse_args()


if __name__ == "__main__":
    sys.exit(uvloop.run(main(parse())))
