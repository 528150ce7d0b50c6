"""What a scrape shows after requests of all sorts (control plane, section 19)."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.waiting import happened, until
from tests.wire.raw_client import BODY, CHAT, STREAM_BODY, chat, get, head, post
from tests.wire.scripted_worker import ScriptedWorker, chunk, event


def values(gw) -> dict[str, float]:
    """Every sample, by its name and labels as they stand in the text."""
    lines = [line.rsplit(" ", 1) for line in gw.metrics.splitlines() if not line.startswith("#")]
    assert len(lines) == len({name for name, _ in lines})
    return {name: float(value) for name, value in lines}


ROUTER = 'router_type="http",backend_type="regular",connection_mode="http",model="m",endpoint="chat"'


async def test_streams_and_their_times(gateway):
    worker = ScriptedWorker(lambda connection, request: connection.stream(event("a"), event("b"), event("c")))
    gw = await gateway(worker)
    for _ in range(3):
        assert (await gw.ask(post(STREAM_BODY))).status == 200
    await gw.settled()
    found = values(gw)
    assert found[f'smg_router_requests_total{{{ROUTER},streaming="true"}}'] == 3
    assert found['smg_router_ttft_seconds_count{model="m",endpoint="chat"}'] == 3
    assert found[f"smg_router_request_duration_seconds_count{{{ROUTER}}}"] == 3
    ttft = found['smg_router_ttft_seconds_sum{model="m",endpoint="chat"}']
    assert 0 < ttft <= found[f"smg_router_request_duration_seconds_sum{{{ROUTER}}}"]
    assert found["smg_upstream_connect_seconds_count"] == found["smg_upstream_connects_total"] >= 1
    assert found["smg_router_event_gap_seconds_count"] <= 9
    assert found['smg_worker_cb_outcomes_total{worker="%s",outcome="success"}' % worker.url] == 3  # noqa: UP031


async def test_gaps_are_those_of_the_worker(gateway):
    async def pauses(connection, request):
        await connection.stream(event("a"), done=False)
        await happened(heard)
        await connection.send(chunk(event("b")) + b"0\r\n\r\n")

    heard = asyncio.Event()
    worker = ScriptedWorker(pauses)
    gw = await gateway(worker)
    client = await gw.client()
    await client.send(post(STREAM_BODY))
    await client.until_received(b'"a"')
    heard.set()
    await client.read()
    found = values(gw)
    assert found["smg_router_event_gap_seconds_count"] == 1
    longest = found['smg_router_stream_longest_gap_seconds_sum{endpoint="chat"}']
    assert longest == found["smg_router_event_gap_seconds_sum"] > 0
    assert found['smg_router_ttft_seconds_count{model="m",endpoint="chat"}'] == 1


async def test_retries(gateway):
    async def fails(connection, request):
        await connection.answer(b"{}", "503 Service Unavailable")

    worker = ScriptedWorker(fails)
    gw = await gateway(worker, retry_max_retries=3)
    assert (await gw.ask(post(BODY))).status == 503
    await gw.settled()
    found = values(gw)
    labels = '{worker_type="regular",endpoint="chat"}'
    assert found[f"smg_worker_retries_total{labels}"] == 2
    assert found[f"smg_worker_retries_exhausted_total{labels}"] == 1
    assert found['smg_worker_retry_backoff_seconds_count{attempt="1"}'] == 1
    assert found['smg_worker_retry_backoff_seconds_count{attempt="2"}'] == 1
    upstream = 'smg_router_upstream_responses_total{router_type="http",status_code="503",error_code=""}'
    assert found[upstream] == 3
    assert found[f'smg_worker_requests_total{{worker="{worker.url}",model="m"}}'] == 3
    assert found[f'smg_router_request_errors_total{{{ROUTER},error_type="backend_error"}}'] == 1
    assert found[f'smg_http_responses_total{{path="{CHAT}",status_code="503",error_code=""}}'] == 1


async def test_a_client_that_leaves_and_a_stream_that_breaks(gateway):
    async def breaks(connection, request):
        await connection.stream(event("a"), done=False)
        if b"leave" in request.body:
            await happened(connection.ended)
        else:
            connection.transport.abort()

    gw = await gateway(ScriptedWorker(breaks))
    await gw.ask(post(STREAM_BODY))
    client = await gw.client()
    await client.send(post(STREAM_BODY.replace(b"hi", b"leave")))
    await client.until_received(b'"a"')
    client.transport.abort()
    await gw.settled()
    name = f'smg_http_responses_total{{path="{CHAT}",'
    await until(lambda: f'{name}status_code="499",error_code="client_closed_request"}} 1' in gw.metrics)
    assert values(gw)[f'{name}status_code="200",error_code="stream_error"}}'] == 1


async def test_codes_are_those_that_clients_see(gateway):
    """An answer without a code in it has none in the metrics."""
    gw = await gateway(ScriptedWorker(), api_key="k")
    await gw.ask(post(BODY))
    await gw.ask(post(BODY.replace(b'"m"', b'"nobody"'), "Authorization: Bearer k"))
    await gw.settled()
    found, name = values(gw), f'smg_http_responses_total{{path="{CHAT}",'
    assert found[f'{name}status_code="401",error_code=""}}'] == 1
    assert found[f'{name}status_code="404",error_code="model_not_found"}}'] == 1


async def test_routes_that_aiohttp_answers(gateway):
    gw = await gateway(ScriptedWorker())
    for target in ("/v1/models", "/workers/nobody", "/nothing/here?x=y", "/health"):
        await gw.ask(get(target), "GET")
    await gw.ask(head("BREW", "/health"))
    found = values(gw)
    assert found['smg_http_requests_total{method="GET",path="/v1/models"}'] == 1
    assert found['smg_http_requests_total{method="GET",path="/workers/{worker_id}"}'] == 1
    assert found['smg_http_responses_total{path="other",status_code="404",error_code="unknown_url"}'] == 1
    assert found['smg_http_request_duration_seconds_count{method="GET",path="/health"}'] == 1
    assert "BREW" not in gw.metrics


@pytest.mark.parametrize(
    ("policy", "lines", "branch"),
    [
        ("consistent_hashing", [], "random_fallback"),
        ("consistent_hashing", ["X-SMG-Routing-Key: k"], "routing_key_hit"),
        ("consistent_hashing", ["X-SMG-Target-Worker: 0"], "target_worker_hit"),
        ("consistent_hashing", ["X-SMG-Target-Worker: 9"], "target_worker_miss"),
        ("manual", [], "no_routing_id"),
        ("manual", ["X-SMG-Routing-Key: k"], "vacant"),
        ("prefix_hash", [], "ring_hit"),
        ("cache_aware", [], "expected_wait_fallback"),
    ],
)
async def test_branches_of_policies(gateway, policy, lines, branch):
    gw = await gateway(ScriptedWorker(), policy=policy)
    await gw.ask(post(BODY, *lines))
    name = f"smg_{policy}_policy_branch_total"
    found = {key: value for key, value in values(gw).items() if "_policy_branch_total" in key}
    assert found == {f'{name}{{branch="{branch}"}}': 1}


async def test_what_cache_aware_finds(gateway):
    worker = ScriptedWorker()
    gw = await gateway(worker, policy="cache_aware")
    for _ in range(3):
        await gw.ask(post(chat("a long prompt, " * 50)))
    found = values(gw)
    assert found['smg_cache_aware_policy_branch_total{branch="tree_match"}'] == 2
    assert found["smg_cache_aware_match_ratio_count"] == 3
    assert found['smg_cache_aware_match_ratio_bucket{le="0"}'] == 1
    assert found['smg_cache_aware_match_ratio_bucket{le="0.8"}'] == 1
    sent = found[f'smg_worker_prompt_bytes_total{{worker="{worker.url}"}}']
    held = found[f'smg_worker_matched_bytes_total{{worker="{worker.url}"}}']
    assert 0.5 * sent < held <= sent * 2 / 3


async def test_the_whole_text_is_valid(gateway):
    gw = await gateway(ScriptedWorker(), policy="cache_aware")
    await gw.ask(post(BODY))
    families = {family.name: family for family in parsed(gw.metrics)}
    for name in (
        "smg_admission_inflight",
        "smg_build_info",
        "smg_http_rate_limit",
        "smg_loop_lag_seconds",
        "smg_worker_pool_size",
        "process_cpu_seconds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    ):
        assert families[name].samples, name
    assert 0 < families["process_open_fds"].samples[0].value < families["process_max_fds"].samples[0].value
