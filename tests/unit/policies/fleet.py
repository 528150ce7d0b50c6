"""Workers and requests for the tests of the policies."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from smg.api.call import Call
from smg.api.surfaces import SURFACES
from smg.config.specs import WorkerUrl
from smg.policies.ask import Ask
from smg.workers.breaker import Breaker
from smg.workers.worker import LoadReport, ModelCard, Worker

_SURFACES = {surface.endpoint: surface for surface in reversed(SURFACES)}


def fleet(count: int, loads: Sequence[int] = ()) -> tuple[Worker, ...]:
    """`count` workers of the model `m`, with so many requests in flight each."""
    workers = tuple(worker(9000 + i) for i in range(count))
    for one, load in zip(workers, loads, strict=False):
        one.load = load
    return workers


def worker(port: int, *models: str) -> Worker:
    cards = [ModelCard(id=model) for model in models or ("m",)]
    return Worker(WorkerUrl.parse(f"http://127.0.0.1:{port}"), Breaker(10, 1, 60, 120, True), cards=cards)


def report(**said: Any) -> LoadReport:
    return LoadReport(at=0.0, **said)


def call(body: dict[str, Any] | None, endpoint: str = "chat", model: str | None = "m") -> Call:
    text = json.dumps(body).encode() if body is not None else None
    return Call(_SURFACES[endpoint], model, False, text)


def ask(
    text: str | None = None,
    headers: dict[bytes, bytes] | None = None,
    key_names: Sequence[bytes] = (),
    **fields: Any,
) -> Ask:
    """A chat with one message of that text; without a text its body is not there."""
    body = None if text is None else {"messages": [{"role": "user", "content": text}], **fields}
    return Ask(call(body), (headers or {}).get, key_names)


def keyed(key: bytes) -> Ask:
    return ask(headers={b"x-smg-routing-key": key})


def hinted(tokens: Sequence[int], text: str | None = None) -> Ask:
    return ask(text, {b"x-smg-routing-tokens": ",".join(map(str, tokens)).encode()})


def dice() -> random.Random:
    return random.Random(7)
