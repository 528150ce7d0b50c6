"""A stage that is cleared after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.admission.virtual import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.shut()
