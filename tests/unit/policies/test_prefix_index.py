"""What counts as the prompt, and which worker holds how much of one."""

from typing import Any

import pytest

from smg._fast.index import MAX_WORKERS
from smg.policies.ask import Ask
from smg.policies.prefix_index import PrefixIndex, Prompt, prompt_of
from tests.unit.policies.fleet import ask, call, fleet, hinted, worker

TEXT = "a prompt of some length, " * 20


def prompt(one: Ask) -> Prompt:
    found = prompt_of(one)
    assert found is not None
    return found


def text_of(found: Prompt) -> bytes:
    pairs = memoryview(found.spans or b"").cast("q")
    return b"|".join(found.body[a:b] for a, b in zip(pairs[::2], pairs[1::2], strict=True))


@pytest.mark.parametrize(
    ("endpoint", "body", "text"),
    [
        ("chat", {"messages": [{"role": "user", "content": "one"}, {"content": "two"}]}, b"one|two"),
        ("completions", {"model": "m", "prompt": "one"}, b"one"),
        ("completions", {"prompt": [1, 2]}, b"[1, 2]"),
        ("generate", {"text": "one"}, b"one"),
        ("generate", {"input_ids": [1, 2], "text": None}, b"[1, 2]"),
        ("embeddings", {"input": ["one", "two"]}, b'["one", "two"]'),
        ("responses", {"input": "one"}, b"one"),
        ("messages", {"messages": [{"content": [{"type": "text", "text": "one"}]}]}, b"one"),
    ],
)
def test_the_prompt_of_a_body(endpoint: str, body: dict[str, Any], text: bytes) -> None:
    found = prompt(Ask(call(body, endpoint), lambda name: None))
    assert text_of(found) == text
    assert found.size == len(text.replace(b"|", b""))


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [("chat", None), ("chat", {"messages": []}), ("completions", {}), ("score", {"text": "x"})],
)
def test_no_prompt(endpoint: str, body: dict[str, Any] | None) -> None:
    assert prompt_of(Ask(call(body, endpoint), lambda name: None)) is None


def test_hinted_tokens_replace_the_text() -> None:
    found = prompt(hinted(range(10), TEXT))
    assert found.tokens is not None
    assert list(found.tokens) == list(range(10))
    assert found.size == 40


@pytest.mark.parametrize("make", [ask, lambda text: hinted([ord(c) for c in text])], ids=["text", "tokens"])
def test_holders_of_prefixes(make: Any) -> None:
    index, workers = PrefixIndex(1 << 20), fleet(3)
    scale = 1 if make is ask else 4
    short, long = prompt(make(TEXT[:256])), prompt(make(TEXT[:400]))
    index.insert(long, workers[0])
    index.insert(short, workers[1])
    assert index.best(long) == (400 * scale, [workers[0]])
    assert index.best(short) == (256 * scale, list(workers[:2]))
    index.forget(workers[0])
    assert index.best(long) == (256 * scale, [workers[1]])


def test_text_and_tokens_are_apart() -> None:
    index, workers = PrefixIndex(1 << 20), fleet(1)
    index.insert(prompt(ask(TEXT)), workers[0])
    assert index.best(prompt(hinted(range(64)))) == (0, [])


def test_a_place_is_given_to_the_next_when_its_worker_is_gone() -> None:
    index = PrefixIndex(1 << 20)
    (late,) = fleet(1)
    first = worker(1)
    assert index.slot(first) is not None
    for _ in range(MAX_WORKERS - 1):
        index.slot(worker(2))
    index.insert(prompt(ask(TEXT)), first)
    assert index.slot(late) is None
    index.insert(prompt(ask(TEXT)), late)
    assert index.best(prompt(ask(TEXT)))[1] == [first]
    index.forget(first)
    index.forget(first)
    assert index.slot(late) is not None
    assert index.best(prompt(ask(TEXT))) == (0, [])


def test_the_index_is_bounded_at_every_moment() -> None:
    index, workers = PrefixIndex(4096), fleet(1)
    first = prompt(ask("first " * 100))
    index.insert(first, workers[0])
    for number in range(500):
        index.insert(prompt(ask(f"{number:05} " * 50)), workers[0])
    assert index.best(first) == (0, [])
    assert index.best(prompt(ask(f"{499:05} " * 50))) == (300, list(workers))
