"""Which workers a name leads to, in every state of the workers."""

from typing import Any

from smg.config.specs import WorkerUrl
from smg.workers.breaker import Breaker
from smg.workers.registry import Change, Registry
from smg.workers.worker import DECODE, PREFILL, ModelCard, Rank, Status, Worker


def make(port: int, *models: str, **options: Any) -> Worker:
    target = WorkerUrl.parse(f"http://127.0.0.1:{port}")
    cards = [ModelCard(id=model) for model in models]
    return Worker(target, Breaker(10, 3, 60, 120, True), cards=cards, **options)


def ready(registry: Registry, *workers: Worker) -> None:
    for worker in workers:
        registry.add(worker)
        registry.set_status(worker, Status.READY)


def test_entries_keep_the_order_of_registration() -> None:
    registry = Registry()
    first, second, other = make(1, "m"), make(2, "m"), make(3, "n")
    ready(registry, first, second, other)
    entry = registry.find("m")
    assert entry is not None
    assert entry.ready == entry.workers == (first, second)
    assert registry.any_entry().ready == (first, second, other)
    assert registry.find("x") is None
    assert registry.self_hosted_models == ("m", "n")


def test_pending_workers_are_unknown_and_failed_ones_unavailable() -> None:
    registry = Registry()
    worker = make(1, "m")
    registry.add(worker)
    assert registry.find("m") is None
    for status in (Status.NOT_READY, Status.FAILED, Status.DRAINING):
        registry.set_status(worker, status)
        entry = registry.find("m")
        assert entry is not None
        assert entry.ready == ()
        assert bool(entry.workers) == (status is not Status.DRAINING)
    registry.remove(worker)
    assert registry.find("m") is None


def test_entry_that_did_not_change_stays_the_same_object() -> None:
    registry = Registry()
    ready(registry, make(1, "m"))
    before = registry.find("m")
    ready(registry, make(2, "n"))
    assert registry.find("m") is before


def test_aliases() -> None:
    registry = Registry({"al": "m", "dead": "nobody", "n": "m"})
    ready(registry, make(1, "m"), make(2, "n"))
    entry = registry.find("al")
    assert entry is not None
    assert entry.model == "m"
    assert registry.find("dead") is None
    assert registry.find("n") is registry.find("m")
    assert registry.resolve("al") == "m"
    assert registry.resolve("other") == "other"
    assert registry.self_hosted_models == ("m", "n")


def test_alias_of_a_card_yields_to_a_model() -> None:
    registry = Registry()
    worker = make(1, "m")
    worker.set_cards([ModelCard(id="m", aliases=("n", "nick"))])
    ready(registry, worker, make(2, "n"))
    entry, nick = registry.find("n"), registry.find("nick")
    assert entry is not None
    assert nick is not None
    assert (entry.model, nick.model) == ("n", "m")


def test_providers() -> None:
    registry = Registry({"al": "gpt"})
    provider, engine = make(1, runtime="external"), make(2, "m")
    ready(registry, provider)
    assert registry.any_entry().ready == (provider,)
    ready(registry, engine)
    assert registry.any_entry().ready == (engine,)
    entry = registry.find("al")
    assert entry is not None
    assert (entry.model, entry.ready) == ("gpt", (provider,))
    assert registry.find("m") is not None
    assert registry.self_hosted_models == ("m",)
    assert registry.ready_count == 2


def test_backend_is_attached_once() -> None:
    made: list[Worker] = []

    class Backend:
        async def forward(self, x: Any, call: Any, lease: Any) -> bool:
            return True

        def tune(self) -> None:
            pass

        def close(self) -> None:
            pass

    def attach(worker: Worker) -> Backend:
        made.append(worker)
        return Backend()

    registry = Registry(attach=attach)
    worker = make(1, "m")
    registry.add(worker)
    assert worker.backend is None
    for status in (Status.READY, Status.NOT_READY, Status.READY):
        registry.set_status(worker, status)
    assert made == [worker]


def test_listeners_see_every_change() -> None:
    registry = Registry()
    seen: list[Change] = []
    registry.on_change(lambda change, worker: seen.append(change))
    worker = make(1, "m")
    ready(registry, worker)
    registry.set_status(worker, Status.READY)
    worker.set_cards([ModelCard(id="n")])
    registry.refresh(worker)
    registry.remove(worker)
    registry.remove(worker)
    registry.set_status(worker, Status.FAILED)
    assert seen == [Change.ADDED, Change.STATUS, Change.MODELS, Change.REMOVED]


def test_draining_worker_gives_its_url_free() -> None:
    registry = Registry()
    old, new = make(1, "m"), make(1, "m")
    ready(registry, old)
    registry.set_status(old, Status.DRAINING)
    assert registry.find_url(old.url) is None
    ready(registry, new)
    registry.remove(old)
    assert registry.find_url(old.url) is new


def half(port: int, kind: str, *models: str) -> Worker:
    worker = make(port, *models)
    worker.worker_type = kind
    return worker


def test_halves_of_pairs_are_apart() -> None:
    registry = Registry()
    whole, prefill, decode = make(1, "m"), half(2, PREFILL, "m"), half(3, DECODE, "m")
    ready(registry, whole)
    entry = registry.find("m")
    assert entry is not None and not entry.is_paired
    ready(registry, prefill, decode)
    entry = registry.find("m")
    assert entry is not None and entry.is_paired
    assert (entry.ready, entry.prefill, entry.decode) == ((whole,), (prefill,), (decode,))
    registry.set_status(decode, Status.NOT_READY)
    entry = registry.find("m")
    assert entry is not None and entry.is_paired and entry.decode == ()
    assert registry.ready_count == 2


def test_it_takes_two_halves_to_serve() -> None:
    registry = Registry()
    assert not registry.can_serve
    prefill, decode = half(2, PREFILL, "m"), half(3, DECODE, "m")
    ready(registry, prefill)
    assert not registry.can_serve and registry.ready_count == 1
    ready(registry, decode)
    assert registry.can_serve
    registry.set_status(prefill, Status.FAILED)
    assert not registry.can_serve
    ready(registry, make(1, "n"))
    assert registry.can_serve


class Closing:
    closed = False

    async def forward(self, x: Any, call: Any, lease: Any) -> bool:
        return True

    def tune(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def test_a_worker_that_turns_out_to_be_a_rank_is_found_by_its_new_name() -> None:
    made: list[Closing] = []

    def attach(worker: Worker) -> Closing:
        made.append(Closing())
        return made[-1]

    registry = Registry(attach=attach)
    first, second = make(1, "m"), make(1, "m")
    ready(registry, first)
    registry.set_status(first, Status.NOT_READY)
    registry.call_rank(first, Rank(0, 2))
    registry.call_rank(second, Rank(1, 2))
    assert made[0].closed
    ready(registry, second)
    registry.set_status(first, Status.READY)
    assert [worker.url for worker in registry.all()] == [f"{first.base_url}@0", f"{first.base_url}@1"]
    assert registry.find_url(first.base_url) is None
    assert registry.find_url(first.url) is first
    assert registry.find_url(second.url) is second
    assert registry.at(first.base_url) == [first, second]
    assert first.backend is made[2]
    registry.set_status(first, Status.DRAINING)
    assert registry.at(first.base_url) == [second]
    assert registry.find_url(first.url) is None
