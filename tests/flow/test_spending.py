"""Tenants' budgets over whole exchanges: paid in advance, put right by what the answer says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from smg.admission.budgets import LocalBudgets
from smg.admission.limits import Limits
from smg.admission.priority import Scheduler
from smg.admission.tenants import Tenants
from smg.config.side_files import DefaultScope, SchedulerFile, TenantsFile
from tests.fast.reference import chunked
from tests.flow.conversation import SSE, Flow, chat, request
from tests.flow.pairs import MakePair

MakeFlow = Callable[..., Flow]
RED = b"x-org: red"
LEFT = 10_000
# 400 bytes of text.
TEXT = "word " * 80
ESTIMATE = 100


class Purse(LocalBudgets):
    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(lambda: self.now)

    @property
    def spent(self) -> tuple[int, int]:
        """Tokens and requests that the tenant has used."""
        budget = self._strangers.get("header:red")
        if budget is None:
            return 0, 0
        return LEFT - round(budget.tokens), 10 - round(budget.requests)


@pytest.fixture
def purse() -> Purse:
    return Purse()


def tenants_of(purse: Purse) -> Tenants:
    file = TenantsFile(default_policy=DefaultScope(tokens_per_minute=LEFT, requests_per_minute=10))
    return Tenants(Limits(file), purse)


@pytest.fixture
def paid(make_flow: MakeFlow, purse: Purse) -> Callable[..., Flow]:
    def make(workers: int = 1, **options: Any) -> Flow:
        return make_flow(workers, tenants=tenants_of(purse), tenant_header="x-org", attempts=2, **options)

    return make


def usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def body(**members: Any) -> bytes:
    return json.dumps({"choices": [], **members}).encode()


def event(**members: Any) -> bytes:
    return b"data: " + body(**members) + b"\n\n"


def test_the_estimate_stands_until_the_answer_says_more(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid()
    client = flow.client(chat(RED, text=TEXT))
    assert purse.spent == (ESTIMATE, 1)
    flow.worker(0).answers(body=body(usage=usage(90, 300)))
    assert client.answer.status == 200 and purse.spent == (390, 1)


def test_an_answer_without_usage(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid()
    flow.client(chat(RED, text=TEXT))
    flow.worker(0).answers()
    assert purse.spent == (ESTIMATE, 1)


def test_a_stream_with_usage_in_whatever_pieces(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid()
    last = event(usage=usage(7, 5))
    data = chunked.encode(event(a=1), last[:40], last[40:], b"data: [DONE]\n\n")
    for at in (len(data) // 3, len(data) // 2, len(data)):
        before = purse.spent[0]
        flow.client(chat(RED, text=TEXT, stream=True))
        flow.worker(0).sends(SSE, *(one for one in (data[:at], data[at:]) if one))
        assert purse.spent[0] == before + 12


def test_a_stream_with_usage_byte_by_byte(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid()
    flow.client(chat(RED, text=TEXT, stream=True))
    data = chunked.encode(event(usage=usage(7, 5)), b"data: [DONE]\n\n")
    flow.worker(0).sends(SSE, *(data[n : n + 1] for n in range(len(data))))
    assert purse.spent == (12, 1)


def test_a_stream_without_usage_costs_a_token_an_event(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid()
    flow.client(chat(RED, text=TEXT, stream=True))
    flow.worker(0).sends(SSE)
    flow.worker(0).streams(*(event(n=n) for n in range(20)), b"data: [DONE]\n\n", end=True)
    assert purse.spent == (ESTIMATE + 20, 1)


@pytest.mark.parametrize("how", ["leaves", "breaks"])
def test_a_stream_that_is_cut_costs_what_came(paid: Callable[..., Flow], purse: Purse, how: str) -> None:
    flow = paid()
    client = flow.client(chat(RED, text=TEXT, stream=True))
    flow.worker(0).sends(SSE)
    flow.worker(0).streams(*(event(n=n) for n in range(20)))
    if how == "leaves":
        client.leaves()
    else:
        flow.worker(0).resets()
    assert purse.spent == (ESTIMATE + 20, 1)


def test_a_client_that_leaves_after_its_prompt_was_sent_pays_for_it(
    paid: Callable[..., Flow], purse: Purse
) -> None:
    flow = paid()
    flow.client(chat(RED, text=TEXT)).leaves()
    assert purse.spent == (ESTIMATE, 1)


def test_nothing_is_paid_when_no_worker_answers(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid()
    flow.worker(0).connects = "refused"
    client = flow.client(chat(RED, text=TEXT))
    flow.back_off()
    assert client.answer.status == 502 and purse.spent == (0, 0)
    assert flow.client(chat(RED, text=TEXT, model="none")).answer.status == 404
    assert purse.spent == (0, 0)


def test_a_refusal_of_the_worker_costs_a_request(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid()
    client = flow.client(chat(RED, text=TEXT))
    flow.worker(0).answers(400)
    assert client.answer.status == 400 and purse.spent == (0, 1)


@pytest.mark.parametrize("half", [0, 1])
def test_so_does_that_of_half_a_pair(make_pair: MakePair, purse: Purse, half: int) -> None:
    pair = make_pair(tenants=tenants_of(purse), tenant_header="x-org", attempts=2)
    client = pair.client(chat(RED, text=TEXT))
    pair.worker(half).answers(400)
    assert client.answer.status == 400 and purse.spent == (0, 1)
    client = pair.client(chat(RED, text=TEXT))
    pair.worker(half).resets()
    pair.worker(1 - half).ends()
    pair.back_off()
    for end in pair.ends:
        end.resets()
    assert client.answer.status == 502 and purse.spent == (0, 1)


def test_only_the_last_attempt_counts(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid(2)
    client = flow.client(chat(RED, text=TEXT))
    flow.worker(0).answers(503, body(usage=usage(1000, 1000)))
    flow.back_off()
    flow.worker(1).answers(body=body(usage=usage(1, 2)))
    assert client.answer.status == 200 and purse.spent == (3, 1)


def test_a_request_that_gives_way_costs_nothing(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid(permits=lambda loop: Scheduler(SchedulerFile(), "system", 9, 1, loop))
    low = flow.client(chat(RED, b"x-smg-priority: bulk", text=TEXT))
    assert purse.spent == (ESTIMATE, 1)
    high = flow.client(chat(b"x-smg-priority: system"))
    assert low.error == (503, "scheduler_preempted") and purse.spent == (0, 0)
    flow.worker(0).answers()
    assert high.answer.status == 200


def test_denied(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid()
    never = flow.client(chat(RED, text="x" * 4 * LEFT + "x"))
    assert never.error == (429, "tenant_rate_limit_exceeded") and never.answer.get("retry-after") is None
    flow.client(chat(RED, text=TEXT))
    flow.worker(0).answers(body=body(usage=usage(LEFT, 5000)))
    later = flow.client(chat(RED, text=TEXT, stream=True))
    assert later.error == (429, "tenant_rate_limit_exceeded")
    assert later.answer.get("retry-after") == str(-(-(5000 + ESTIMATE) * 60 // LEFT))
    other = flow.client(chat(b"x-org: blue"))
    flow.worker(0).answers()
    assert other.answer.status == 200
    assert len(flow.worker(0).requests) == 2
    assert flow.tenants is not None
    shown: Any = flow.tenants.snapshot()
    assert (shown["allowed"], shown["denied"], shown["refunded"]) == (2, 2, 0)
    assert shown["tenants"][0]["tenant"] == "header:red"


GENERATE = [
    # one result: the last counts; several: at least a token an event, at least the estimate
    ({"text": "[INST] " + TEXT}, 3 + 4),
    ({"text": [TEXT, TEXT]}, 202 + 12),
    ({"input_ids": [1, 2, 3]}, 3 + 4),
    ({"input_ids": [[1, 2, 3], [4, 5, 6]]}, 6 + 12),
    ({"text": "x", "sampling_params": {"n": 2}}, 3 + 12),
]


@pytest.mark.parametrize(("members", "cost"), GENERATE)
def test_streams_of_generate(paid: Callable[..., Flow], purse: Purse, members: Any, cost: int) -> None:
    flow = paid()
    flow.client(request(json.dumps({**members, "stream": True}).encode(), RED, path=b"/generate"))
    flow.worker(0).sends(SSE)
    told = {"prompt_tokens": 3, "completion_tokens": 4}
    flow.worker(0).streams(*(event(meta_info=told) for _ in range(12)), b"data: [DONE]\n\n", end=True)
    assert purse.spent == (cost, 1)


def test_a_large_body_is_read_to_be_paid_for(paid: Callable[..., Flow], purse: Purse) -> None:
    flow = paid(pipe_above=0)
    flow.client(chat(RED, text=TEXT))
    assert not flow.worker(0).requests[0][0].chunked and purse.spent == (ESTIMATE, 1)
    flow.worker(0).answers()
    assert not flow.x.piped
