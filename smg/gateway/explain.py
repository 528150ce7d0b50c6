"""Why a request went where it went: a debug line, and a header for administrators who ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from smg._fast.exchange import Exchange
from smg.api.call import Call, Why
from smg.policies.ask import Ask
from smg.policies.choose import Policy
from smg.telemetry import logs
from smg.workers.worker import Worker

ASKED = b"x-smg-explain"
CREDENTIAL = b"x-smg-admin-authorization"
"""Where the credential of an administrator is looked for first: `Authorization` may hold a serving key."""
HEADER = b"x-smg-explanation: "
MAX_BYTES = 4096

log = logs.get("route")


class Explainer:
    """`is_admin`: does an authorization, as a header has it, open the admin routes?"""

    def __init__(self, is_admin: Callable[[bytes | None], Awaitable[bool]]) -> None:
        self._is_admin = is_admin
        self._always = log.shows_debug

    def is_wanted(self, x: Exchange) -> bool:
        return self._always or x.head.get(ASKED) is not None

    async def begin(self, x: Exchange, call: Call) -> None:
        """From now on `call.why` collects."""
        get = x.head.get
        in_header = get(ASKED) == b"1" and await self._is_admin(get(CREDENTIAL) or get(b"authorization"))
        call.why = Why(in_header)

    def tell(self, x: Exchange, why: Why) -> None:
        """An attempt has its worker."""
        text = " | ".join(why.said)
        log.debug("placed", request_id=x.request_id.decode("latin-1"), attempt=x.attempts, why=text)
        if why.in_header:
            value = text.encode("ascii", "backslashreplace")[:MAX_BYTES]
            x.extra_lines = x.extra_lines.partition(HEADER)[0] + HEADER + value + b"\r\n"


def note(why: Why, policy: Policy, ask: Ask, chosen: Worker | None, candidates: Sequence[Worker]) -> None:
    """One choice: the policy, whom it took, what was found of the prompt, and what the policy says of it."""
    said = f"policy={_name(policy)} worker={chosen.url if chosen is not None else 'none'}"
    said += f" in_flight={chosen.load if chosen is not None else 0} candidates={len(candidates)}"
    if ask.branch:
        said += f" branch={ask.branch[1]}"
    if ask.prompt_bytes:
        said += f" prompt={ask.prompt_bytes} matched={ask.matched_bytes} held={ask.held_bytes}"
    why.said.append(f"{said}; {why.terms}" if why.terms else said)
    why.terms = ""


def _name(policy: Policy) -> str:
    """The policy's own name, whatever is laid around it."""
    while (within := getattr(policy, "within", None)) is not None:
        policy = within
    return "".join("_" + c.lower() if c.isupper() else c for c in type(policy).__name__).lstrip("_")
