"""A reverse proxy as one writes it with aiohttp in an afternoon, to be measured beside the gateway:
`python -m benches.load.plain_aiohttp PORT WORKER_URL ...`. No checks, no metrics, no retries."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncIterator

import aiohttp
import uvloop
from aiohttp import web

SESSION = web.AppKey("session", aiohttp.ClientSession)
MAX_BODY = 1 << 30
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


def build(workers: list[str]) -> web.Application:
    turns = itertools.cycle(workers)

    async def forward(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        url = next(turns) + request.path_qs
        async with request.app[SESSION].request(request.method, url, data=body, headers=headers) as answer:
            if answer.content_type != "text/event-stream":
                whole = await answer.read()
                return web.Response(status=answer.status, body=whole, content_type=answer.content_type)
            stream = web.StreamResponse(status=answer.status)
            stream.content_type = answer.content_type
            await stream.prepare(request)
            async for piece in answer.content.iter_any():
                await stream.write(piece)
            return stream

    async def session(app: web.Application) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as opened:
            app[SESSION] = opened
            yield

    app = web.Application(client_max_size=MAX_BODY)
    app.cleanup_ctx.append(session)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


if __name__ == "__main__":
    app = build(sys.argv[2:])
    web.run_app(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=None,
        print=None,
        loop=uvloop.new_event_loop(),
    )
