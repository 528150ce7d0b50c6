"""Why a request went where it went: shown to administrators who ask, and to nobody else."""

from __future__ import annotations

import pytest

from smg.config.specs import ControlPlaneKey
from tests.wire.raw_client import BODY, STREAM_BODY, Response, post
from tests.wire.scripted_worker import Connection, Request, ScriptedWorker

ASKED = "X-SMG-Explain: 1"
SERVING = "Authorization: Bearer serving-key"


def explanation(response: Response) -> str | None:
    found = response.all("x-smg-explanation")
    return found[0] if found else None


@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["whole", "stream"])
async def test_least_ttft_shows_the_terms_of_every_worker(gateway, body):
    workers = ScriptedWorker(), ScriptedWorker()
    gw = await gateway(*workers, policy="least_ttft")
    response = await gw.ask(post(body, ASKED))
    assert response.status == 200
    said = explanation(response)
    assert said is not None
    (chosen,) = response.all("x-smg-routed-worker-id")
    assert f"policy=least_ttft worker={chosen} " in said
    for worker in workers:
        assert f"{worker.url} expected=" in said
    for term in ("wait=", "prefill=", "later=", "missing="):
        assert said.count(term) == 2
    assert all(one.all("x-smg-explain") == [] for worker in workers for one in worker.requests)


@pytest.mark.parametrize("policy", ["round_robin", "cache_aware", "consistent_hashing", "prefix_hash"])
async def test_every_policy_says_whom_it_took(gateway, policy):
    worker = ScriptedWorker()
    gw = await gateway(worker, policy=policy)
    response = await gw.ask(post(BODY, ASKED))
    assert f"policy={policy} worker={worker.url} " in (explanation(response) or "")


async def test_each_attempt_is_told(gateway):
    async def fails(connection: Connection, request: Request) -> None:
        await connection.answer(b"{}", "503 Service Unavailable")

    workers = ScriptedWorker(fails), ScriptedWorker(fails)
    gw = await gateway(*workers, retry_max_retries=3)
    response = await gw.ask(post(BODY, ASKED))
    said = explanation(response) or ""
    assert response.status == 503
    assert said.count("policy=round_robin") == 3 and said.count(" | ") == 2


@pytest.mark.parametrize("value", ["0", "true", "", "1, 1"])
async def test_only_1_asks(gateway, value):
    gw = await gateway(ScriptedWorker())
    response = await gw.ask(post(BODY, f"X-SMG-Explain: {value}"))
    assert response.status == 200 and explanation(response) is None


@pytest.mark.parametrize(
    ("lines", "is_shown"),
    [
        ([SERVING], True),
        ([SERVING, "X-SMG-Admin-Authorization: Bearer other"], False),
    ],
)
async def test_the_shared_key_is_an_administrators(gateway, lines, is_shown):
    gw = await gateway(ScriptedWorker(), api_key="serving-key")
    response = await gw.ask(post(BODY, ASKED, *lines))
    assert response.status == 200
    assert (explanation(response) is not None) == is_shown


@pytest.mark.parametrize(
    ("line", "is_shown"),
    [
        ("X-SMG-Admin-Authorization: Bearer admin-key", True),
        ("X-SMG-Admin-Authorization: Bearer reader-key", False),
        ("X-SMG-Admin-Authorization: Bearer wrong", False),
        ("X-SMG-Nothing: 1", False),
    ],
)
async def test_with_control_plane_keys_those_of_admins_count(gateway, line, is_shown):
    keys = (ControlPlaneKey.parse("a:A:admin:admin-key"), ControlPlaneKey.parse("u:U:user:reader-key"))
    worker = ScriptedWorker()
    gw = await gateway(worker, api_key="serving-key", control_plane_api_keys=keys)
    response = await gw.ask(post(BODY, ASKED, SERVING, line))
    assert response.status == 200
    assert (explanation(response) is not None) == is_shown
    assert worker.requests[0].all("x-smg-admin-authorization") == []


async def test_it_stays_a_header_however_much_there_is_to_say(gateway):
    workers = [ScriptedWorker() for _ in range(40)]
    gw = await gateway(*workers, policy="least_ttft")
    response = await gw.ask(post(BODY, ASKED))
    assert response.status == 200
    assert 1000 < len(explanation(response) or "") <= 4096
