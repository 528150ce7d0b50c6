"""The Redis client, by the library `redis`: scripts sent together in one pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from smg.state.link import CONNECT_S, Script, Word

Call = tuple[Script, Sequence[str], Sequence[Word]]


class RedisConnection:
    """One connection, made when it is first used. Raises what the library raises."""

    def __init__(self, url: str) -> None:
        self._client: Any = redis.asyncio.Redis.from_url(
            url,
            single_connection_client=False,
            max_connections=2,
            socket_connect_timeout=CONNECT_S,
            # The link bounds every answer and tries again by itself.
            socket_timeout=None,
            retry=Retry(NoBackoff(), 0),
            decode_responses=False,
        )

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """The answer to each call; exceptions stand where Redis refused one."""
        answers = await self._pipeline([("EVALSHA", one[0].sha, *_rest(one)) for one in calls])
        unknown = [at for at, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:
            # A Redis that was started anew; it keeps the text from now on.
            again = [("EVAL", calls[at][0].text, *_rest(calls[at])) for at in unknown]
            for at, answer in zip(unknown, await self._pipeline(again), strict=True):
                answers[at] = answer
        return answers

    async def close(self) -> None:
        await self._client.aclose()

    async def _pipeline(self, commands: Sequence[tuple[Word, ...]]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers


def _rest(call: Call) -> tuple[Word, ...]:
    _, keys, arguments = call
    return (len(keys), *keys, *arguments)
