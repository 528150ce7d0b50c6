"""The whole life of an exchange on one page."""

from __future__ import annotations

import asyncio
import logging

from smg import errors
from smg._fast import exchange as fast
from smg._fast.exchange import Exchange
from smg.admission.permits import Permit
from smg.admission.tenants import Charge
from smg.api.call import Call
from smg.errors import GatewayError
from smg.gateway.gateway import Gateway
from smg.workers.worker import Worker

log = logging.getLogger("smg.gateway")


async def serve(x: Exchange, gw: Gateway) -> None:
    """Carry one exchange from its parsed head to its recorded outcome."""
    permit: Permit | None = None
    charge: Charge | None = None
    try:
        gw.admission.name(x)
        gw.admission.identify(x)  # 400, 401 here
        permit = gw.permits.take(x) or await gw.permits.wait(x)  # 429, 503 here
        if gw.may_pipe(x):
            call = gw.admission.opaque_call(x)  # 413 here
        elif x.route.takes_form:
            call = await gw.admission.read_form(x)  # 400, 408, 413 here
        else:
            await gw.admission.receive(x)
            call = gw.admission.decode(x) or await gw.admission.decode_large(x)  # 400, 408, 413, 422 here
        if gw.spending is not None:
            paid = gw.spending.reserve(x, call)  # 429 here
            charge = paid if isinstance(paid, Charge) else await paid
        if gw.explain.is_wanted(x):
            await gw.explain.begin(x, call)
        await attempt(x, gw, call)  # 404, 501, 502, 503, 504 here
    except GatewayError as error:
        answer(x, error)
    except asyncio.CancelledError:
        if not x.interrupted or x.client_left:
            raise
        x.routed_line = b""
        answer(x, errors.scheduler_preempted())
    except Exception:
        log.exception("an exchange failed")
        answer(x, errors.internal_error())
    finally:
        if permit is not None:
            x.when_delivered(permit.release)
        gw.record(x)
        gw.admission.release(x)
        if charge is not None and gw.spending is not None:
            gw.spending.settle(x, charge)


async def attempt(x: Exchange, gw: Gateway, call: Call) -> None:
    """Try workers until one has answered for good; the bytes of a stream do not come by here."""
    tried: tuple[Worker, ...] = ()
    number = 0
    if gw.router.recalls:
        await gw.router.recall(call, x.head.get)
    while True:
        number += 1
        x.attempts = number
        failed: GatewayError | None = None
        if gw.router.has_turns:
            await gw.router.turn(call)  # 429 and 503 here
        with gw.router.lease(call, x.head.get, tried) as lease:
            x.worker = worker = lease.worker
            x.on_first_event = lease.on_first_event
            if call.why is not None:
                gw.explain.tell(x, call.why)
            try:
                await worker.backend.forward(x, call, lease)  # type: ignore[union-attr]
            except GatewayError as error:
                failed = error
        if failed is None and (x.outcome != fast.ANSWERED or x.started):
            if x.outcome == fast.BODY_FAILED:
                raise gw.admission.body_error(x.received)
            return
        if failed is None and x.answer_head.status < 400:  # type: ignore[union-attr]
            break
        tried = lease.add_to(tried)
        how = failed.retry if failed is not None else gw.retry_of(x)
        if x.piped or not gw.router.may_retry(how, call, number, tried, worker):
            break
        # Another worker is asked at once when this one could not be reached.
        at_once = how is errors.Retry.OTHER_WORKER and failed is not None
        pause_s = 0.0 if at_once else gw.router.delay_s(number, worker)
        gw.record.retried(x, worker, failed, pause_s)
        x.routed_line = b""
        if not at_once:
            await asyncio.sleep(pause_s)
    if failed is not None:
        raise failed
    x.relay_answer()


def answer(x: Exchange, error: GatewayError) -> None:
    """Answer with an error, or cut the connection when the answer has begun."""
    # The traceback leads to `serve` and so back to the exchange: a cycle that waits for the collector.
    x.error = error.with_traceback(None)
    if x.started:
        x.abort()
        return
    headers, body = errors.render(error)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers).encode("latin-1")
    x.answer(error.status, errors.reason(error.status).encode(), lines, body)
