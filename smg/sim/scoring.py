"""The endpoints that give numbers instead of text: embeddings, rerank, score and classify.

All numbers are pure functions of the input, in the shapes of the engine's kind.
"""

from __future__ import annotations

import array
import base64
import math
import random
import time
from typing import Any

import msgspec
import xxhash

from smg.sim.options import Options
from smg.sim.prefix_cache import count_tokens
from smg.sim.prompts import Refused, listed
from smg.sim.shapes import FINGERPRINT

LABELS = ("LABEL_0", "LABEL_1")
MAX_DIMS = 65536
MAX_INPUTS = 4096


class _Embeddings(msgspec.Struct):
    input: str | list[Any]
    model: str | None = None
    encoding_format: str | None = None
    dimensions: int | None = None


class _Rerank(msgspec.Struct):
    query: str
    documents: list[str | dict[str, Any]]
    model: str | None = None
    top_n: int | None = None
    top_k: int | None = None
    return_documents: bool | None = True


class _Score(msgspec.Struct):
    text_1: str | list[str] | None = None
    text_2: str | list[str] | None = None
    query: str | list[int] | None = None
    items: str | list[Any] | None = None
    label_token_ids: list[int] | None = None
    model: str | None = None


class _Classify(msgspec.Struct):
    input: str | list[Any] | None = None
    text: str | list[str] | None = None
    model: str | None = None


def _number(*parts: bytes) -> float:
    """A number from 0 to 1 that only these bytes have."""
    return xxhash.xxh3_64_intdigest(b"\0".join(parts)) / 2.0**64


def _bounded(inputs: list[bytes], param: str) -> list[bytes]:
    if len(inputs) > MAX_INPUTS:
        raise Refused(400, f"more than {MAX_INPUTS} entries in {param}", param)
    return inputs


def _usage(texts: list[bytes]) -> dict[str, int]:
    tokens = sum(map(count_tokens, texts))
    return {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}


def embeddings(body: bytes, options: Options, request_id: str) -> object:
    call = msgspec.json.decode(body, type=_Embeddings)
    inputs = _bounded(listed(call.input, "input"), "input")
    dims = options.embedding_dims if call.dimensions is None else call.dimensions
    if not 1 <= dims <= MAX_DIMS:
        raise Refused(400, f"dimensions must be from 1 to {MAX_DIMS}", "dimensions")
    vectors = [_vector(text, dims) for text in inputs]
    rows: list[object] = list(vectors)
    if call.encoding_format == "base64":
        rows = [base64.b64encode(array.array("f", vector).tobytes()).decode() for vector in vectors]
    return {
        "id": f"embd-{request_id}",
        "object": "list",
        "created": int(time.time()),
        "model": call.model or options.models[0],
        "data": [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)],
        "usage": _usage(inputs),
    }


def _vector(text: bytes, dims: int) -> list[float]:
    """A vector of length one."""
    source = random.Random(xxhash.xxh3_64_intdigest(text))  # noqa: S311
    raw = [source.uniform(-1, 1) for _ in range(dims)]
    length = math.sqrt(sum(value * value for value in raw)) or 1.0
    return [value / length for value in raw]


def rerank(body: bytes, options: Options, request_id: str) -> object:
    call = msgspec.json.decode(body, type=_Rerank)
    if not call.documents:
        raise Refused(400, "documents must not be empty", "documents")
    texts = [one if isinstance(one, str) else str(one.get("text", "")) for one in call.documents]
    query = call.query.encode()
    encoded = _bounded([text.encode() for text in texts], "documents")
    ranked = sorted(((_number(query, text), i) for i, text in enumerate(encoded)), reverse=True)
    first = call.top_n or call.top_k
    ranked = ranked[:first] if first and first > 0 else ranked
    if options.kind == "sglang":
        return [
            {"score": score, "index": i, **({"document": texts[i]} if call.return_documents else {})}
            for score, i in ranked
        ]
    return {
        "id": f"rerank-{request_id}",
        "model": call.model or options.models[0],
        "usage": {"total_tokens": sum(count_tokens(query + text) for text in encoded)},
        "results": [
            {"index": i, "document": {"text": texts[i]}, "relevance_score": score} for score, i in ranked
        ],
    }


def score(body: bytes, options: Options, request_id: str) -> object:
    call = msgspec.json.decode(body, type=_Score)
    if options.kind == "sglang":
        return _label_scores(call, options)
    if call.text_1 is None or call.text_2 is None:
        raise Refused(400, "text_1 and text_2 are needed", "text_1")
    left = listed(call.text_1, "text_1")
    right = _bounded(listed(call.text_2, "text_2"), "text_2")
    if len(left) not in (1, len(right)):
        raise Refused(400, "text_1 must be one text or as many as text_2", "text_1")
    pairs = list(zip(left * len(right) if len(left) == 1 else left, right, strict=True))
    return {
        "id": f"score-{request_id}",
        "object": "list",
        "created": int(time.time()),
        "model": call.model or options.models[0],
        "data": [{"index": i, "object": "score", "score": _number(*pair)} for i, pair in enumerate(pairs)],
        "usage": _usage([a + b for a, b in pairs]),
    }


def _label_scores(call: _Score, options: Options) -> object:
    """SGLang's form: for each item the probabilities of the given tokens."""
    if call.query is None or call.items is None or not call.label_token_ids:
        raise Refused(400, "query, items and label_token_ids are needed", "query")
    query = listed(call.query, "query")[0]
    items = _bounded(listed(call.items, "items"), "items")
    rows = []
    for item in items:
        weights = [_number(query, item, b"%d" % token) + 1e-9 for token in call.label_token_ids]
        rows.append([weight / sum(weights) for weight in weights])
    return {
        "scores": rows,
        "model": call.model or options.models[0],
        "usage": _usage([query + item for item in items]),
        "object": "scoring",
    }


def classify(body: bytes, options: Options, request_id: str) -> object:
    call = msgspec.json.decode(body, type=_Classify)
    asked = call.input if call.input is not None else call.text
    if asked is None:
        raise Refused(400, "input is needed", "input")
    inputs = _bounded(listed(asked, "input"), "input")
    if options.kind == "sglang" and call.input is None:  # the native reward model endpoint
        rows = [
            {
                "embedding": [_number(text)],
                "meta_info": {
                    "id": f"{request_id}-{i}",
                    "finish_reason": {"type": "length", "length": 0},
                    "prompt_tokens": count_tokens(text),
                    "weight_version": FINGERPRINT,
                },
            }
            for i, text in enumerate(inputs)
        ]
        return rows if isinstance(asked, list) else rows[0]
    data = []
    for i, text in enumerate(inputs):
        first = _number(text)
        probs = [first, 1 - first]
        label = LABELS[probs.index(max(probs))]
        data.append({"index": i, "label": label, "probs": probs, "num_classes": len(LABELS)})
    return {
        "id": f"classify-{request_id}",
        "object": "list",
        "created": int(time.time()),
        "model": call.model or options.models[0],
        "data": data,
        "usage": _usage(inputs),
    }
