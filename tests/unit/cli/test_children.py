"""Children of `smg serve`: they end together, in order, and with a sentence."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from smg.cli.children import Child, Children, Failed, Stopped
from tests.system.processes import is_alive
from tests.waiting import turns, until

BOUND_SECS = 20.0
WILLING = "import signal; print('up', flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WILLING


async def start(children: Children, name: str, code: str) -> Child:
    child = await children.start(name, [sys.executable, "-c", code], reads_output=True)
    assert await asyncio.wait_for(child.first_line(), BOUND_SECS) == "up"
    return child


async def test_an_unexpected_end_is_told() -> None:
    children = Children()
    child = await start(children, "engine 7", WILLING)
    os.kill(child.process.pid, signal.SIGKILL)
    with pytest.raises(Failed, match="engine 7 was killed by SIGKILL"):
        await asyncio.wait_for(children.until_end(), BOUND_SECS)
    await children.stop([child], 1)
    await children.close()


async def test_a_step_is_given_up_when_a_child_ends() -> None:
    children = Children()
    await children.start("it", [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(Failed, match="it ended with exit status 3"):
        await children.until(asyncio.Event().wait(), BOUND_SECS, "too late")
    await children.close()


async def result() -> str:
    await turns()
    return "result"


async def test_a_step_may_not_take_for_ever() -> None:
    children = Children()
    with pytest.raises(Failed, match="too late"):
        await children.until(asyncio.Event().wait(), 0.01, "too late")
    assert await children.until(result(), BOUND_SECS, "too late") == "result"
    await children.close()


async def test_a_program_that_is_not_there() -> None:
    children = Children()
    with pytest.raises(Failed, match="the gateway cannot be started: /nowhere: No such file"):
        await children.start("the gateway", ["/nowhere"])
    await children.close()


async def test_an_expected_end_is_no_failure() -> None:
    children = Children()
    children.watch_signals()
    child = await start(children, "it", WILLING)
    await children.stop([child], BOUND_SECS)
    assert child.process.returncode == -signal.SIGTERM
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Stopped):
        await asyncio.wait_for(children.until_end(), BOUND_SECS)
    await children.close()


async def test_who_does_not_end_is_killed() -> None:
    children = Children()
    child = await start(children, "it", STUBBORN)
    await children.stop([child], 0.05)
    assert child.process.returncode == -signal.SIGKILL
    await children.close()


async def test_a_second_signal_ends_the_grace() -> None:
    children = Children()
    children.watch_signals()
    child = await start(children, "it", STUBBORN)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Stopped):
            await asyncio.wait_for(children.until_end(), BOUND_SECS)
    await asyncio.wait_for(children.stop([child], 999), BOUND_SECS)
    assert child.process.returncode == -signal.SIGKILL
    await children.close()


async def test_children_do_not_get_the_terminals_signals() -> None:
    children = Children()
    child = await start(children, "it", WILLING)
    assert os.getpgid(child.process.pid) == child.process.pid
    await children.stop([child], BOUND_SECS)
    await children.close()


async def test_children_end_with_their_parent(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from smg.cli.children import Children
async def main():
    children = Children()
    child = await children.start("it", [sys.executable, "-c", {WILLING!r}], reads_output=True)
    await child.first_line()
    print(child.process.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    root = str(Path(__file__).parents[3])
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, cwd=tmp_path, env={"PYTHONPATH": root}
    )
    assert parent.stdout is not None
    grandchild = int(await asyncio.wait_for(parent.stdout.readline(), BOUND_SECS))
    parent.kill()
    await parent.wait()
    await until(lambda: not is_alive(grandchild), "the grandchild ends")
