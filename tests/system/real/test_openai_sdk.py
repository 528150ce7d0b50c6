"""The OpenAI SDK for Python through a real gateway."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

MODEL = "simulated-model"
QUESTION = [{"role": "user", "content": "What are you?"}]


@pytest.fixture
def client(simulated: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=simulated, api_key="not-needed", max_retries=0, timeout=20) as client:
        yield client


def test_models_are_listed(client: openai.OpenAI) -> None:
    listed = client.models.list()
    assert [(model.id, model.owned_by) for model in listed.data] == [(MODEL, "self_hosted")]
    assert client.models.retrieve(MODEL).id == MODEL


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION)
    assert answer.choices[0].message.content.startswith("This is a simulated engine")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_says_the_same_as_chat(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION).choices[0].message.content
    options = {"include_usage": True}
    pieces, usage = [], None
    for chunk in client.chat.completions.create(
        model=MODEL, messages=QUESTION, stream=True, stream_options=options
    ):
        usage = chunk.usage or usage
        pieces += [choice.delta.content or "" for choice in chunk.choices]
    assert "".join(pieces) == whole
    assert usage.completion_tokens > 0
    assert len(pieces) > 3


def test_legacy_completion(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt="Once", max_tokens=5)
    assert answer.choices[0].finish_reason == "length"


def test_embeddings(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model=MODEL, input=["a", "b"])
    assert len(answer.data) == 2


def test_unknown_model_is_a_not_found_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="nope", messages=QUESTION)
    assert refused.value.code == "model_not_found"


async def test_async_client_can_leave_a_stream(simulated: str) -> None:
    async with openai.AsyncOpenAI(base_url=simulated, api_key="x", max_retries=0, timeout=20) as client:
        async with await client.chat.completions.create(
            model=MODEL, messages=QUESTION, stream=True
        ) as stream:
            async for _ in stream:
                break
        answer = await client.chat.completions.create(model=MODEL, messages=QUESTION)
        assert answer.choices[0].message.content
