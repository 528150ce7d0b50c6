"""Types of the fields that several endpoints share. A `Meta` bound is a field range of the contract."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

ZeroToOne = Annotated[float, Meta(ge=0, le=1)]
ZeroToTwo = Annotated[float, Meta(ge=0, le=2)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
TopP = Annotated[float, Meta(gt=0, le=1)]
TopK = Annotated[int, Meta(ge=-1)]  # 0 is refused besides
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Signed64 = Annotated[int, Meta(extra_json_schema={"format": "int64"})]
Unsigned64 = Annotated[int, Meta(extra_json_schema={"format": "uint64"})]
NonEmptyText = Annotated[str, Meta(min_length=1)]
Stop = NonEmptyText | Annotated[list[NonEmptyText], Meta(max_length=4)]
Anything = dict[str, Any]


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Sampling(msgspec.Struct, kw_only=True):
    """What chat and completions have in common, SGLang's extensions included."""

    model: str
    temperature: ZeroToTwo | None = None
    top_p: TopP | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: Stop | None = None
    logit_bias: dict[str, float] | None = None
    user: str | None = None
    seed: Signed64 | None = None
    top_k: TopK | None = None
    min_p: ZeroToOne | None = None
    min_tokens: Count | None = None
    repetition_penalty: ZeroToTwo | None = None
    regex: str | None = None
    ebnf: str | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    no_stop_trim: bool | None = None
    skip_special_tokens: bool | None = None
    lora_path: str | None = None
    sampling_seed: Unsigned64 | None = None
    return_hidden_states: bool | None = None
    rid: str | None = None
