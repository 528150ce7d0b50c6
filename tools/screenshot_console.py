"""Makes docs/console.png: the console before simulated engines, in a headless Chromium.

python tools/screenshot_console.py [--chromium PROGRAM] [--output FILE] [--width 1280] [--height 800]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import random
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.conftest import find_free_port  # noqa: E402
from tests.system.real.browser import browsing  # noqa: E402

CLIENTS = 24
SECONDS = 25.0
READY_SECS = 30.0
SIM = ("--model", "simulated-model", "--prefill-tps", "9000", "--decode-tps", "60", "--output-tokens", "40")
FAULTS = ("--fault", "status,status=503,probability=0.01", "--fault", "cut,after_events=5,probability=0.01")
LIMITS = """
default_policy: {tokens_per_minute: 1000000, requests_per_minute: 1000}
tenants:
  - {tenant_key: "auth:search", tokens_per_minute: 200000, requests_per_minute: 500}
  - {tenant_key: "auth:support", tokens_per_minute: 900000, requests_per_minute: 1500}
"""
TENANTS = ("search", "support")


@contextlib.asynccontextmanager
async def smg(*words: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "smg", *words, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def ask(url: str, number: int) -> None:
    """One client: the same beginning of the prompt, a new question every time."""
    choice = random.Random(number)
    system = f"You are assistant {number % 6} of a shop. " * 60
    async with aiohttp.ClientSession() as session:
        while True:
            question = f"Question {choice.randrange(10**6)}: where is my parcel?"
            messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
            model = "simulated-model" if choice.random() > 0.01 else "no-such-model"
            body = {"model": model, "stream": True, "messages": messages}
            key = {"Authorization": f"Bearer {TENANTS[number % len(TENANTS)]}"}
            async with session.post(url + "/v1/chat/completions", json=body, headers=key) as answer:
                with contextlib.suppress(aiohttp.ClientPayloadError):
                    await answer.read()
            await asyncio.sleep(choice.random() * 0.6)


async def until_ready(url: str) -> None:
    async with asyncio.timeout(READY_SECS), aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with session.get(url + "/readiness") as answer:
                    if answer.status == 200 and (await answer.json())["healthy_workers"] == 3:
                        return
            await asyncio.sleep(0.1)


async def picture(chromium: str, width: int, height: int) -> bytes:
    ports = [find_free_port() for _ in range(4)]
    url = f"http://127.0.0.1:{ports[3]}"
    engines = [f"http://127.0.0.1:{port}" for port in ports[:3]]
    with tempfile.TemporaryDirectory() as folder:
        limits = Path(folder) / "limits.yaml"
        limits.write_text(LIMITS, encoding="utf-8")
        keys = [word for name in TENANTS for word in ("--tenant-api-key", f"{name}:{name}")]
        launch = [
            "--host",
            "127.0.0.1",
            "--port",
            str(ports[3]),
            "--prometheus-port",
            "0",
            "--log-level",
            "error",
        ]
        launch += ["--tenant-rate-limit-enabled", "--tenant-rate-limit-config", str(limits), *keys]
        launch += ["--control-plane-api-keys", "ops:Operator:admin:admin-key", "--load-monitor-interval", "2"]
        async with (
            smg("sim", "--port", *map(str, ports[:3]), *SIM, *FAULTS),
            smg("launch", *launch, "--worker-urls", *engines, "http://127.0.0.1:9"),
        ):
            await until_ready(url)
            clients = [asyncio.create_task(ask(url, number)) for number in range(CLIENTS)]
            async with browsing(chromium, Path(folder)) as page:
                size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
                await page.ask("Emulation.setDeviceMetricsOverride", **size)
                await page.open(f"{url}/console")
                await page.until("!document.getElementById('ask').hidden")
                await page.value(
                    "document.getElementById('key').value = 'admin-key';"
                    "document.querySelector('#ask button').click()"
                )
                await page.until("!document.getElementById('board').hidden")
                await asyncio.sleep(SECONDS)
                taken = base64.b64decode(await page.screenshot())
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="the browser")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "console.png")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=800)
    args = parser.parse_args()
    if args.chromium is None:
        print("there is no chromium: give one with --chromium", file=sys.stderr)
        return 2
    args.output.write_bytes(asyncio.run(picture(args.chromium, args.width, args.height)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
