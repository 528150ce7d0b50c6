"""Admin routes that parse a text as the gateway would an engine's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from smg import errors
from smg.server.deps import Deps, has_json_type, json_answer, read_body

T = TypeVar("T")


class Reasoning(msgspec.Struct):
    """The body of `/parse/reasoning`."""

    text: str
    reasoning_parser: str


class Function(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: Any = None
    strict: bool | None = None


class Tool(msgspec.Struct):
    type: str
    function: Function


class FunctionCall(msgspec.Struct):
    """The body of `/parse/function_call`."""

    text: str
    tool_call_parser: str
    tools: list[Tool]


class ParsingRoutes:
    """One text is parsed at a time, in a thread: a large one takes seconds, and the loop has other work."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._turn = asyncio.Semaphore()

    def routes(self) -> list[web.RouteDef]:
        guarded = self._deps.guarded
        return [
            web.post("/parse/reasoning", guarded(self.reasoning)),
            web.post("/parse/function_call", guarded(self.function_call)),
        ]

    async def reasoning(self, request: web.Request) -> web.Response:
        return await self._answer(request, Reasoning, _reasoning)

    async def function_call(self, request: web.Request) -> web.Response:
        return await self._answer(request, FunctionCall, _function_call)

    async def _answer(
        self, request: web.Request, kind: type[T], parse: Callable[[T], dict[str, Any] | str]
    ) -> web.Response:
        """`parse` gives the answer, or says what it does not know."""
        if not has_json_type(request):
            raise errors.unsupported_media_type()
        body = await read_body(request)
        async with self._turn:
            found = await asyncio.to_thread(lambda: parse(_decoded(body, kind)))
        if isinstance(found, str):
            return json_answer({"error": found, "success": False}, 400)
        return json_answer(found | {"success": True})


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as problem:
        message = f"Failed to deserialize the JSON body into the target type: {problem}"
        raise errors.unprocessable(message) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise errors.malformed_json(str(problem)) from None


# The parsers are imported when they are asked for: a gateway of HTTP workers does without them.


def _reasoning(asked: Reasoning) -> dict[str, Any] | str:
    from smg.text.reasoning import PARSERS

    split = PARSERS.get(asked.reasoning_parser)
    if split is None:
        return f"Unknown reasoning parser: {asked.reasoning_parser}"
    reasoning, rest = split(asked.text)
    return {"normal_text": rest, "reasoning_text": reasoning}


def _function_call(asked: FunctionCall) -> dict[str, Any] | str:
    from smg.text.tools import PARSERS
    from smg.text.tools.values import Schemas

    parser = PARSERS.get(asked.tool_call_parser)
    if parser is None:
        return f"Unknown tool parser: {asked.tool_call_parser}"
    schemas = Schemas({tool.function.name: tool.function.parameters for tool in asked.tools})
    answer = parser(schemas).parse(asked.text)
    calls = [{"function": {"name": name, "arguments": arguments}} for name, arguments in answer.calls]
    return {"remaining_text": answer.text, "tool_calls": calls}
