"""The generating endpoints: from a request body to a job that writes its answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from smg.sim.options import Options
from smg.sim.prefix_cache import count_tokens
from smg.sim.prompts import (
    MAX_CHOICES,
    Chat,
    Completion,
    Generate,
    GenerateSampling,
    Refused,
    chat_prompt,
    listed,
    stops,
)
from smg.sim.reply import Reply
from smg.sim.shapes import DONE, ChatShape, CompletionShape, GenerateShape, Shape, Usage
from smg.sim.text import Limits, compose

COMPLETION_MAX_TOKENS = 16  # what OpenAI's completions give when the request does not say

_chat = msgspec.json.Decoder(Chat)
_completion = msgspec.json.Decoder(Completion)
_generate = msgspec.json.Decoder(Generate)


class Plan(msgspec.Struct):
    """What is asked of the engine: `copies` texts for each prompt, laid out prompt by prompt."""

    prompts: list[bytes]
    copies: int
    seed: int
    limits: Limits
    shape: Shape
    is_stream: bool
    includes_usage: bool = False


class Generation:
    """A job of the scheduler."""

    __slots__ = (
        "_choices",
        "_copies",
        "_holds",
        "_includes_usage",
        "_interval",
        "_next_close",
        "_open",
        "_shape",
        "_usages",
        "cached_tokens",
        "is_stream",
        "on_end",
        "prompts",
        "reply",
        "steps",
        "written",
    )

    def __init__(self, plan: Plan, reply: Reply, options: Options, on_end: Callable[[Usage], None]) -> None:
        self.prompts = plan.prompts
        self.is_stream = plan.is_stream
        self.reply = reply
        self.on_end = on_end
        self.cached_tokens = 0
        self.written = 0
        self._shape = plan.shape
        self._copies = plan.copies
        self._interval = options.stream_interval
        self._holds = options.burst_events > 1 and options.decode_tps <= 0
        self._includes_usage = plan.includes_usage
        self._choices = [
            compose(prompt, plan.seed, copy, plan.limits)
            for prompt in plan.prompts
            for copy in range(plan.copies)
        ]
        self._usages: list[Usage] = []
        self._open = list(range(len(self._choices)))
        self.steps = max(choice.tokens for choice in self._choices)
        self._next_close = min(choice.tokens for choice in self._choices)

    @property
    def is_blocked(self) -> bool:
        return not self.reply.is_writable

    @property
    def outputs(self) -> list[bytes]:
        return [self._prompt(index) + choice.text for index, choice in enumerate(self._choices)]

    def start(self) -> None:
        """Begin the stream."""
        self._count()
        self.reply.start_events()
        for index in range(len(self._choices)):
            opening = self._shape.opening(index)
            if opening is not None:
                self.reply.event(opening)
        self._close_until(0)

    def write(self, upto: int) -> None:
        """Write the events that are due at token `upto`, as long as the client takes them."""
        reply = self.reply
        if self._holds:
            reply.hold()
        while self.written < upto and reply.is_writable and not reply.is_lost:
            start, end = self.written, min(self.written + self._interval, self.steps)
            if end > upto:  # an event holds `interval` tokens, only the last fewer
                break
            self.written = end
            for index in self._open:
                choice = self._choices[index]
                pieces = choice.pieces
                text = b"".join(pieces[start:end])
                if text:
                    reply.event(self._shape.piece(index, text, min(end, choice.tokens), self._usages[index]))
            if end >= self._next_close:
                self._close_until(end)
        if self._holds:
            reply.flush()

    def finish(self) -> None:
        """End the stream, or write the whole answer."""
        if not self.is_stream:
            self._count()
        total = self._total()
        if not self.is_stream:
            self.reply.answer(200, self._shape.whole(self._choices, self._usages, total))
        else:
            if self._includes_usage:
                self.reply.event(self._shape.usage(total))
            self.reply.event(DONE)
            self.reply.end_events()
        self.on_end(total)

    def _prompt(self, index: int) -> bytes:
        return self.prompts[index // self._copies]

    def _count(self) -> None:
        """Fix the token counts, once the scheduler knows what was cached."""
        cached = self.cached_tokens
        for index, choice in enumerate(self._choices):
            tokens = count_tokens(self._prompt(index))
            own = min(cached, tokens) if index % self._copies == 0 else 0
            cached -= own
            self._usages.append(Usage(tokens, choice.tokens, own))

    def _total(self) -> Usage:
        return Usage(
            sum(map(count_tokens, self.prompts)),
            sum(choice.tokens for choice in self._choices),
            self.cached_tokens,
        )

    def _close_until(self, end: int) -> None:
        """Write the last frame of every choice that is complete at token `end`."""
        for index in [one for one in self._open if self._choices[one].tokens <= end]:
            self._open.remove(index)
            closing = self._shape.closing(index, self._choices[index], self._usages[index])
            if closing is not None:
                self.reply.event(closing)
        self._next_close = min((self._choices[one].tokens for one in self._open), default=self.steps)


def plan_chat(body: bytes, options: Options, request_id: str) -> Plan:
    call = _chat.decode(body)
    asked = call.max_completion_tokens if call.max_completion_tokens is not None else call.max_tokens
    prompts = [chat_prompt(call)]
    limits = _limits(options, prompts, asked, call.min_tokens, call.ignore_eos, call.stop)
    shape = ChatShape(f"chatcmpl-{request_id}", _model(call.model, options), options.kind)
    usage = call.stream_options is not None and bool(call.stream_options.include_usage)
    return Plan(prompts, call.n or 1, _seed(call.seed, options), limits, shape, bool(call.stream), usage)


def plan_completion(body: bytes, options: Options, request_id: str) -> Plan:
    call = _completion.decode(body)
    prompts = listed(call.prompt, "prompt")
    copies = call.n or 1
    _check_count(len(prompts) * copies)
    asked = COMPLETION_MAX_TOKENS if call.max_tokens is None else call.max_tokens
    limits = _limits(options, prompts, asked, call.min_tokens, call.ignore_eos, call.stop)
    echoes = [prompt for prompt in prompts for _ in range(copies)] if call.echo else []
    model = _model(call.model, options)
    shape = CompletionShape(f"cmpl-{request_id}", model, options.kind, echoes)
    usage = call.stream_options is not None and bool(call.stream_options.include_usage)
    return Plan(prompts, copies, _seed(call.seed, options), limits, shape, bool(call.stream), usage)


def plan_generate(body: bytes, options: Options, request_id: str) -> Plan:
    call = _generate.decode(body)
    if (call.text is None) == (call.input_ids is None):
        raise Refused(400, "Either text or input_ids should be provided.")
    asked = call.text if call.text is not None else call.input_ids
    assert asked is not None
    prompts = listed(asked, "text" if call.text is not None else "input_ids")
    sampling = call.sampling_params or GenerateSampling()
    copies = sampling.n or 1
    count = len(prompts) * copies
    _check_count(count)
    is_batch = copies > 1 or (isinstance(asked, list) and bool(asked) and not isinstance(asked[0], int))
    limits = _limits(
        options,
        prompts,
        sampling.max_new_tokens,
        sampling.min_new_tokens,
        sampling.ignore_eos,
        sampling.stop,
    )
    if isinstance(call.rid, list) and len(call.rid) == count:
        ids = call.rid
    else:
        base = call.rid if isinstance(call.rid, str) else request_id
        ids = [base if count == 1 else f"{base}-{index}" for index in range(count)]
    seed = _seed(sampling.sampling_seed, options)
    return Plan(prompts, copies, seed, limits, GenerateShape(ids, is_batch), bool(call.stream))


def _limits(
    options: Options,
    prompts: list[bytes],
    asked: int | None,
    at_least: int | None,
    ignores_end: bool | None,
    stop: str | list[str] | None,
) -> Limits:
    longest = max(map(count_tokens, prompts))
    room = options.context_tokens - longest
    if room < 1:
        raise Refused(
            400,
            f"This model's maximum context length is {options.context_tokens} tokens. "
            f"However, your prompt contains {longest} tokens.",
        )
    largest = room if asked is None else min(asked, room)
    natural = max(options.output_tokens, at_least or 0)
    if ignores_end and asked is not None:  # without a limit there is nothing to fill
        natural = largest + 1
    return Limits(natural, largest, stops(stop))


def _check_count(count: int) -> None:
    if count > MAX_CHOICES:
        raise Refused(400, f"more than {MAX_CHOICES} texts in one request", "n")


def _model(asked: str | None, options: Options) -> str:
    """The name in the answer. vLLM knows only the names that it serves; others take any."""
    if options.kind == "vllm" and asked and asked not in options.models:
        raise Refused(404, f"The model `{asked}` does not exist.", "model")
    return asked or options.models[0]


def _seed(asked: int | None, options: Options) -> int:
    return options.seed if asked is None else asked
