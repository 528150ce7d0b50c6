"""Chat completions: checks a request in the contract's order and plans the edits its bytes need."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import chain, islice

import msgspec

from smg.api import rules
from smg.api.chat_request import CHAT, REASONING_ALIAS
from smg.api.draft import Draft, model_in
from smg.api.profiles.profile import Profile, object_in, tool_names
from smg.api.profiles.table import select
from smg.api.tools import choice_problem, read_choice

_MODEL = CHAT.slots["model"]
_RANGED = rules.ranged_bits(CHAT)
# Only these take part in rules between fields.
_RULED = CHAT.bits(
    "top_logprobs",
    "stream_options",
    "min_tokens",
    "regex",
    "ebnf",
    "response_format",
    "tool_choice",
    "logit_bias",
)
# Whole numbers beyond 64 bits are read like fractions.
_LEAST_WHOLE, _MOST_WHOLE = -(1 << 63), (1 << 64) - 1
_REWRITTEN = CHAT.bits("max_tokens", "reasoning_effort")


def read_chat(body: bytes) -> Draft:
    """Check a body and its rules; raises 400."""
    found = CHAT.read(body)
    model = found.value(_MODEL)
    assert model is not None
    draft = Draft(CHAT, found, model_in(model))
    if found.breached or draft.present & _RANGED:
        rules.check_ranges(draft)
    profile = select(draft)
    if draft.present & _RULED:
        problem = next(_rule_problems(draft, profile), None)
        if problem is not None:
            raise rules.broken(problem)
    problem = profile.problem(draft)
    if problem is not None:
        raise rules.broken(problem)
    if draft.present & _REWRITTEN or found.marked & REASONING_ALIAS:
        _rewrite(draft)
    profile.rewrite(draft)
    return draft


def _rule_problems(draft: Draft, profile: Profile) -> Iterator[str]:
    """The broken rules between fields, in the order in which they are checked."""
    if draft.has("top_logprobs") and draft.written("logprobs") != b"true":
        yield "top_logprobs is only allowed when logprobs is enabled"
    if (problem := rules.stream_options_problem(draft)) is not None:
        yield problem
    most = draft.written("max_completion_tokens") or draft.written("max_tokens")
    if (problem := rules.min_tokens_problem(draft, most, "max_tokens/max_completion_tokens")) is not None:
        yield problem
    yield from _output_problems(draft)
    if draft.has("tool_choice"):
        names = tool_names(draft, profile)
        first = list(islice(names, 1))
        choice = read_choice(draft.text, *draft.span("tool_choice"))
        if (problem := choice_problem(choice, draft.text, bool(first), chain(first, names))) is not None:
            yield problem
    if (problem := rules.logit_bias_problem(draft)) is not None:
        yield problem


def _output_problems(draft: Draft) -> Iterator[str]:
    """Rules of structured output."""
    wanted = draft.inside("response_format")
    kind = msgspec.json.decode(wanted.raw(b"type") or b"null") if wanted is not None else None
    if kind in ("json_object", "json_schema"):
        if draft.has("regex"):
            yield "cannot use regex constraint with JSON response format"
        if draft.has("ebnf"):
            yield "cannot use EBNF constraint with JSON response format"
    if draft.has("regex") + draft.has("ebnf") + (kind == "json_schema") > 1:
        yield rules.ONE_CONSTRAINT
    if wanted is None or kind != "json_schema":
        return
    named = object_in(wanted, b"json_schema")
    assert named is not None
    if named.raw(b"name") == b'""':
        yield "JSON schema name cannot be empty"
    if object_in(named, b"schema") is None:
        yield "JSON schema 'schema' must be a JSON object"


def _rewrite(draft: Draft) -> None:
    """The edits that every profile has."""
    if draft.has("max_tokens"):
        _migrate_max_tokens(draft)
    effort = draft.written("reasoning_effort")
    if effort is not None and not effort.startswith(b'"'):
        draft.replace("reasoning_effort", b'"' + effort_text(effort).encode() + b'"')
    if draft.found.marked & REASONING_ALIAS:
        draft.found.rename_marked(draft.edits, REASONING_ALIAS, b'"reasoning_content"')


def _migrate_max_tokens(draft: Draft) -> None:
    """`max_tokens` becomes `max_completion_tokens` where that is not set."""
    if draft.has("max_completion_tokens"):
        return
    slots = draft.contract.slots
    if draft.found.place(slots["max_completion_tokens"]) is None:
        place = draft.found.place(slots["max_tokens"])
        assert place is not None
        draft.edits.put(place[0], place[1], b'"max_completion_tokens"')
    else:
        draft.replace("max_completion_tokens", draft.written("max_tokens") or b"")
        draft.remove(b"max_tokens")


def effort_text(written: bytes) -> str:
    """The decimal text of a number: `3`, `0.5`, `1000.0` for `1e3`; of a very large or small one `1e+16`."""
    text = written.decode()
    if text.lstrip("-").isdigit() and text != "-0" and _LEAST_WHOLE <= int(text) <= _MOST_WHOLE:
        return text
    shortest = repr(float(text))
    mantissa, _, exponent = shortest.partition("e")
    if not exponent:
        return mantissa
    return format(Decimal(shortest), "f") if int(exponent) == -5 else f"{mantissa}e{int(exponent):+}"
