"""Where a stream of server-sent events stands, read from all of it."""

from __future__ import annotations

import re

LINE_END = re.compile(rb"\r\n|\r|\n")


def is_between_frames(payload: bytes) -> bool:
    """Did it end with a blank line, or has it not begun?"""
    return not payload or LINE_END.split(payload)[-2:] == [b"", b""]


def has_said_done(payload: bytes) -> bool:
    lines = [line for line in LINE_END.split(payload) if line]
    return bool(lines) and lines[-1] in (b"data: [DONE]", b"data:[DONE]")


def end_of_broken(payload: bytes, frame: bytes) -> bytes:
    """What the client must be given after `payload` when its worker broke off."""
    torn = b"" if is_between_frames(payload) else b"\n\n"
    return b"" if has_said_done(payload) else torn + frame + b"data: [DONE]\n\n"
