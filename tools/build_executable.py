"""Makes a folder with an `smg` that needs no Python: `python tools/build_executable.py`.

It needs this repository installed with the extra `package`, and takes along what the Python it runs in
has of the other extras. The folder, and the archive of it, run on Linux with the glibc of this machine
or a newer one. `tools/check_executable.py` proves it.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from smg import __version__

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "smg"
ENTRY = "import sys\n\nfrom smg.cli.main import main\n\nsys.exit(main())\n"
NO_DATA = {".py", ".pyc", ".pyx", ".pxd", ".pyi", ".c", ".so", ".typed"}
# What libraries import when it is there, and a gateway never uses.
LEFT_OUT = ["IPython", "PIL", "matplotlib", "numpy", "openai", "psutil", "tkinter"]
LEFT_OUT += ["Cython", "mypy", "pydantic", "pydantic_core", "pytest", "setuptools"]
_IMPORT = re.compile(r"^\s*(?:from ([\w.]+) import|import ([\w.]+))", re.MULTILINE)


def data_files() -> list[Path]:
    """Files of the package that the program reads, such as the console's page."""
    found = (path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in NO_DATA)
    return sorted(path for path in found if "__pycache__" not in path.parts)


def hidden_imports() -> list[str]:
    """What the compiled modules import, which nobody can read from them."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((PACKAGE / "_fast").glob("*.pyx"))]
    return sorted({one or other for text in texts for one, other in _IMPORT.findall(text)})


def words_for(entry: Path, output: Path, work: Path) -> list[str]:
    """The words of PyInstaller's command."""
    words = ["--onedir", "--name", "smg", "--strip", "--noupx", "--noconfirm", "--log-level", "ERROR"]
    words += ["--distpath", str(output), "--workpath", str(work), "--specpath", str(work)]
    words += ["--paths", str(ROOT), "--collect-submodules", "smg"]
    for name in hidden_imports():
        words += ["--hidden-import", name]
    for name in LEFT_OUT:
        words += ["--exclude-module", name]
    for path in data_files():
        words += ["--add-data", f"{path}:{path.parent.relative_to(ROOT)}"]
    return [*words, str(entry)]


def archive_of(folder: Path) -> Path:
    name = f"smg-{__version__}-{sys.platform}-{platform.machine()}.tar.gz"
    path = folder.with_name(name)
    with tarfile.open(path, "w:gz", compresslevel=6) as archive:
        archive.add(folder, arcname="smg")
    return path


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(": ")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where it is put (default: dist)")
    output: Path = parser.parse_args().output.resolve()
    try:
        from PyInstaller.__main__ import run
    except ImportError:
        print("PyInstaller is missing: pip install '.[package]'", file=sys.stderr)
        return 2
    if shutil.which("objdump") is None:
        print("objdump is missing. Debian, Ubuntu: apt install binutils", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        entry = Path(folder) / "entry.py"
        entry.write_text(ENTRY)
        run(words_for(entry, output, Path(folder) / "work"))
    made = output / "smg"
    archive = archive_of(made)
    print(f"{made}: {size_of(made) / 1e6:.0f} MB; {archive.name}: {archive.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
