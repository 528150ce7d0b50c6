"""The tables in the code against the lists they come from, and the pages made from them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from smg.config.fields import Field, Kind, fields_of
from smg.config.model import Config
from smg.config.refused import REFUSALS, REFUSED_VALUES, refusals_by_name
from smg.config.routing import BUILT_POLICIES
from smg.policies.choose import POLICIES

ROOT = Path(__file__).resolve().parent.parent
LISTED = json.loads((ROOT / "tests/data/options.json").read_text(encoding="utf-8"))
BUILT = {flag: field for field in fields_of(Config) for flag in field.flags}
REFUSED = {flag: refusal for refusal in REFUSALS for flag in refusal.all_flags}

# Options of ours that the list does not have.
OURS = {
    "--uds",
    "--connect-timeout-secs",
    "--first-byte-timeout-secs",
    "--between-bytes-timeout-secs",
    "--state-redis-url",
    "--data-path",
}


def written_default(field: Field) -> object:
    return list(field.default) if isinstance(field.default, tuple) else field.default


@pytest.mark.parametrize("option", LISTED, ids=lambda option: option["names"][0])
def test_listed_options_are_built_as_listed_or_refused(option: dict[str, object]) -> None:
    names = [name for name in option["names"] if not name.startswith("--no-")]
    if names[0] in REFUSED:
        assert all(name in REFUSED and name not in BUILT for name in names)
        is_switch = str(option["kind"]).startswith("switch")
        assert all((name in REFUSED[name].switches) == is_switch for name in names)
        return
    field = BUILT[names[0]]
    assert list(field.flags) == names
    assert field.kind.value == str(option["kind"]).removesuffix(", 0 or more")
    # A switch that is not given is off.
    listed = False if field.kind is Kind.SWITCH and option["default"] is None else option["default"]
    assert written_default(field) == ([] if field.kind.is_list and listed is None else listed)
    refused_values = REFUSED_VALUES.get(field.name, {})
    assert set(option["choices"]) <= {*field.option.choices, *refused_values}


def test_there_are_no_other_options() -> None:
    listed = {name for option in LISTED for name in option["names"]}
    assert (BUILT.keys() | REFUSED.keys()) - listed == OURS


def test_no_option_is_built_and_refused_or_refused_twice() -> None:
    flags = [flag for refusal in REFUSALS for flag in refusal.all_flags]
    assert len(flags) == len(set(flags)) == len(refusals_by_name())
    assert not BUILT.keys() & set(flags)


def test_defaults_are_values_their_option_allows() -> None:
    for field in fields_of(Config):
        if field.kind in (Kind.INTEGER, Kind.NUMBER) and field.default is not None:
            assert field.allows(field.default), field.name
        if field.option.choices and field.default is not None:
            assert field.default in field.option.choices, field.name


def test_the_policies_that_can_be_chosen_are_those_that_can_be_made() -> None:
    assert set(BUILT_POLICIES) == POLICIES.keys()


def test_generated_pages_are_current() -> None:
    command = [sys.executable, str(ROOT / "tools/generate_docs.py"), "--check"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
