"""Decisions in the words of SGLang's System One API, and its reply in those of Decisions."""

from __future__ import annotations

from typing import Any, TypeGuard

import msgspec
from msgspec import UNSET

from smg import errors
from smg.api.decisions import Choose, Decisions, Predicate, Score
from smg.api.decisions_scoring import unsupported
from smg.api.pairs import Pairs, read_pairs

PATH = b"/v1/systemone"

# What single precision loses in a softmax.
_TOLERANCE = 1e-6
_MAX_MESSAGE = 65_536

Answer = dict[str, Any]


class InvalidReply(Exception):
    """A reply that is no answer to the questions; the text says what is wrong."""


# ---- the request


def request_body(call: Decisions) -> bytes:
    """What the worker is asked. Raises 400 for what System One cannot do."""
    if problem := unsupported(call):
        raise errors.unsupported_decisions_request(problem)
    questions = {f"q{index}": _question(one) for index, one in enumerate(call.request.questions)}
    return msgspec.json.encode(
        {"model": call.model, "state": msgspec.Raw(call.evidence), "questions": questions}
    )


def _question(question: Predicate | Choose | Score) -> dict[str, Any]:
    criteria: Any
    if isinstance(question, Predicate):
        return {"type": "noul", "instructions": question.instructions}
    if isinstance(question, Choose):
        kind = "choice"
        # Members that were not given are left out of the Structs' JSON.
        criteria = {f"o{index}": choice for index, choice in enumerate(question.choices)}
    else:
        kind, criteria = "score", question.levels
    return {"type": kind, "instructions": question.instructions, "criteria": criteria}


# ---- the reply


def response_body(call: Decisions, reply: bytes) -> bytes:
    """The client's answer from the worker's. Raises `InvalidReply`."""
    content = _read(reply)
    model = content.get("model")
    if not isinstance(model, str):
        raise InvalidReply("SGLang Decisions returned invalid or missing model")
    answers = content.get("answers")
    if not isinstance(answers, dict):
        raise InvalidReply("SGLang Decisions returned invalid or missing answers")
    questions = call.request.questions
    if len(answers) != len(questions):
        raise InvalidReply("SGLang Decisions returned an unexpected number of answers")
    mapped = [_answer(f"q{index}", one, answers) for index, one in enumerate(questions)]
    return msgspec.json.encode({"model": model, "answers": mapped, "usage": _usage(content)})


def _read(reply: bytes) -> dict[str, Any]:
    """The reply's members. One that is given twice could hide an answer behind another."""
    try:
        content = msgspec.json.decode(reply)
        if isinstance(content, dict):
            _refuse_repeated(read_pairs(reply))
            return content
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidReply(f"Invalid SGLang Decisions JSON: {error}") from None
    return {}


def _refuse_repeated(value: Any) -> None:
    if isinstance(value, Pairs):
        if len({name for name, _ in value}) != len(value):
            raise InvalidReply("Invalid SGLang Decisions JSON: a member is given twice")
        for _, member in value:
            _refuse_repeated(member)
    elif isinstance(value, list):
        for item in value:
            _refuse_repeated(item)


def _answer(key: str, question: Predicate | Choose | Score, answers: dict[str, Any]) -> Answer:
    if key not in answers:
        raise InvalidReply(f"SGLang Decisions omitted answer {key}")
    given = answers[key] if isinstance(answers[key], dict) else {}
    name = question.name if question.name is not UNSET else None
    kind = given.get("type")
    if isinstance(question, Predicate) and kind == "noul":
        return {"type": "predicate", "name": name, "probability": _probability(given.get("noul"))}
    if isinstance(question, Choose) and kind == "choice":
        return {"type": "choice", "name": name, **_chosen(key, question, given)}
    if isinstance(question, Score) and kind == "score":
        return {"type": "score", "name": name, **_scored(key, question, given)}
    raise InvalidReply(f"SGLang Decisions returned an unexpected answer type for {key}")


def _chosen(key: str, question: Choose, given: dict[str, Any]) -> Answer:
    names = [f"o{index}" for index in range(len(question.choices))]
    probabilities = _distribution(key, names, given)
    chosen = given.get("choice")
    if not isinstance(chosen, str) or chosen not in names:
        raise InvalidReply(f"SGLang Decisions returned unknown choice {_shown(chosen)} for {key}")
    index = names.index(chosen)
    if probabilities[index] < max(probabilities):
        raise InvalidReply(f"SGLang Decisions returned a choice that is not most probable for {key}")
    return {
        "choice": question.choices[index].value,
        "confidence": _confidence(given),
        "probabilities": [
            {"value": choice.value, "probability": probability}
            for choice, probability in zip(question.choices, probabilities, strict=True)
        ],
    }


def _scored(key: str, question: Score, given: dict[str, Any]) -> Answer:
    top = len(question.levels) - 1
    probabilities = _distribution(key, [str(level) for level in range(top + 1)], given)
    score = given.get("score")
    if not _is_number(score) or not 0 <= score <= top:
        raise InvalidReply(f"SGLang Decisions returned an out-of-range score for {key}")
    mean = sum(level * probability for level, probability in enumerate(probabilities))
    if abs(score - mean) > _TOLERANCE * max(top, 1):
        raise InvalidReply(f"SGLang Decisions returned a score inconsistent with its probabilities for {key}")
    return {
        "score": score,
        "confidence": _confidence(given),
        "probabilities": [
            {"value": value, "label": level.label, "probability": probability}
            for value, (level, probability) in enumerate(zip(question.levels, probabilities, strict=True))
        ],
    }


def _distribution(key: str, names: list[str], given: dict[str, Any]) -> list[float]:
    probabilities = given.get("probabilities")
    if not isinstance(probabilities, dict) or len(probabilities) != len(names):
        raise InvalidReply(f"SGLang Decisions returned invalid probabilities for {key}")
    for name in names:
        if name not in probabilities:
            raise InvalidReply(f"SGLang Decisions omitted probability {key}/{name}")
    values = [_probability(probabilities[name]) for name in names]
    if abs(sum(values) - 1) > _TOLERANCE:
        raise InvalidReply("SGLang Decisions probabilities do not sum to one")
    return values


def _confidence(given: dict[str, Any]) -> float:
    if "confidence" not in given:
        raise InvalidReply("SGLang Decisions omitted confidence")
    return _probability(given["confidence"])


def _probability(value: Any) -> float:
    if not _is_number(value) or not 0 <= value <= 1:
        raise InvalidReply("SGLang Decisions returned an invalid probability or confidence")
    return value


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _usage(content: dict[str, Any]) -> dict[str, Any]:
    """Labels are scored, not generated; System One does not tell what its caches did."""
    usage = content.get("usage")
    if not isinstance(usage, dict):
        raise InvalidReply("SGLang Decisions omitted usage")
    counts = {}
    for name in ("input_tokens", "output_tokens"):
        count = usage.get(name)
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise InvalidReply(f"SGLang Decisions returned invalid {name}")
        counts[name] = count
    if counts["output_tokens"]:
        raise InvalidReply("SGLang Decisions scoring unexpectedly reported output tokens")
    return {
        **counts,
        "total_tokens": counts["input_tokens"],
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }


def _shown(value: Any) -> str:
    return (value if isinstance(value, str) else msgspec.json.encode(value).decode())[:100]


# ---- a worker's error


def own_error_text(body: bytes) -> str | None:
    """What a worker's error says when its body has no `error` object of OpenAI's; None when it has one."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        content = None
    if isinstance(content, dict):
        if isinstance(content.get("error"), dict):
            return None
        if "detail" in content:
            detail = content["detail"]
            text = detail if isinstance(detail, str) else msgspec.json.encode(detail).decode()
            return text[:_MAX_MESSAGE]
    return body[: _MAX_MESSAGE * 4].decode("utf-8", "replace")[:_MAX_MESSAGE]
