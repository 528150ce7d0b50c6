"""The text a simulated engine "generates": a pure function of prompt, seed and choice.

It starts by saying that no model is running, then strings words together. One word is one token.
No word holds a character that JSON must escape, so a word can be put into a frame as it is.
"""

from __future__ import annotations

import msgspec
import xxhash

_PREAMBLE = tuple(
    word.encode()
    for word in ("This", " is", " a", " simulated", " engine", ":", " no", " model", " is", " running", ".")
)
_WORD_LIST = """
amber anchor apple arch arrow aspen autumn badge bamboo barley basin beacon birch bloom border branch
bread breeze bridge brook butter button cabin café candle canyon carbon cedar chalk cherry cinder circle
citrus clay cliff cloud clover coast cobalt copper coral cotton crane creek crystal dawn delta desert
dew dune dust eagle echo elm ember engine fable falcon feather fern field fjord flame flint forest
fossil frost galaxy garden glacier glass granite grape gravel grove harbor harvest hazel heron hill
honey horizon ice indigo iris island ivory ivy jade jasper jungle juniper kelp kettle lagoon lake
lantern larch lark lava leaf lemon lichen light lily linen lotus lunar maple marble meadow mesa mint
mist moon moss mountain naïve nectar night north oak oasis ocean olive onyx opal orbit orchard otter owl
palm paper pearl pebble pepper pine planet plum pollen pond poppy prairie quartz quill quiet rain raven
reef ridge river robin rock rose saffron sage sail salt sand seed shadow shell shore silver sky slate
snow song sparrow spring star stone storm stream summer sun swan thistle thunder tide timber trail tulip
valley velvet violet walnut water willow wind winter wolf wren 你好 🙂
"""
_WORDS = tuple(f" {word}".encode() for word in _WORD_LIST.split())


class Choice(msgspec.Struct):
    """One generated text. `pieces` holds at most one entry per token; joined they are the text."""

    pieces: list[bytes]
    tokens: int
    finish_reason: str
    matched_stop: str | None = None

    @property
    def text(self) -> bytes:
        return b"".join(self.pieces)


class Limits(msgspec.Struct):
    """Where a text ends: `natural_tokens` is where the engine would end it by itself."""

    natural_tokens: int
    max_tokens: int
    stop: list[str] = []


def compose(prompt: bytes, seed: int, index: int, limits: Limits) -> Choice:
    """The text for one choice of a request."""
    count = max(0, min(limits.natural_tokens, limits.max_tokens))
    reason = "length" if limits.max_tokens < limits.natural_tokens else "stop"
    digest = xxhash.xxh3_64_intdigest(prompt, (seed * 1000003 + index) & 0xFFFFFFFFFFFFFFFF)
    size = len(_WORDS)
    at, step = digest % size, 1 + (digest >> 32) % 40
    pieces = list(_PREAMBLE[:count])
    pieces += [_WORDS[(at + step * i) % size] for i in range(count - len(pieces))]
    choice = Choice(pieces, count, reason)
    if limits.stop:
        _apply_stop(choice, limits.stop)
    return choice


def _apply_stop(choice: Choice, stops: list[str]) -> None:
    """End the text before the stop string that is complete first."""
    text = choice.text
    found = [(text.find(stop.encode()) + len(stop.encode()), stop) for stop in stops if stop.encode() in text]
    if not found:
        return
    end, stop = min(found)
    start = end - len(stop.encode())
    kept: list[bytes] = []
    length = tokens = 0
    for piece in choice.pieces:
        if length >= end:
            break
        tokens += 1
        if length < start:
            kept.append(piece[: start - length])
        length += len(piece)
    choice.pieces, choice.tokens = kept, tokens
    choice.finish_reason, choice.matched_stop = "stop", stop
