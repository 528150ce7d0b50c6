#!/bin/sh
# From a fresh clone to a running gateway or a test run, in one command:
#
#   tools/quickstart.sh serve [options of smg serve]
#   tools/quickstart.sh test  [options of pytest]
#
# Builds a virtual environment in .venv (SMG_VENV: elsewhere) with the newest fitting Python
# (SMG_PYTHON: this one), and skips what is already up to date.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
venv=${SMG_VENV:-$root/.venv}
stamp=$venv/smg-build-stamp
log=$venv/smg-build.log

usage() {
    echo "usage: tools/quickstart.sh serve [options of smg serve]" >&2
    echo "       tools/quickstart.sh test [options of pytest]" >&2
    exit 2
}

fail() {
    echo "quickstart: $*" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    if [ -n "${SMG_PYTHON:-}" ]; then
        is_new_enough "$SMG_PYTHON" || fail "SMG_PYTHON ($SMG_PYTHON) is no Python 3.11 or newer."
        echo "$SMG_PYTHON"
        return
    fi
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null && is_new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    found=$(python3 --version 2>/dev/null || echo "no python3")
    fail "Python 3.11 or newer is needed, found $found. Install it, or name one with SMG_PYTHON."
}

check_tools() {
    command -v "${CC:-cc}" >/dev/null || command -v gcc >/dev/null ||
        fail "a C compiler is needed for the compiled modules. Debian, Ubuntu: apt install gcc"
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "Python's venv module is missing. Debian, Ubuntu: apt install python3-venv"
    "$1" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
        fail "Python's C headers are missing. Debian, Ubuntu: apt install python3-dev"
}

# One line for everything that a build depends on.
fingerprint() {
    "$1" - "$root" <<'PYTHON'
import hashlib, pathlib, sys

root = pathlib.Path(sys.argv[1])
sources = [root / "pyproject.toml", root / "setup.py"]
sources += sorted(p for p in (root / "smg" / "_fast").iterdir() if p.suffix in (".pyx", ".pxd"))
digest = hashlib.sha256(f"{sys.version} {root}".encode())
for path in sources:
    digest.update(f"{path.name}\0".encode() + path.read_bytes())
print(digest.hexdigest())
PYTHON
}

# Says what is done, hides its output, and shows the end of it when it fails.
step() {
    printf '%s ... ' "$1"
    shift
    if "$@" >>"$log" 2>&1; then
        echo "done"
        return
    fi
    echo "failed"
    echo "The last lines of $log:" >&2
    tail -n 30 "$log" >&2
    exit 1
}

# $1: what to install, "." or ".[dev]"
build() {
    python=$(find_python)
    current=$(fingerprint "$python")
    wanted="$current $1"
    built=$(cat "$stamp" 2>/dev/null || true)
    # what the tests need includes what the gateway needs
    if [ -x "$venv/bin/smg" ] && { [ "$built" = "$wanted" ] || [ "$built" = "$current .[dev]" ]; }; then
        return
    fi
    check_tools "$python"
    mkdir -p "$venv" 2>/dev/null || fail "$venv cannot be created; name another place with SMG_VENV."
    : >"$log"
    rm -f "$stamp"
    if ! is_new_enough "$venv/bin/python"; then
        step "Creating the virtual environment" "$python" -m venv "$venv"
    fi
    cd "$root"
    step "Installing and compiling, a minute or two" \
        "$venv/bin/python" -m pip --disable-pip-version-check install --editable "$1"
    echo "$wanted" >"$stamp"
}

[ $# -ge 1 ] || usage
command=$1
shift
case $command in
serve)
    build "."
    exec "$venv/bin/smg" serve "$@"
    ;;
test)
    build ".[dev]"
    cd "$root"
    exec "$venv/bin/python" -m pytest "$@"
    ;;
*)
    usage
    ;;
esac
