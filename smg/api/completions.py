"""Text completions: the request's types, rules and edits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from smg.api import contract, rules
from smg.api.draft import Draft, model_in
from smg.api.fields import Count, Sampling


class CompletionRequest(Sampling, kw_only=True):
    """`POST /v1/completions`. Further members are kept and go to the worker as they are."""

    prompt: str | Annotated[list[str], Meta(min_length=1)]
    max_tokens: Count | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    best_of: Annotated[int, Meta(ge=0, le=20)] | None = None
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    echo: bool | None = None
    suffix: str | None = None
    json_schema: str | None = None


def _word_prompt(text: bytes, start: int, end: int, item: int) -> str:
    return "prompt array cannot be empty"


COMPLETIONS = contract.Contract(
    CompletionRequest,
    wordings={
        "prompt": _word_prompt,
        "stop": contract.word_stop,
        "top_p": contract.word_top_p,
        "top_k": contract.word_top_k,
    },
)

_MODEL = COMPLETIONS.slots["model"]
_RANGED = rules.ranged_bits(COMPLETIONS)
_RULED = COMPLETIONS.bits("stream_options", "min_tokens", "regex", "ebnf", "json_schema", "best_of")


def read_completion(body: bytes) -> Draft:
    """Check a body and its rules; raises 400."""
    found = COMPLETIONS.read(body)
    model = found.value(_MODEL)
    assert model is not None
    draft = Draft(COMPLETIONS, found, model_in(model))
    if found.breached or draft.present & _RANGED:
        rules.check_ranges(draft)
    if draft.present & _RULED:
        problem = next(_rule_problems(draft), None)
        if problem is not None:
            raise rules.broken(problem)
    return draft


def _rule_problems(draft: Draft) -> Iterator[str]:
    """The broken rules between fields, in the order in which they are checked."""
    if (problem := rules.stream_options_problem(draft)) is not None:
        yield problem
    if (problem := rules.min_tokens_problem(draft, draft.written("max_tokens"), "max_tokens")) is not None:
        yield problem
    if draft.has("regex") + draft.has("ebnf") + draft.has("json_schema") > 1:
        yield rules.ONE_CONSTRAINT
    best, n = draft.written("best_of"), draft.written("n")
    if best is not None and n is not None and int(best) <= int(n):
        yield "best_of must be greater than n"
    if best is not None and draft.written("stream") == b"true":
        yield "best_of is not supported when stream is enabled"
