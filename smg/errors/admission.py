"""What admission answers to those it does not let in."""

from __future__ import annotations

from collections.abc import Iterator

from smg.errors.error import GatewayError

_BACK_OFF = (("Retry-After", "2"),)


def admission_queue_full(may_wait: bool) -> GatewayError:
    """`may_wait`: there is a queue, and it is full."""
    message = (
        "admission queue is at capacity"
        if may_wait
        else "concurrency limit reached and queuing is disabled"
    )
    return GatewayError(429, "admission_queue_full", message, headers=_BACK_OFF)


def admission_queue_timeout() -> GatewayError:
    message = "timed out waiting for an admission slot"
    return GatewayError(503, "admission_queue_timeout", message, headers=_BACK_OFF)


def scheduler_queue_full(name: str) -> GatewayError:
    message = f"The queue of the priority class {name} is full"
    return GatewayError(429, "scheduler_queue_full", message, headers=_BACK_OFF)


def scheduler_queue_timeout(name: str) -> GatewayError:
    message = f"The request waited too long in the queue of the priority class {name}"
    return GatewayError(503, "scheduler_queue_timeout", message, headers=_BACK_OFF)


def scheduler_preempted() -> GatewayError:
    message = "The request gave way to one of a higher priority class before it had an answer"
    headers = (("Retry-After", "1"), ("X-SMG-Preempted", "true"))
    return GatewayError(503, "scheduler_preempted", message, headers=headers)


def tenant_rate_limit_exceeded(wait_s: int | None) -> GatewayError:
    """`wait_s`: until the tenant's budget can pay for it; None when it never can."""
    message = (
        "The request costs more than the tenant's rate limit can ever allow"
        if wait_s is None
        else "The tenant's rate limit is exceeded"
    )
    headers = () if wait_s is None else (("Retry-After", str(wait_s)),)
    return GatewayError(429, "tenant_rate_limit_exceeded", message, headers=headers)


def shutting_down() -> GatewayError:
    message = "The gateway is shutting down"
    return GatewayError(503, "shutting_down", message, headers=(("Retry-After", "1"),))


def no_permit() -> Iterator[GatewayError]:
    """One example of every error that says that a request may not be at work now."""
    yield admission_queue_full(may_wait=True)
    yield admission_queue_timeout()
    yield scheduler_queue_full("default")
    yield scheduler_queue_timeout("default")
