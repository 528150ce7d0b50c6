import subprocess
import sys

import pytest

from smg import __version__
from smg.cli.main import main


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"smg {__version__}\n"


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out = capsys.readouterr().out
    assert all(command in out for command in ("launch", "serve", "sim", "version"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["launch", "--por", "1"], "smg launch: unknown option --por, did you mean --port?"),
        (["launch", "--polcy=x", "--zzzz"], "--polcy, did you mean --policy?; unknown option --zzzz"),
        (["launch", "--queue-siz", "1"], "did you mean --queue-size?"),
        (["launch", "x"], "unexpected argument 'x'"),
        (["launch", "--port"], "expected one argument"),
        (["lunch"], "invalid choice: 'lunch'"),
        (["version", "--x"], "smg version: unknown option --x"),
    ],
)
def test_unknown_words_end_with_2_and_a_hint(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_refused_start_ends_with_2_and_all_problems(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "--enable-mesh", "--retry-max-retries", "0"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("smg launch: cannot start, there are 2 problems:\n")
    assert "--enable-mesh is not offered" in said
    assert "--retry-max-retries" in said


@pytest.mark.parametrize("words", [["--help"], ["launch", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys\n"
        "from smg.cli.main import main\n"
        f"try: main({words})\n"
        "except SystemExit: pass\n"
        "heavy = {'aiohttp', 'asyncio', 'grpc', 'prometheus_client', 'tokenizers', 'uvloop', 'yaml'}\n"
        "print('heavy', *heavy & set(sys.modules))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.lower().startswith("usage: smg")
    assert ended.stdout.endswith("\nheavy\n")


def test_the_package_is_a_program() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "smg", "version"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, f"smg {__version__}\n")
