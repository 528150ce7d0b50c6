"""The profiles, in the order in which they are tried. A new one is one file and one line here."""

from __future__ import annotations

import re

from smg.api.draft import Draft
from smg.api.profiles.deepseek import DeepSeekV4, DeepSeekV41
from smg.api.profiles.glm import Glm, Glm53
from smg.api.profiles.kimi import Kimi, KimiK3
from smg.api.profiles.minimax import MiniMax
from smg.api.profiles.profile import Profile

PROFILES: tuple[Profile, ...] = (
    KimiK3(),
    Kimi(),
    MiniMax(),
    Glm53(),
    Glm(),
    DeepSeekV41(),
    DeepSeekV4(),
)
BASELINE = Profile()

_ANY = re.compile(f"(?:^|/)(?:{'|'.join(one.marker for one in PROFILES)})", re.ASCII | re.IGNORECASE)


def select(draft: Draft) -> Profile:
    """The profile of the request's model, by its name as sent."""
    model = draft.model or ""
    if _ANY.search(model) is None:
        return BASELINE
    return next(one for one in PROFILES if one.selects(model))
