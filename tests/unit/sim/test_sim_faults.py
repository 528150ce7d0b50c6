"""Fault plans of the simulated engine."""

from __future__ import annotations

import pytest

from smg.sim.faults import Cut, Fault, Plan, decode, parse


def test_reads_words_and_json() -> None:
    fault = Fault(kind="cut", after_events=5, how="close", probability=0.5, requests=3)
    assert parse("cut,after_events=5,how=close,probability=0.5,requests=3") == fault
    written = b'{"kind":"cut","after_events":5,"how":"close","probability":0.5,"requests":3}'
    assert decode(written) == decode(b"[" + written + b"]") == [fault]
    assert decode(b"[]") == []


@pytest.mark.parametrize(
    "text", ["", "bang", "status,status=x", "status,status", "delay,seconds=-1", "cut,when=1"]
)
def test_refuses_words(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"kind":"bang"}', b'[{"kind":"reset"},3]', b"x"])
def test_refuses_json(body: bytes) -> None:
    with pytest.raises(ValueError):
        decode(body)


def test_refuses_too_many() -> None:
    with pytest.raises(ValueError, match="more than 64"):
        decode(b"[" + b",".join([b'{"kind":"reset"}'] * 65) + b"]")


def test_faults_add_up_and_end() -> None:
    plan = Plan([parse("delay,seconds=2"), parse("status,status=500,requests=1"), parse("cut,how=stall")], 0)
    first = plan.verdict(is_probe=False)
    assert first is not None
    assert (first.delay_secs, first.action, first.status, first.cut) == (2, "status", 500, Cut(0, "stall"))
    second = plan.verdict(is_probe=False)
    assert second is not None
    assert second.action == ""
    assert [fault.fired for fault in plan.faults] == [2, 1, 2]


def test_probes_and_requests_are_apart() -> None:
    assert Plan([parse("reset")], 0).verdict(is_probe=True) is None
    assert Plan([parse("reset,on=probes")], 0).verdict(is_probe=False) is None
    assert Plan([parse("reset,on=all")], 0).verdict(is_probe=True) is not None


def test_chance_is_seeded() -> None:
    def run(seed: int) -> list[bool]:
        plan = Plan([parse("reset,probability=0.3")], seed)
        return [plan.verdict(is_probe=False) is not None for _ in range(200)]

    assert run(1) == run(1) != run(2)
    assert 30 < sum(run(1)) < 90
