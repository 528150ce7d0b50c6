"""SGLang's `/generate`: only types are checked, and 422 in plain text answers what does not fit."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from smg.api import contract
from smg.api.draft import Draft, model_in
from smg.api.fields import Anything


class SamplingParams(msgspec.Struct):
    """Ranges are the engine's business, and so are further members."""

    temperature: float | None = None
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    no_stop_trim: bool | None = None
    json_schema: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    n: int | None = None
    custom_params: Anything | None = None


class GenerateRequest(msgspec.Struct):
    """`POST /generate`. Further members are kept and go to the worker as they are."""

    model: str | None = None
    text: str | list[str] | None = None
    input_ids: list[Any] | None = None
    sampling_params: SamplingParams | list[SamplingParams] | None = None
    stream: bool | None = None


_LIST_OF_LISTS = re.compile(rb"\[[ \t\r\n]*\[")
_STEP = 1 << 18

GENERATE = contract.Contract(GenerateRequest, misfit=contract.unprocessable)


def read_generate(body: bytes) -> Draft:
    """Check a body's types; raises 400 for what is no JSON and 422 for what does not fit."""
    found = GENERATE.read(body)
    draft = Draft(GENERATE, found, None)
    model = draft.written("model")
    draft.model = model_in(model) if model is not None else None
    return draft


def has_many_results(body: bytes, texts: bytes | None, tokens: bytes | None) -> bool:
    """May a stream tell of several results in turn, each with counts of its own? `texts`, `tokens`: the spans
    of the prompt, see `prompt_spans`."""
    text, ids = (memoryview(spans or b"").cast("q") for spans in (texts, tokens))
    return (
        (len(text) > 0 and body[text[0] - 1 : text[0]] != b'"' and body[text[0]] == ord("["))
        or (len(ids) > 0 and _LIST_OF_LISTS.match(body, ids[0], ids[1]) is not None)
        # In steps: others must not wait until a large body was searched through.
        or any(body.find(b'"n"', at, at + _STEP + 2) >= 0 for at in range(0, len(body), _STEP))
    )
