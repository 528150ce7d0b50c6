"""What a new worker is: does it speak HTTP, which engine runs there, which models and properties it has."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from smg.workers.engine import Answer, EngineClient, EngineError
from smg.workers.spec import provider_of_model
from smg.workers.worker import ModelCard, Worker

MAX_MODELS = 1024
MAX_NAME_CHARACTERS = 512
MAX_LABEL_CHARACTERS = 1024

_SGLANG_OWNERS = ("sglang", "nvidia")
_SERVER_LABELS = (
    "model_id",
    "model_path",
    "served_model_name",
    "tp_size",
    "dp_size",
    "pp_size",
    "load_balance_method",
    "disaggregation_mode",
    "version",
    "is_embedding",
    "context_length",
    "max_total_tokens",
    "max_running_requests",
    "weight_version",
)
_MODEL_LABELS = (
    "model_path",
    "tokenizer_path",
    "is_generation",
    "has_image_understanding",
    "has_audio_understanding",
    "model_type",
    "architectures",
)
_CARD_LABELS = {"id": "served_model_name", "root": "model_path", "max_model_len": "max_model_len"}


class Findings:
    """What the probes told about a worker."""

    __slots__ = ("cards", "labels", "runtime")

    def __init__(self, runtime: str, cards: tuple[ModelCard, ...], labels: dict[str, str]) -> None:
        self.runtime = runtime
        self.cards = cards
        self.labels = labels


class Prober:
    """`api_key` is sent to workers that have no key of their own."""

    def __init__(self, client: EngineClient, api_key: str | None = None) -> None:
        self._client = client
        self._api_key = api_key

    def key_of(self, worker: Worker) -> str | None:
        """The key the gateway shows to a worker; its own never goes to a provider."""
        if worker.api_key is not None or worker.is_external:
            return worker.api_key
        return self._api_key

    async def is_healthy(self, worker: Worker) -> bool:
        """One health check, within the worker's own time limit."""
        url = worker.base_url + worker.health.endpoint
        try:
            answer = await self._client.get(url, self.key_of(worker), worker.health.timeout_s)
        except EngineError:
            return False
        return answer.is_ok

    async def inspect(self, worker: Worker, runtime: str, cards: tuple[ModelCard, ...] | None) -> Findings:
        """Find out what is not given: `runtime` may be `unspecified`, `cards` may be `None`.

        Raises `EngineError` when the engine does not answer, or not yet with what is needed.
        """
        if worker.is_external:
            return await self._inspect_provider(worker, cards)
        await self._check_http(worker)
        entries = _entries(await self._find(worker, "/v1/models"))
        if runtime == "unspecified":
            runtime = await self._detect(worker, entries, cards is not None)
        labels = await self._labels(worker, runtime, entries)
        if cards is None:
            cards = _cards(entries, labels)
        if not cards:
            raise EngineError("the engine names no model")
        if not await self.is_healthy(worker):
            raise EngineError("the health check failed")
        return Findings(runtime, cards, labels)

    async def _inspect_provider(self, worker: Worker, cards: tuple[ModelCard, ...] | None) -> Findings:
        if cards is None and worker.api_key is not None:
            answer = await self._get(worker, "/v1/models")
            if not answer.is_ok:
                raise EngineError(f"/v1/models answered {answer.status}")
            cards = tuple(
                ModelCard(id=entry["id"], provider=worker.provider or provider_of_model(entry["id"]))
                for entry in _entries(answer)
            )
            if not cards:
                raise EngineError("the provider lists no model")
        return Findings(worker.runtime, cards or (), {})

    async def _check_http(self, worker: Worker) -> None:
        """The first contact goes without a key: what answers may be no engine of ours at all."""
        answer = await self._client.get(
            worker.base_url + worker.health.endpoint, None, worker.health.timeout_s
        )
        if not answer.is_ok and answer.status not in (401, 403):
            raise EngineError(f"{worker.health.endpoint} answered {answer.status}")

    async def _detect(self, worker: Worker, entries: list[dict[str, Any]], has_models: bool) -> str:
        owner = entries[0].get("owned_by") if entries else None
        if owner in _SGLANG_OWNERS:
            return "sglang"
        if owner == "vllm":
            return "vllm"
        version, server_info = await asyncio.gather(
            self._find(worker, "/version"), self._find(worker, "/server_info", "/get_server_info")
        )
        if version is not None:
            return "vllm"
        if server_info is not None:
            return "sglang"
        if entries or has_models:
            return "generic"
        raise EngineError("the engine could not be recognised")

    async def _labels(self, worker: Worker, runtime: str, entries: list[dict[str, Any]]) -> dict[str, str]:
        first = entries[0] if entries else {}
        listed = {label: first[name] for name, label in _CARD_LABELS.items() if name in first}
        if runtime == "vllm":
            version = _members(await self._find(worker, "/version"))
            return _texts(listed | {name: version[name] for name in ("version",) if name in version})
        server, model = await asyncio.gather(
            self._find(worker, "/server_info", "/get_server_info"),
            self._find(worker, "/model_info", "/get_model_info"),
        )
        server_info, model_info = _members(server), _members(model)
        told = {name: server_info[name] for name in _SERVER_LABELS if name in server_info}
        if "model_id" in told:
            told["model"] = told["model_id"]
        told |= {name: model_info[name] for name in _MODEL_LABELS if name in model_info}
        return _texts(listed | told)

    async def _find(self, worker: Worker, *paths: str) -> Answer | None:
        """The first 2xx of `paths`; the next one is only asked when one does not exist."""
        for path in paths:
            try:
                answer = await self._get(worker, path)
            except EngineError:
                return None
            if answer.is_ok:
                return answer
            if answer.status != 404:
                return None
        return None

    async def _get(self, worker: Worker, path: str) -> Answer:
        return await self._client.get(worker.base_url + path, self.key_of(worker), worker.health.timeout_s)


def _members(answer: Answer | None) -> dict[str, Any]:
    """The JSON object of an answer; metadata that can't be read is metadata that is missing."""
    if answer is None:
        return {}
    try:
        found = answer.json()
    except EngineError:
        return {}
    return found if isinstance(found, dict) else {}


def _entries(answer: Answer | None) -> list[dict[str, Any]]:
    """The usable entries of a `/v1/models` answer, each ID once."""
    listed = _members(answer).get("data")
    found: dict[str, dict[str, Any]] = {}
    for entry in listed if isinstance(listed, list) else ():
        name = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARACTERS and len(found) < MAX_MODELS:
            found.setdefault(name, entry)
    return list(found.values())


def _cards(entries: list[dict[str, Any]], labels: dict[str, str]) -> tuple[ModelCard, ...]:
    if entries:
        return tuple(ModelCard(id=e["id"], context_length=_length(e.get("max_model_len"))) for e in entries)
    for label in ("served_model_name", "model_id", "model_path"):
        if name := labels.get(label, "")[:MAX_NAME_CHARACTERS]:
            context = labels.get("context_length", "")
            return (ModelCard(id=name, context_length=int(context) if context.isdecimal() else None),)
    return ()


def _length(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _texts(members: dict[str, Any]) -> dict[str, str]:
    """Labels are texts; what is not a text is written as JSON, what is null is left out."""
    texts = {}
    for name, value in members.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if value is not None and 0 < len(text) <= MAX_LABEL_CHARACTERS:
            texts[name] = text
    return texts
