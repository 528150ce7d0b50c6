"""Field ranges and the rules between fields that chat and completions share, in the order of checking."""

from __future__ import annotations

from smg import errors
from smg.api.contract import Contract, word_top_k
from smg.api.draft import Draft

STREAM_OPTIONS = "The 'stream_options' parameter is only allowed when 'stream' is enabled"
ONE_CONSTRAINT = "only one structured output constraint (regex, ebnf, or json_schema) can be active at a time"


def broken(rule: str) -> errors.GatewayError:
    """The answer to a request that breaks a rule between fields or of its profile."""
    return errors.validation_failed(f"__all__: {rule}")


def check_ranges(draft: Draft) -> None:
    """Raise 400 when fields are out of range, all of them in one message, sorted by name."""
    contract, found = draft.contract, draft.found
    problems = contract.problems(found) if found.breached else []
    top_k = draft.written("top_k")
    if top_k is not None and int(top_k) == 0:
        problems.append(f"top_k: {word_top_k(top_k, 0, len(top_k), -1)}")
    if problems:
        raise errors.validation_failed("\n".join(sorted(problems)))


def ranged_bits(contract: Contract) -> int:
    """The fields whose presence alone asks for `check_ranges`; other breaches are found by the check."""
    return contract.bits("top_k")


def stream_options_problem(draft: Draft) -> str | None:
    if draft.has("stream_options") and draft.written("stream") != b"true":
        return STREAM_OPTIONS
    return None


def min_tokens_problem(draft: Draft, most: bytes | None, told: str) -> str | None:
    """`most`: the highest number of tokens as written, `told` the fields that may hold it."""
    least = draft.written("min_tokens")
    if least is not None and most is not None and int(least) > int(most):
        return f"min_tokens cannot exceed {told}"
    return None


def logit_bias_problem(draft: Draft) -> str | None:
    """Its names must be IDs of tokens."""
    biases = draft.inside("logit_bias")
    for name in biases.names() if biases is not None else ():
        if not name.isdigit():
            shown = name.decode("utf-8", "replace")
            return f"Invalid key '{shown}' in 'logit_bias': a token ID, a whole number from 0 on, is expected"
    return None
