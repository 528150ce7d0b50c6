"""Guesses of what a prompt costs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smg.api.call import Call
from smg.api.surfaces import SURFACES
from smg.gateway.spend import estimate

BY_PATH = {surface.path: surface for surface in SURFACES}
IMAGE = "data:image/png;base64," + "A" * 400_000


def cost(path: str, body: Any) -> int:
    return estimate(Call(BY_PATH[path], "m", False, json.dumps(body).encode() if body is not None else None))


@pytest.mark.parametrize(
    ("path", "body", "tokens"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 9}]}, 3),
        (
            "/v1/chat/completions",
            {"messages": [{"content": [{"type": "text", "text": "x" * 8}, {"image_url": {"url": IMAGE}}]}]},
            2,
        ),
        ("/v1/chat/completions", {"messages": [], "max_tokens": 1000}, 1),
        ("/v1/completions", {"prompt": "x" * 8}, 2),
        ("/v1/completions", {"prompt": [1, 22, 333]}, 3),
        ("/generate", {"text": "x" * 8}, 2),
        ("/generate", {"input_ids": [[1, 2], [3, 4]]}, 4),
        ("/v1/messages", {"system": "x" * 40, "messages": [{"content": "x" * 40}]}, 20),
        ("/v1/responses", {"input": "x" * 40, "instructions": "x" * 4}, 11),
        ("/v1/embeddings", {"input": "x" * 40}, 10),
        ("/v1/rerank", {"query": "q"}, 4),
        ("/v1/audio/transcriptions", None, 0),
    ],
)
def test_estimates(path: str, body: Any, tokens: int) -> None:
    assert cost(path, body) == tokens


def test_images_in_other_bodies_are_no_text() -> None:
    assert cost("/v1/responses", {"input": [{"content": [{"image_url": IMAGE}, {"text": "x" * 100}]}]}) < 60
