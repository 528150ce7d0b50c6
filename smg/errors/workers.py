"""What goes wrong with workers: none to be had, none reached, an answer that cannot be passed on."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from smg.errors.error import GatewayError, Retry, Shape, Source, retry_of_status

_LEG_CODES = {
    400: "bad_request",
    404: "not_found",
    500: "internal_error",
    502: "bad_gateway",
    503: "unavailable",
}


_DECISIONS = "upstream_decisions_error"
_REFUSALS = frozenset(
    f"{leg}_{end}" for leg in ("prefill", "decode") for end in (*_LEG_CODES.values(), "error")
)

_SHOWN_BYTES = 16384
"""How much of a worker's answer a message may hold."""


def no_available_workers(model: str) -> GatewayError:
    message = f"No available workers for model '{model}'" if model else "No available workers"
    return GatewayError(503, "no_available_workers", message)


def no_compatible_pd_pair(model: str) -> GatewayError:
    message = f"No prefill and decode worker for model '{model}' have the same runtime and KV connector"
    return GatewayError(503, "no_compatible_pd_pair", message)


def leg_failed(
    leg: str,
    status: int,
    answer: bytes,
    headers: tuple[tuple[str, str], ...] = (),
    retryable: Collection[int] | None = None,
) -> GatewayError:
    """A worker of a prefill/decode pair answered `status`; `leg` is `prefill` or `decode`. `retryable`: as
    `own` of `retry_of_status`."""
    message = answer[:_SHOWN_BYTES].decode("utf-8", "replace")
    if leg == "prefill":
        message = f"The prefill worker answered {status}: {message}"
    told = status if status >= 400 else 502
    retry = retry_of_status(status, retryable)
    code = f"{leg}_{_LEG_CODES.get(status, 'error')}"
    return GatewayError(told, code, message, source=Source.WORKER, retry=retry, headers=headers)


def is_refusal(error: GatewayError) -> bool:
    """Does it tell of a worker's own answer?"""
    return error.code in _REFUSALS or error.code == _DECISIONS


def pd_prefill_queue_full() -> GatewayError:
    message = "All prefill workers are busy and no more requests may wait for them"
    return GatewayError(429, "pd_prefill_queue_full", message)


def pd_prefill_queue_timeout(timeout_s: float) -> GatewayError:
    message = f"No prefill worker became free within {timeout_s:g} seconds"
    return GatewayError(429, "pd_prefill_queue_timeout", message)


def no_pair() -> Iterator[GatewayError]:
    """What a model of prefill/decode pairs answers besides."""
    yield no_compatible_pd_pair("m")
    for leg in ("prefill", "decode"):
        for status in (400, 401, 404, 500, 502, 503):
            yield leg_failed(leg, status, b"")
    yield pd_prefill_queue_full()
    yield pd_prefill_queue_timeout(1)


def no_workers() -> GatewayError:
    return GatewayError(503, "no_workers", "No healthy worker is registered")


def worker_overload_protection_shed(model: str, retry_after_s: int) -> GatewayError:
    message = f"All workers for model '{model}' are overloaded" if model else "All workers are overloaded"
    headers = (("Retry-After", str(retry_after_s)),)
    return GatewayError(503, "worker_overload_protection_shed", message, headers=headers)


def dp_aware_not_supported(what: str) -> GatewayError:
    message = f"{what} is not supported by workers with data-parallel ranks"
    return GatewayError(400, "dp_aware_not_supported", message)


def call_upstream_connection_failed(retry: Retry = Retry.YES) -> GatewayError:
    message = "The worker could not be reached"
    return GatewayError(502, "call_upstream_connection_failed", message, source=Source.WORKER, retry=retry)


def call_upstream_request_error(
    message: str = "The worker closed the connection before it answered",
) -> GatewayError:
    return GatewayError(502, "call_upstream_request_error", message, source=Source.WORKER, retry=Retry.YES)


def read_response_body_failed() -> GatewayError:
    message = "The worker's answer broke off"
    return GatewayError(502, "read_response_body_failed", message, source=Source.WORKER, retry=Retry.YES)


def call_upstream_timeout(timeout_s: float) -> GatewayError:
    message = f"The worker did not answer within {timeout_s:g} seconds"
    return GatewayError(504, "call_upstream_timeout", message, source=Source.WORKER, retry=Retry.YES)


def upstream_response_too_large(limit_bytes: int) -> GatewayError:
    message = f"The worker's answer exceeds the limit of {limit_bytes} bytes"
    return GatewayError(502, "upstream_response_too_large", message, source=Source.WORKER)


def invalid_decisions_response(message: str) -> GatewayError:
    return GatewayError(502, "invalid_decisions_response", message, source=Source.WORKER, retry=Retry.YES)


def upstream_decisions_error(
    status: int,
    message: str,
    headers: tuple[tuple[str, str], ...] = (),
    retryable: Collection[int] | None = None,
) -> GatewayError:
    """A worker's error whose body is not of OpenAI's shape; `headers` are the worker's. `retryable`: as `own`
    of `retry_of_status`."""
    return GatewayError(
        status,
        _DECISIONS,
        message,
        source=Source.WORKER,
        retry=retry_of_status(status, retryable),
        headers=headers,
    )


def realtime_refused(status: int, retryable: Collection[int] | None = None) -> GatewayError:
    """A worker answered the upgrade with something else; its refusals of the client are passed on.
    `retryable`: as `own` of `retry_of_status`."""
    told = status if 400 <= status < 500 else 502
    message = f"The worker refused the realtime session with status {status}"
    retry = retry_of_status(status, retryable)
    return GatewayError(told, "realtime_refused", message, source=Source.WORKER, retry=retry)


def no_engine_metrics() -> GatewayError:
    return GatewayError(503, "no_available_workers", "No available workers", Shape.PLAIN)


def no_models_available() -> GatewayError:
    return GatewayError(503, "no_models_available", "No models available", Shape.PLAIN)
