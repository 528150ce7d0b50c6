"""The same key, the same worker; and the index that a client may name."""

from collections import Counter

import pytest

from smg.policies.consistent_hashing import ConsistentHashing
from tests.unit.policies.fleet import ask, dice, fleet, keyed

KEYS = [b"key-%d" % number for number in range(300)]


def test_a_key_stays_and_keys_spread() -> None:
    policy, workers = ConsistentHashing(dice()), fleet(4)
    homes = {key: policy.choose(workers, keyed(key)) for key in KEYS}
    assert homes == {key: policy.choose(workers, keyed(key)) for key in KEYS}
    assert min(Counter(homes.values()).values()) > 30
    assert len(set(homes.values())) == 4


def test_who_is_away_moves_only_its_own_keys() -> None:
    policy, workers = ConsistentHashing(dice()), fleet(4)
    homes = {key: policy.choose(workers, keyed(key)) for key in KEYS}
    for key, home in homes.items():
        moved = policy.choose(workers[1:], keyed(key))
        assert moved is home or home is workers[0]
    policy.forget(workers[0])
    assert workers[0] not in {policy.choose(workers[1:], keyed(key)) for key in KEYS}
    assert homes == {key: policy.choose(workers, keyed(key)) for key in KEYS}


@pytest.mark.parametrize(("named", "index"), [(b"0", 0), (b"2", 2), (b"00", 0), (b"+1", 1)])
def test_a_named_worker(named: bytes, index: int) -> None:
    policy, workers = ConsistentHashing(dice()), fleet(3)
    one = ask(headers={b"x-smg-target-worker": named, b"x-smg-routing-key": b"k"})
    assert policy.choose(workers, one) is workers[index]


@pytest.mark.parametrize("named", [b"3", b"-1", b"x", b"1.0", b" 1", b"++1", b"+", b"9" * 5000, b"\xb2"])
def test_a_name_of_nobody(named: bytes) -> None:
    one = ask(headers={b"x-smg-target-worker": named, b"x-smg-routing-key": b"k"})
    assert ConsistentHashing(dice()).choose(fleet(3), one) is None


def test_what_stands_for_the_key() -> None:
    policy, workers = ConsistentHashing(dice()), fleet(8)
    key = {b"x-smg-routing-key": b"k", b"x-smg-target-worker": b""}
    origin, cookie = {b"x-forwarded-for": b"10.0.0.1"}, {b"cookie": b"c=1"}
    by_key = policy.choose(workers, ask(headers=key))
    assert policy.choose(workers, ask(headers=key | origin | cookie)) is by_key
    by_origin = policy.choose(workers, ask(headers=origin))
    assert policy.choose(workers, ask(headers=origin | cookie)) is by_origin
    assert len({policy.choose(workers, ask(headers=cookie)) for _ in range(20)}) == 1
    assert len({policy.choose(workers, ask()) for _ in range(100)}) == 8
