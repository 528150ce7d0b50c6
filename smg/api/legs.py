"""The bodies of the two legs of a prefill/decode pair, made from the client's bytes by edits, and what of the
prefill leg's answer goes into the other's.

The legs of SGLang carry where and under which number the prefill worker hands its KV cache over; those of
vLLM carry `kv_transfer_params`. Everything else stays as the client wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from smg._fast.jsonedit import Edits, splice
from smg._fast.jsonspan import JsonError, Members, elements, members, members_at

_NUMBER_BEGINS = frozenset(b"-0123456789")
_NOT_FOR_PREFILL = (b"min_tokens", b"stream_options")
_HOST, _PORT, _ROOM = b"bootstrap_host", b"bootstrap_port", b"bootstrap_room"
_KV = b"kv_transfer_params"
_LOGPROBS = b"input_token_logprobs"
_ONE = b"1"


def put(body: bytes, values: Mapping[bytes, bytes]) -> bytes:
    """`body` with members set to values, which are written JSON; new ones come last. Of a repeated member the
    last place counts."""
    found = members(body)
    assert found is not None
    edits, added = [], []
    for name, value in values.items():
        span = found.span(name)
        if span is not None:
            edits.append((*span, value))
        else:
            added.append(b'"' + name + b'":' + value)
    if added:
        edits.append(found.addition(b",".join(added)))
    return splice(body, edits)


def without(body: bytes, *names: bytes) -> bytes:
    found = members(body)
    assert found is not None
    edits = Edits(body)
    found.remove(edits, *names)
    return edits.apply()


# ---- SGLang


def bootstrapped(endpoint: str, body: bytes, host: str, port: int | None, room: Callable[[], int]) -> bytes:
    """What both legs get: the prefill worker's bootstrap address and a room, or lists of them for a batch."""
    found = members(body)
    assert found is not None
    size = batch_size(endpoint, found)
    values = {_HOST: [msgspec.json.encode(host)], _PORT: [msgspec.json.encode(port)]}
    if size is None:
        values[_ROOM] = [b"%d" % room()]
        return put(body, {name: value[0] for name, value in values.items()})
    values = {name: value * size for name, value in values.items()}
    values[_ROOM] = [b"%d" % room() for _ in range(size)]
    return put(body, {name: b"[" + b",".join(value) + b"]" for name, value in values.items()})


def batch_size(endpoint: str, found: Members) -> int | None:
    """How many prompts or choices the engine makes of a request; None: it is a single one."""
    if endpoint == "chat":
        n = _integer(found, b"n")
        return n if n > 1 else None
    if endpoint == "completions":
        return _count(found, b"prompt")
    if endpoint == "generate":
        return _count(found, b"text") or _count(found, b"input_ids")
    return None


def _integer(found: Members, name: bytes) -> int:
    raw = found.raw(name)
    return int(raw) if raw is not None and raw.isdigit() else 0


def _count(found: Members, name: bytes) -> int | None:
    """The length of a list of prompts; None for a single prompt, which may be a list of tokens."""
    span = found.span(name)
    text = found.text
    if span is None or text[span[0] : span[0] + 1] != b"[":
        return None
    count = 0
    for start, _ in elements(text, span[0]):
        if text[start] in _NUMBER_BEGINS:
            return None
        count += 1
    return count or None


def wants_input_logprobs(endpoint: str, body: bytes) -> bool:
    found = members(body) if endpoint == "generate" else None
    return found is not None and found.raw(b"return_logprob") == b"true"


def merge_input_logprobs(prefill: bytes, decode: bytes) -> bytes:
    """The decode leg's answer with the prompt's log-probabilities of both; as it is when one lacks them."""
    try:
        both = _merge(_only_answer(prefill), decode)
    except JsonError:
        return decode
    return both if both is not None else decode


def merge_into_events(prefill: bytes, events: bytes) -> bytes:
    """The same for whole events of the decode leg's stream."""
    answer = _only_answer(prefill)
    lines = events.split(b"\n")
    for place, line in enumerate(lines):
        if line.startswith(b"data:") and _LOGPROBS in line:
            payload = line[5:].strip()
            lines[place] = b"data: " + merge_input_logprobs(answer, payload)
    return b"\n".join(lines)


def _only_answer(answer: bytes) -> bytes:
    """What a prefill worker has said, also when it said it in a stream."""
    for line in answer.split(b"\n"):
        if line.startswith(b"data:") and _LOGPROBS in line:
            return line[5:].strip()
    return answer


def _merge(prefill: bytes, decode: bytes) -> bytes | None:
    if decode.lstrip()[:1] == b"[" and prefill.lstrip()[:1] == b"[":
        members(prefill)
        members(decode)
        spans = list(elements(decode, decode.index(b"[")))
        firsts = [prefill[a:b] for a, b in elements(prefill, prefill.index(b"["))]
        if len(firsts) != len(spans):
            return None
        edits = [
            (a, b, _merge(first, decode[a:b]) or decode[a:b])
            for first, (a, b) in zip(firsts, spans, strict=True)
        ]
        return splice(decode, edits)
    first, second = _meta_info(prefill), _meta_info(decode)
    if first is None or second is None:
        return None
    head, span = first.raw(_LOGPROBS), second.span(_LOGPROBS)
    tail = second.raw(_LOGPROBS)
    if head is None or tail is None or span is None or head[:1] != b"[" or tail[:1] != b"[":
        return None
    inner = [part for part in (head[1:-1].strip(), tail[1:-1].strip()) if part]
    return splice(decode, [(*span, b"[" + b",".join(inner) + b"]")])


def _meta_info(answer: bytes) -> Members | None:
    found = members(answer)
    span = found.span(b"meta_info") if found is not None else None
    if span is None or answer[span[0] : span[0] + 1] != b"{":
        return None
    # Of the whole text, so that its spans are the answer's.
    return members_at(answer, span[0])


# ---- vLLM


def is_forked(endpoint: str, body: bytes) -> bool:
    """Does it ask for several choices? Their KV caches cannot be handed over: the decode worker does both."""
    found = members(body) if endpoint in ("chat", "completions") else None
    return found is not None and _integer(found, b"n") > 1


def as_sent(endpoint: str, body: bytes, sent: bytes | None) -> bytes:
    """`body` with the limit of a chat under the name the client has used, which vLLM knows as well."""
    found = members(sent) if endpoint == "chat" and sent is not None else None
    if found is None or found.raw(b"max_tokens") in (None, b"null"):
        return body
    if found.raw(b"max_completion_tokens") not in (None, b"null"):
        return body
    ours = members(body)
    limit = ours.raw(b"max_completion_tokens") if ours is not None else None
    if limit is None:
        return body
    return put(without(body, b"max_completion_tokens"), {b"max_tokens": limit})


def prefill_only(endpoint: str, body: bytes, params: bytes | None) -> bytes:
    """The body that makes a vLLM worker prefill: one token, no stream. `params`: its `kv_transfer_params`."""
    body = without(body, *_NOT_FOR_PREFILL)
    found = members(body)
    assert found is not None
    limit = b"max_output_tokens" if endpoint == "responses" else b"max_tokens"
    if endpoint == "chat" and found.raw(b"max_completion_tokens") not in (None, b"null"):
        limit = b"max_completion_tokens"
    values = {limit: _ONE, b"stream": b"false"}
    if params is not None:
        values[_KV] = params
    return put(body, values)


def handed_over(answer: bytes) -> bytes | None:
    """The `kv_transfer_params` of a prefill worker's answer, as written."""
    try:
        found = members(answer)
    except JsonError:
        return None
    raw = found.raw(_KV) if found is not None else None
    return raw if raw is not None and raw[:1] == b"{" else None


def with_params(body: bytes, params: bytes | None) -> bytes:
    """The decode leg's body."""
    return body if params is None else put(body, {_KV: params})
