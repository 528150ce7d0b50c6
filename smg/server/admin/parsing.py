"""Admin routes that parse a text as the gateway would an engine's."""

from __future__ import annotations

import msgspec
from aiohttp import web

from smg import errors
from smg.api.reasoning import UNBUILT, split_reasoning
from smg.server.deps import Deps, has_json_type, json_answer, read_body


class Reasoning(msgspec.Struct):
    """The body of `/parse/reasoning`."""

    text: str
    reasoning_parser: str


class ParsingRoutes:
    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def routes(self) -> list[web.RouteDef]:
        guarded = self._deps.guarded
        return [
            web.post("/parse/reasoning", guarded(self.reasoning)),
            web.post("/parse/function_call", guarded(self.function_call)),
        ]

    async def reasoning(self, request: web.Request) -> web.Response:
        asked = await _read(request)
        name = asked.reasoning_parser
        if name in UNBUILT:
            raise errors.not_implemented(f"The reasoning parser {name}")
        try:
            reasoning, rest = split_reasoning(asked.text, name)
        except KeyError:
            return json_answer({"error": f"Unknown reasoning parser: {name}", "success": False}, 400)
        return json_answer({"normal_text": rest, "reasoning_text": reasoning, "success": True})

    async def function_call(self, request: web.Request) -> web.Response:
        raise errors.not_implemented("Parsing")


async def _read(request: web.Request) -> Reasoning:
    if not has_json_type(request):
        raise errors.unsupported_media_type()
    body = await read_body(request)
    try:
        return msgspec.json.decode(body, type=Reasoning)
    except msgspec.ValidationError as problem:
        raise errors.unprocessable(str(problem)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise errors.malformed_json(str(problem)) from None
