"""The model families' profiles, and which one a model has. A new family is one file and one line here."""

from __future__ import annotations

import re

from smg.api.draft import Draft
from smg.api.profiles.deepseek import DeepSeekV4, DeepSeekV41
from smg.api.profiles.glm import Glm, Glm53
from smg.api.profiles.kimi import Kimi, KimiK3
from smg.api.profiles.minimax import MiniMax
from smg.api.profiles.profile import Profile

# The profiles of a family beside one another, the narrower ones first.
FAMILIES: tuple[tuple[Profile, ...], ...] = (
    (KimiK3(), Kimi()),
    (MiniMax(),),
    (Glm53(), Glm()),
    (DeepSeekV41(), DeepSeekV4()),
)
BASELINE = Profile()

_MARKERS = "|".join(one.marker for family in FAMILIES for one in family)
_ANY = re.compile(f"(?:^|/)(?:{_MARKERS})", re.ASCII | re.IGNORECASE)


def select(draft: Draft) -> Profile:
    """The profile of the request's model, by its name as sent: the first segment with a marker tells the
    family, any segment the profile in it."""
    model = draft.model or ""
    first = _ANY.search(model)
    if first is None:
        return BASELINE
    family = next(family for family in FAMILIES if any(one.begins(model, first.start()) for one in family))
    return next(one for one in family if one.selects(model))
