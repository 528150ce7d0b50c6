from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, Self, final

from typing_extensions import disjoint_base

from smg._fast.deadlines import Timed
from smg._fast.head import RequestHead, ResponseHead
from smg._fast.limits import Limits
from smg._fast.usage import UsageMeter

BODY_COMING: int
BODY_COMPLETE: int
BODY_TOO_LARGE: int
BODY_STALLED: int
BODY_LATE: int
BODY_ABORTED: int
BODY_MALFORMED: int

PENDING: int
ANSWERED: int
RELAYED: int
BROKEN: int
DIED: int
CUT: int
MALFORMED: int
TOO_LARGE: int
TIMED_OUT: int
BODY_FAILED: int
WITHDRAWN: int

@disjoint_base
class Reply(Timed): ...

@disjoint_base
class Upstream(Timed):
    reused: bool
    heard: bool

@final
class Exchange(Timed):
    head: RequestHead
    route: Any
    body: bytes | None
    received: int
    outcome: int
    answer_head: ResponseHead | None
    answer_body: bytes | None
    status: int
    started: bool
    client_left: bool
    interrupted: bool
    begun_ns: int
    first_byte_ns: int
    first_event_ns: int
    longest_gap_s: float
    sent_bytes: int
    piped: bool
    stream: bool
    gather: bool
    request_id: bytes
    routed_line: bytes
    extra_lines: bytes
    worker: Any
    call: Any
    tenant: Any
    on_first_event: Callable[[float], None] | None
    error: Any
    trace: Any
    meter: UsageMeter | None
    attempts: int
    def __init__(self, head: RequestHead, route: Any, reply: Reply, limits: Limits) -> None: ...
    def __await__(self) -> Generator[Any, Any]: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Self: ...
    def receive_body(self, limit: int) -> Awaitable[None]: ...
    def forget_body(self) -> bytes: ...
    def pipe_body(self) -> None: ...
    def receive_into(self, sink: Callable[[bytes], object], limit: int) -> Awaitable[None]: ...
    def send(
        self, upstream: Upstream, head: bytes, body: bytes | Iterator[bytes] | None
    ) -> Awaitable[None]: ...
    def relay_answer(self) -> None: ...
    def answer(self, status: int, reason: bytes, lines: bytes, body: bytes) -> None: ...
    def abort(self) -> None: ...
    def interrupt(self) -> None: ...
    def when_delivered(self, told: Callable[[], object]) -> None: ...
    def peer(self) -> str | None: ...
    @property
    def answered(self) -> bool: ...
