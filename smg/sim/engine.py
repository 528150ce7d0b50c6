"""The simulated engine: routes requests, applies faults, counts, and owns cache and scheduler."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from smg.sim import faults, generation, scoring
from smg.sim.connection import Listener
from smg.sim.generation import Generation
from smg.sim.http import Request
from smg.sim.options import Options
from smg.sim.prefix_cache import PrefixCache
from smg.sim.probes import PROBES, Load
from smg.sim.prompts import Refused
from smg.sim.reply import JSON, TEXT, Reply
from smg.sim.schedule import Scheduler
from smg.sim.shapes import Usage

_GENERATING: dict[str, Callable[[bytes, Options, str], generation.Plan]] = {
    "/v1/chat/completions": generation.plan_chat,
    "/v1/completions": generation.plan_completion,
    "/generate": generation.plan_generate,
}
_SCORING: dict[str, Callable[[bytes, Options, str], object]] = {
    "/v1/embeddings": scoring.embeddings,
    "/v1/rerank": scoring.rerank,
    "/rerank": scoring.rerank,
    "/v1/score": scoring.score,
    "/score": scoring.score,
    "/classify": scoring.classify,
    "/v1/classify": scoring.classify,
}
# Paths of the above that an engine of this kind does not have.
_MISSING = {
    "sglang": {"/score"},
    "vllm": {"/generate", "/v1/classify"},
    "generic": {"/generate", "/score"},
}
_FLUSH_PATHS = {"sglang": "/flush_cache", "vllm": "/reset_prefix_cache", "generic": "/flush_cache"}
_OPEN_PATHS = ("/health", "/health_generate", "/metrics", "/ping")
_STATE_PATH, _FAULTS_PATH = "/sim/state", "/sim/faults"


class Disconnect(msgspec.Struct):
    """A client that left before its answer was complete."""

    path: str
    events_sent: int
    at: float


class Engine:
    """One engine on one port."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._loop = asyncio.get_running_loop()
        self._listener = Listener(
            self.serve, max_body_bytes=options.max_body_bytes, idle_secs=options.idle_secs
        )
        self._cache = PrefixCache(options.cache_tokens)
        self._scheduler = Scheduler(
            self._loop,
            self._cache,
            prefill_tps=options.prefill_tps,
            decode_tps=options.decode_tps,
            max_running=options.max_running,
            max_waiting=options.max_waiting,
            burst=options.burst_events * options.stream_interval,
        )
        self._plan = faults.Plan([msgspec.structs.replace(one) for one in options.faults], options.seed)
        self._probes = PROBES[options.kind]
        self._requests: Counter[str] = Counter()  # by known path
        self._id_prefix = os.urandom(4).hex()
        self._ids = 0
        self._prompt_tokens = self._cached_tokens = self._generated_tokens = self._finished = 0
        self._disconnects = 0
        self._last_disconnect: Disconnect | None = None
        self._rate_since = (self._loop.time(), 0)

    @property
    def url(self) -> str:
        return self._listener.url

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises `OSError`, for one when the port is taken."""
        await self._listener.start(host, port)

    async def close(self) -> None:
        self._scheduler.close()
        await self._listener.close()

    # ---- requests

    def serve(self, request: Request, reply: Reply) -> None:
        """Answer a request now or later."""
        path = request.path
        if path.startswith("/sim/"):
            self._control(request, reply)
            return
        is_probe = path in self._probes
        verdict = self._plan.verdict(is_probe=is_probe)
        self._requests[path if is_probe or self._is_known(path) else "other"] += 1
        reply.on_lost = lambda: self._left(reply)
        if verdict is None:
            self._dispatch(request, reply)
            return
        reply.cut = verdict.cut
        if verdict.delay_secs:
            self._loop.call_later(verdict.delay_secs, self._apply, verdict, request, reply)
        else:
            self._apply(verdict, request, reply)

    def _apply(self, verdict: faults.Verdict, request: Request, reply: Reply) -> None:
        if reply.is_lost:
            return
        if verdict.action == "stall":
            return
        if verdict.action == "reset":
            reply.reset()
        elif verdict.action == "close":
            reply.hang_up()
        elif verdict.action == "status":
            message = "simulated fault"
            reply.answer(verdict.status, self._error(Refused(verdict.status, message)))
        else:
            self._dispatch(request, reply)

    def _is_known(self, path: str) -> bool:
        if path in _MISSING[self.options.kind]:
            return False
        return path in _GENERATING or path in _SCORING or path == _FLUSH_PATHS[self.options.kind]

    def _dispatch(self, request: Request, reply: Reply) -> None:
        path = request.path
        try:
            self._authorize(request)
            if path in self._probes:
                self._expect(request, "GET", "POST" if path == "/ping" else "GET")
                content_type, body = self._probes[path](self.options, self._load)
                reply.answer(200, body, content_type)
            elif not self._is_known(path):
                raise Refused(404, "Not Found")
            elif path in _GENERATING:
                self._expect(request, "POST")
                self._generate(_GENERATING[path](request.body, self.options, self._next_id()), reply)
            elif path in _SCORING:
                self._expect(request, "POST")
                found = _SCORING[path](request.body, self.options, self._next_id())
                reply.answer(200, msgspec.json.encode(found))
            else:
                self._expect(request, "GET", "POST")
                self._cache.clear()
                reply.answer(200, b"Cache flushed.\n", TEXT)
        except Refused as refused:
            reply.answer(refused.status, self._error(refused))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            reply.answer(400, self._error(Refused(400, str(problem))))

    def _authorize(self, request: Request) -> None:
        key = self.options.api_key
        if key is None or request.path in _OPEN_PATHS:
            return
        sent = request.headers.get(b"authorization", b"")
        if not hmac.compare_digest(sent, b"Bearer " + key.encode()):
            raise Refused(401, "Unauthorized")

    def _expect(self, request: Request, *methods: str) -> None:
        if request.method not in methods:
            raise Refused(405, "Method Not Allowed")

    def _generate(self, plan: generation.Plan, reply: Reply) -> None:
        job = Generation(plan, reply, self.options, self._ended)
        reply.on_lost = lambda: self._left(reply, job)
        reply.on_writable = self._scheduler.wake
        if not self._scheduler.submit(job):
            raise Refused(503, "The request queue is full.")

    def _ended(self, usage: Usage) -> None:
        self._finished += 1
        self._prompt_tokens += usage.prompt_tokens
        self._cached_tokens += usage.cached_tokens
        self._generated_tokens += usage.completion_tokens

    def _left(self, reply: Reply, job: Generation | None = None) -> None:
        """A reply ended early: stop its work, and count it unless a fault did it."""
        if job is not None:
            self._scheduler.remove(job)
        if not reply.is_broken:
            self._disconnects += 1
            self._last_disconnect = Disconnect(reply.request.path, reply.events_sent, self._loop.time())

    def _next_id(self) -> str:
        self._ids += 1
        return f"sim-{self._id_prefix}-{self._ids}"

    def _error(self, refused: Refused) -> bytes:
        """An error in the shape of the engine's kind."""
        status, message = refused.status, refused.message
        if status in (404, 405) and refused.param is None:  # of the web framework
            return msgspec.json.encode({"detail": message})
        kind = {400: "BadRequestError", 404: "NotFoundError", 401: "AuthenticationError"}
        inner: dict[str, Any] = {
            "message": message,
            "type": kind.get(status, "InternalServerError"),
            "param": refused.param,
            "code": status,
        }
        sglang = self.options.kind == "sglang"
        return msgspec.json.encode({"object": "error", **inner} if sglang else {"error": inner})

    # ---- what it tells about itself

    def _load(self) -> Load:
        now, (since, before) = self._loop.time(), self._rate_since
        self._rate_since = (now, self._generated_tokens)
        capacity = max(1, self.options.cache_tokens)
        used = self._scheduler.used_tokens
        return Load(
            running=self._scheduler.running,
            waiting=self._scheduler.waiting,
            used_tokens=used,
            token_usage=min(1.0, used / capacity),
            generated_tokens=self._generated_tokens,
            prompt_tokens=self._prompt_tokens,
            queried_tokens=self._cache.queried_tokens,
            hit_tokens=self._cache.hit_tokens,
            tokens_per_second=(self._generated_tokens - before) / max(1e-3, now - since),
            finished=self._finished,
        )

    def state(self) -> dict[str, Any]:
        """What `/sim/state` answers."""
        last = self._last_disconnect
        return {
            "simulated": True,
            "kind": self.options.kind,
            "models": self.options.models,
            "requests_seen": self._requests.total(),
            "requests_by_path": dict(self._requests),
            "running": self._scheduler.running,
            "waiting": self._scheduler.waiting,
            "finished": self._finished,
            "connections_open": self._listener.connections_open,
            "connections_seen": self._listener.connections_seen,
            "cached_tokens": self._cache.held_tokens,
            "prompt_tokens": self._prompt_tokens,
            "cached_prompt_tokens": self._cached_tokens,
            "generated_tokens": self._generated_tokens,
            "prefill_secs": self._scheduler.prefill_secs,
            "disconnects": self._disconnects,
            "last_disconnect": None
            if last is None
            else {
                "path": last.path,
                "events_sent": last.events_sent,
                "seconds_ago": self._loop.time() - last.at,
            },
            "faults": self._plan.faults,
        }

    def _control(self, request: Request, reply: Reply) -> None:
        """`/sim/state` and `/sim/faults`: no key, no faults, not counted."""
        ways = {_STATE_PATH: ("GET",), _FAULTS_PATH: ("GET", "POST", "DELETE")}
        status, answer = 200, b""
        try:
            if request.path not in ways:
                raise Refused(404, "Not Found")
            self._expect(request, *ways[request.path])
            if request.method == "POST":
                self._plan = faults.Plan(faults.decode(request.body), self.options.seed)
            elif request.method == "DELETE":
                self._plan = faults.Plan([], self.options.seed)
            found: object = self.state() if request.path == _STATE_PATH else self._plan.faults
            answer = msgspec.json.encode(found)
        except Refused as refused:
            status, answer = refused.status, msgspec.json.encode({"detail": refused.message})
        except ValueError as problem:  # msgspec's errors are such
            status, answer = 400, msgspec.json.encode({"detail": str(problem)})
        reply.answer(status, answer, JSON)
