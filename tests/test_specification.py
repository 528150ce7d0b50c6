"""The tables of the API's specification against the gateway: every field has a place in the types, every
error code a function, every rule of a profile an input that breaks it, every header a reader or setter.

tests/data/specification.json is made by tools/read_specification.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from smg import errors
from smg.api.audio import FormReader
from smg.api.messages import MESSAGE_TYPES
from smg.api.surfaces import SURFACES
from smg.server.openapi import make_document
from tests.unit.api.requests import TOOL, USER, chat, keep, refused_chat
from tests.wire.live_gateway import running
from tests.wire.raw_client import chat as chat_body
from tests.wire.raw_client import post
from tests.wire.scripted_worker import ScriptedWorker

ROOT = Path(__file__).resolve().parent.parent
LISTED = json.loads((ROOT / "tests/data/specification.json").read_text(encoding="utf-8"))
SCHEMAS = make_document("1")["components"]["schemas"]

CHAT_ONLY = {"continue_final_message", "separate_reasoning", "stream_reasoning", "chat_template_kwargs"}
RANGE = re.compile(r"\((-?[\d.]+)(?:-| to )(-?[\d.]+)\)")
QUOTED = re.compile(r"`(\w+)`")

# Codes and headers of what is not built, by its name.
CODES_OF_UNBUILT = {
    "gRPC engines": {
        "context_length_exceeded",
        "unsupported_content_part",
        "audio_output_not_supported",
        "unsupported_output_modality",
        "multimodal_not_supported",
        "start_generation_failed",
        "prefill_worker_failed_to_start",
        "decode_worker_failed_to_start",
        "audio_transcription_model_not_supported",
        "streaming_transcription_not_supported",
        "transcription_timestamps_not_supported",
        "unsupported_transcription_response_format",
        "unsupported_transcription_language",
        "asr_prompt_too_long",
    },
}
HEADERS_OF_UNBUILT = {
    "external providers": {"x-goog-api-key"},
    "MCP tools": {"x-smg-mcp"},
    "storage hooks": {"--storage-context-headers"},
}
# Where a header is read or set.
HEADERS = {
    "content-type": "smg/gateway/admit.py",
    "authorization": "smg/gateway/admit.py",
    "x-api-key": "smg/server/models.py",
    "x-request-id": "smg/api/request_id.py",
    "traceparent": "smg/_fast/head.pyx",
    "tracestate": "smg/_fast/head.pyx",
    "x-smg-routing-key": "smg/api/hints.py",
    "x-smg-routing-tokens": "smg/api/hints.py",
    "x-smg-target-worker": "smg/api/hints.py",
    "x-smg-routed-worker-id": "smg/backends/http.py",
    "x-smg-error-code": "smg/errors/error.py",
    "retry-after": "smg/errors/admission.py",
    "x-smg-preempted": "smg/errors/admission.py",
    "x-smg-priority": "smg/admission/priority.py",
    "x-smg-tenant-id": "smg/config/admission.py",
}


def rows(*tables: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each name of some tables beside its row."""
    for row in chain.from_iterable(LISTED[table] for table in tables):
        yield from ((name, row) for name in row["names"])


def names(*tables: str) -> set[str]:
    return {name for name, _ in rows(*tables)}


# ---- fields


def alternatives(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas a value may have, null aside, references followed."""
    if "$ref" in schema:
        yield from alternatives(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    elif "anyOf" in schema:
        yield from chain.from_iterable(map(alternatives, schema["anyOf"]))
    elif schema.get("type") != "null":
        yield schema


def kinds(schema: dict[str, Any]) -> set[str]:
    return {one.get("type") or ("string" if "enum" in one else "") for one in alternatives(schema)}


FIELDS = [
    *(("ChatRequest", *one) for one in rows("chat", "extensions")),
    *(("CompletionRequest", *one) for one in rows("completions")),
    *(("CompletionRequest", *one) for one in rows("extensions") if one[0] not in CHAT_ONLY),
    *(("Thinking", *one) for one in rows("thinking")),
    *(("StreamOptions", *one) for one in rows("stream_options")),
    *(("DecisionsRequest", *one) for one in rows("decisions")),
    *(("DecisionsMessage", *one) for one in rows("decision_message")),
    *(("TranscriptionForm", *one) for one in rows("transcription")),
]


@pytest.mark.parametrize(
    ("schema", "name", "row"), FIELDS, ids=lambda one: one if isinstance(one, str) else ""
)
def test_fields_have_a_place(schema: str, name: str, row: dict[str, Any]) -> None:
    described = SCHEMAS[schema]
    field = described["properties"][name]
    if "Type" in row:
        assert kinds(field) == set(row["Type"].split("/"))
    if "Required" in row:
        assert (name in described.get("required", ())) == (row["Required"] == "Yes")
    if bounds := RANGE.search(row.get("Description", "")):
        number = next(iter(alternatives(field)))
        assert (number["minimum"], number["maximum"]) == tuple(map(float, bounds.groups()))


def test_completions_have_a_json_schema_and_no_field_of_chats() -> None:
    fields = SCHEMAS["CompletionRequest"]["properties"]
    assert kinds(fields["json_schema"]) == {"string"}
    assert not CHAT_ONLY & fields.keys()
    assert names("extensions") >= CHAT_ONLY


def test_fields_of_messages_have_a_place() -> None:
    messages = [SCHEMAS[one.__name__] for one in MESSAGE_TYPES]
    for name, row in rows("message"):
        holders = [one for one in messages if name in one["properties"]]
        assert holders, name
        if row["Required"].startswith("For"):
            role = QUOTED.search(row["Required"])
            assert role is not None
            assert [one["properties"]["role"]["enum"] for one in holders] == [[role[1]]]
        for one in holders:
            described = kinds(one["properties"][name]) - {""}
            assert not described or described == set(row["Type"].split("/"))
    written = next(row for name, row in rows("message") if name == "role")["Description"]
    roles = QUOTED.findall(written)
    assert roles == [one["properties"]["role"]["enum"][0] for one in messages]


def test_parts_and_questions_of_decisions_have_a_place() -> None:
    tagged = {schema["properties"]["type"]["enum"][0]: schema for schema in tagged_schemas()}
    for name, row in rows("decision_parts", "decision_questions"):
        told = row.get("Payload") or row["Extra fields"]
        fields = set(QUOTED.findall(told.partition(":")[0].partition("(")[0]))
        assert fields <= tagged[name]["properties"].keys()


def tagged_schemas() -> Iterator[dict[str, Any]]:
    for name, schema in SCHEMAS.items():
        if name.startswith("Decisions") and "enum" in schema["properties"].get("type", {}):
            yield schema


def test_fields_of_forms_are_sent_on() -> None:
    values = {"temperature": "0.5", "stream": "true", "timestamp_granularities[]": "word"}
    surface = next(one for one in SURFACES if one.takes_form)
    reader = FormReader(b"multipart/form-data; boundary=b")
    for name in names("transcription") - {"file"}:
        value = values.get(name, "x")
        reader.feed(f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    reader.feed(head + b"sound\r\n--b--\r\n")
    form = reader.finish(surface, keep).form
    sent = b"".join(form).decode()
    form.close()
    assert all(f'name="{name.removesuffix("[]")}' in sent for name in names("transcription"))


# ---- error codes

BUILT_CODES = {(str(error.code), error.status) for error in errors.table()}
UNBUILT_CODES = set[str]().union(*CODES_OF_UNBUILT.values())
CODE_TABLES = ("error_codes", "shed_codes", "decision_errors", "transcription_grpc_errors")


@pytest.mark.parametrize(("code", "row"), list(rows(*CODE_TABLES)))
def test_error_codes_have_a_function(code: str, row: dict[str, Any]) -> None:
    if code in UNBUILT_CODES:
        assert code not in {built for built, _ in BUILT_CODES}, "built: take it off the list"
    else:
        assert (code, int(row.get("Status", 400))) in BUILT_CODES


def test_only_listed_codes_are_said_to_be_unbuilt() -> None:
    assert names(*CODE_TABLES) >= UNBUILT_CODES
    assert sum(map(len, CODES_OF_UNBUILT.values())) == len(UNBUILT_CODES)


def test_the_code_that_has_no_name_is_an_empty_401() -> None:
    nameless = [row["Status"] for row in LISTED["error_codes"] if not row["names"]]
    assert nameless == ["401"]
    assert errors.render(errors.unauthorized("r", wrong_key=False))[1] == b""


# ---- rules of profiles

BASELINE, KIMI, K3, MINIMAX = "m", "moonshotai/Kimi-K2", "moonshotai/Kimi-K3", "MiniMaxAI/MiniMax-M3"
GLM, GLM53, V4 = "zai-org/GLM-4.7", "zai-org/GLM-5.3", "deepseek-ai/deepseek-v4-pro"


def declaring(role: str, tools: Any, **message: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": "", **message, "tools": tools}, USER]}


def history(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [USER, *messages, USER]}


def called(name: str, arguments: str = "{}") -> dict[str, Any]:
    call = {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "tool_calls": [call]}


def answered(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": "x"}


def tool(**changed: Any) -> dict[str, Any]:
    return {**TOOL, **changed}


ADAPTIVE = {"thinking": {"type": "adaptive"}}
NAMELESS = tool(function={"name": "a-b"})
FILE = {"messages": [{"role": "user", "content": [{"type": "file_url", "file_url": {"url": "x"}}]}]}
DISAGREEING = {"thinking": True, "enable_thinking": False}

# What breaks the rule, and some of the words it is refused with.
BREAKING: dict[tuple[str, str], tuple[str, dict[str, Any], str]] = {
    ("All except MiniMax", "invalid_role"): (
        BASELINE,
        {"messages": [{"role": "root", "content": "x"}, USER]},
        "invalid role: root",
    ),
    ("Kimi", "tools_role_restricted"): (KIMI, declaring("user", [TOOL], content="x"), "is not allowed"),
    ("Kimi", "tools_malformed"): (KIMI, declaring("system", "x"), "must be a list of tool declarations"),
    ("Kimi", "tools_content_conflict"): (
        KIMI,
        declaring("system", [TOOL], content="x"),
        "requires empty content",
    ),
    ("Kimi", "tool_type_unsupported"): (
        KIMI,
        declaring("system", [tool(type="web")]),
        "tool type must be 'function'",
    ),
    ("Kimi", "tool_name_invalid"): (KIMI, declaring("system", [NAMELESS]), "tool name must match"),
    ("Kimi", "tool_name_duplicate"): (KIMI, declaring("system", [TOOL, TOOL]), "duplicate tool name"),
    ("Kimi K3", "temperature_not_allowed"): (K3, {"temperature": 0.7}, "invalid temperature"),
    ("Kimi K3", "top_p_not_allowed"): (K3, {"top_p": 0.9}, "invalid top_p"),
    ("Kimi K3", "presence_penalty_not_allowed"): (K3, {"presence_penalty": 1}, "invalid presence_penalty"),
    ("Kimi K3", "frequency_penalty_not_allowed"): (K3, {"frequency_penalty": 1}, "invalid frequency_penalty"),
    ("Kimi K3", "n_not_allowed"): (K3, {"n": 2}, "invalid n"),
    ("Kimi K3", "thinking_type_not_supported"): (K3, ADAPTIVE, "invalid thinking.type"),
    ("z.ai", "thinking_type_not_supported"): (GLM, ADAPTIVE, "invalid thinking.type"),
    ("DeepSeek V4", "thinking_type_not_supported"): (V4, ADAPTIVE, "thinking.type must be"),
    ("Kimi K3", "thinking_effort_invalid"): (
        K3,
        {"thinking": {"effort": "medium"}},
        "invalid thinking.effort",
    ),
    ("MiniMax", "tool_call_id_duplicate"): (
        MINIMAX,
        history(called("a"), answered("a"), called("a"), answered("a")),
        "duplicate tool_call id",
    ),
    ("MiniMax", "tool_call_id_mismatch"): (MINIMAX, history(answered("a")), "no pending tool_call"),
    ("MiniMax", "tool_call_arguments_invalid_json"): (
        MINIMAX,
        history(called("a", "[]"), answered("a")),
        "are not a JSON object",
    ),
    ("MiniMax", "tool_call_unanswered"): (MINIMAX, history(called("a")), "has no matching tool message"),
    ("z.ai", "reasoning_effort_not_allowed"): (
        GLM,
        {"reasoning_effort": "ultra"},
        "invalid reasoning_effort",
    ),
    ("z.ai GLM-5.3", "thinking_disabled_not_supported"): (
        GLM53,
        {"thinking": {"type": "disabled"}},
        "thinking cannot be disabled",
    ),
    ("z.ai", "tool_type_not_supported"): (GLM, {"tools": [tool(type="web")]}, "invalid tools[].type"),
    ("z.ai", "content_part_not_supported"): (GLM, FILE, "file_url content blocks are not supported"),
    ("DeepSeek V4", "reasoning_effort_not_allowed"): (
        V4,
        {"reasoning_effort": "ultra"},
        "reasoning effort must be",
    ),
    ("DeepSeek V4", "invalid_thinking_override"): (
        V4,
        {"chat_template_kwargs": {"thinking": 1}},
        "must be booleans or null",
    ),
    ("DeepSeek V4", "conflicting_thinking_overrides"): (
        V4,
        {"chat_template_kwargs": DISAGREEING},
        "must agree",
    ),
    ("DeepSeek V4", "tool_choice_not_supported"): (
        V4,
        {"tools": [TOOL], "tool_choice": "required"},
        "requires thinking to be disabled",
    ),
}
UNBUILT_RULES = {("z.ai (gRPC)", "context_length_exceeded")}


def test_every_rule_of_a_profile_has_an_input_that_breaks_it() -> None:
    rules = {(one, rule) for rule, row in rows("profile_rules") for one in row["Profile"].split(", ")}
    assert BREAKING.keys() | UNBUILT_RULES == rules


@pytest.mark.parametrize(("profile", "rule"), BREAKING)
def test_rules_of_profiles_are_kept(profile: str, rule: str) -> None:
    model, fields, words = BREAKING[profile, rule]
    assert words in refused_chat(model, **fields)
    chat(MINIMAX if model == BASELINE else BASELINE, **fields)


# ---- headers

UNBUILT_HEADERS = set[str]().union(*HEADERS_OF_UNBUILT.values())


def test_every_header_has_a_reader_or_a_setter() -> None:
    listed = {name.lower() for name in names("request_headers", "hint_headers", "response_headers")}
    assert HEADERS.keys() | UNBUILT_HEADERS == listed
    assert not HEADERS.keys() & UNBUILT_HEADERS
    for name, path in HEADERS.items():
        assert re.search(f'"{name}[":]', (ROOT / path).read_text(encoding="utf-8").lower()), name


async def test_only_the_headers_of_the_list_are_passed_on() -> None:
    worker = ScriptedWorker()
    passed = {f"{name}a" if name.endswith("-") else name for name in LISTED["forwarded_headers"]}
    kept = {*names("request_headers", "hint_headers"), "Cookie", "X-Other"} - passed - {"Content-Type"}
    lines = [f"{name}: v-{name}" for name in sorted(passed | {one for one in kept if one[0] != "-"})]
    async with running(worker) as live:
        assert (await live.ask(post(chat_body(), *lines))).status == 200
    (request,) = worker.requests
    assert {name for name in passed if request.get(name.lower()) == f"v-{name}"} == passed
    assert not {name for name in kept if request.get(name.lower()) is not None}


async def test_answers_have_the_headers_of_the_list() -> None:
    worker = ScriptedWorker()
    async with running(worker, request_id_headers=()) as live:
        served = await live.ask(post(chat_body()))
        missing = await live.ask(post(chat_body(model="nobody")))
        refused = await live.ask(post(b"{}"))
    assert served.get("x-smg-routed-worker-id") == worker.url
    assert all(one.get("x-request-id") for one in (served, missing, refused))
    assert missing.get("x-smg-error-code") == missing.code == "model_not_found"
    assert refused.status == 400
    assert refused.get("x-smg-error-code") is None
