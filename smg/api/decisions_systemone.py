"""Decisions in the words of SGLang's System One API, and its reply in those of Decisions."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, TypeGuard

import msgspec
from msgspec import UNSET

from smg import errors
from smg._fast.jsonedit import Edits, splice
from smg._fast.jsonspan import JsonError, Members, elements, members, members_at
from smg.api.decisions import Decisions
from smg.api.decisions_reading import PIECE, QUESTION
from smg.api.decisions_schema import Choose, Predicate, Score
from smg.api.decisions_scoring import unsupported
from smg.api.pairs import Pairs, read_pairs

PATH = b"/v1/systemone"

# What single precision loses in a softmax.
_TOLERANCE = 1e-6
_MAX_MESSAGE = 65_536
_TWICE = "a member is given twice"
_KINDS = {"predicate": b"noul", "choice": b"choice", "score": b"score"}

Answer = dict[str, Any]


class InvalidReply(Exception):
    """A reply that is no answer to the questions; the text says what is wrong."""


# ---- the request


def request_body(call: Decisions, piece: int = PIECE) -> bytes:
    """What the worker is asked. Raises 400 for what System One cannot do. May run in any thread; `piece`:
    bytes that are read in one step."""
    if problem := unsupported(call.findings):
        raise errors.unsupported_decisions_request(problem)
    assert call.body is not None
    written = _Written(call.body)
    written.put(b'{"model":%b,"state":' % msgspec.json.encode(call.model))
    written.copy(*call.evidence)
    written.put(b',"questions":{')
    for index, (start, end) in enumerate(elements(written.text, call.questions[0])):
        written.put(b'%b"q%d":' % (b"," if index else b"", index))
        if end - start > piece:
            _write_large(written, start)
        else:
            written.put(msgspec.json.encode(_question(QUESTION.one.decode(written.text[start:end]))))
    written.put(b"}}")
    return written.finish()


class _Written:
    """A text put together from new bytes and spans of an old one."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._edits = Edits(text)
        self._new: list[bytes] = []
        self._size = 0

    def put(self, new: bytes) -> None:
        self._new.append(new)
        self._size += len(new)
        if self._size > PIECE:
            self._flush()

    def copy(self, start: int, end: int) -> None:
        self._flush()
        self._edits.repeat(0, start, end)

    def finish(self) -> bytes:
        self._flush()
        self._edits.put(0, len(self.text), b"")
        return self._edits.apply()

    def _flush(self) -> None:
        self._edits.put(0, 0, b"".join(self._new))
        self._new.clear()
        self._size = 0


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


def _write_large(written: _Written, start: int) -> None:
    """The same from the question's bytes as they are: there is nothing in them that no schema knows."""
    found = members_at(written.text, start)
    kind = msgspec.json.decode(found.raw(b"type") or b"", type=str)
    written.put(b'{"type":"%b","instructions":' % _KINDS[kind])
    written.copy(*(found.span(b"instructions") or (0, 0)))
    choices, levels = found.span(b"choices"), found.span(b"levels")
    if choices is not None:
        written.put(b',"criteria":{')
        for index, span in enumerate(elements(written.text, choices[0])):
            written.put(b'%b"o%d":' % (b"," if index else b"", index))
            written.copy(*span)
        written.put(b"}")
    elif levels is not None:
        written.put(b',"criteria":')
        written.copy(*levels)
    written.put(b"}")


# ---- the reply


def response_body(call: Decisions, reply: bytes, piece: int = PIECE) -> bytes:
    """The client's answer from the worker's. Raises `InvalidReply`. May run in any thread; `piece`: bytes of
    the call that are read in one step."""
    content, answers = _read(reply)
    model = content.get("model")
    if not isinstance(model, str):
        raise InvalidReply("SGLang Decisions returned invalid or missing model")
    if answers is None:
        raise InvalidReply("SGLang Decisions returned invalid or missing answers")
    if len(answers) != call.findings.questions:
        raise InvalidReply("SGLang Decisions returned an unexpected number of answers")
    written = _Written(reply)
    written.put(b'{"model":%b,"answers":[' % msgspec.json.encode(model))
    places = _places(answers)
    for index, question in enumerate(_questions(call, piece)):
        key = f"q{index}"
        if places[2 * index + 1] == 0:
            raise InvalidReply(f"SGLang Decisions omitted answer {key}")
        given = _decode(reply[places[2 * index] : places[2 * index + 1]])
        written.put(b"," if index else b"")
        written.put(msgspec.json.encode(_answer(key, question, given)))
    written.put(b'],"usage":%b}' % msgspec.json.encode(_usage(content)))
    return written.finish()


def _read(reply: bytes) -> tuple[dict[str, Any], Members | None]:
    """The reply's members and, if they are an object, its answers, which are read one by one."""
    try:
        found = members(reply)
    except JsonError as error:
        _decode(reply)
        raise _invalid(str(error)) from None
    span = found.span(b"answers") if found is not None else None
    if span is None or reply[span[0]] != ord("{"):
        return _decode(reply), None
    return _decode(splice(reply, [(*span, b"{}")])), members_at(reply, span[0])


def _places(answers: Members) -> array[int]:
    """Where the answers to the questions stand: a start and an end for each, zeros where there is none."""
    places = array("q", bytes(16 * len(answers)))
    for name, (start, end) in zip(answers.names(), answers.values(), strict=True):
        number = name[1:]
        if name[:1] != b"q" or not number.isdigit() or len(number) > 9 or name != b"q%d" % int(number):
            continue
        index = int(number)
        if index < len(answers):
            if places[2 * index + 1]:
                raise _invalid(_TWICE)
            places[2 * index : 2 * index + 2] = array("q", (start, end))
    return places


def _questions(call: Decisions, piece: int) -> Iterator[Predicate | Choose | Score]:
    """The call's questions; of large ones without the texts that no answer repeats."""
    text = call.body
    assert text is not None
    for start, end in elements(text, call.questions[0]):
        yield QUESTION.one.decode(text[start:end] if end - start <= piece else _outline(text, start))


def _outline(text: bytes, start: int) -> bytes:
    found = members_at(text, start)
    parts = [b'"type":%b,"instructions":""' % (found.raw(b"type") or b"")]
    name = found.raw(b"name")
    if name is not None:
        parts.append(b'"name":%b' % name)
    for listed, named in ((b"choices", b"value"), (b"levels", b"label")):
        span = found.span(listed)
        if span is not None:
            options = (members_at(text, option) for option, _ in elements(text, span[0]))
            given = b",".join(b'{"%b":%b}' % (named, option.raw(named) or b"") for option in options)
            parts.append(b'"%b":[%b]' % (listed, given))
    return b"{%b}" % b",".join(parts)


def _decode(written: bytes) -> dict[str, Any]:
    """An object. A member that is given twice could hide an answer behind another."""
    try:
        content = msgspec.json.decode(written)
        if isinstance(content, dict):
            _refuse_repeated(read_pairs(written))
            return content
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(str(error)) from None
    return {}


def _invalid(problem: str) -> InvalidReply:
    return InvalidReply(f"Invalid SGLang Decisions JSON: {problem}")


def _refuse_repeated(value: Any) -> None:
    if isinstance(value, Pairs):
        if len({name for name, _ in value}) != len(value):
            raise _invalid(_TWICE)
        for _, member in value:
            _refuse_repeated(member)
    elif isinstance(value, list):
        for item in value:
            _refuse_repeated(item)


def _answer(key: str, question: Predicate | Choose | Score, given: dict[str, Any]) -> Answer:
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
