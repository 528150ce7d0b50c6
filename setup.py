"""Builds the compiled modules of smg/_fast; everything else is declared in pyproject.toml."""

import os
import pathlib

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("SMG_BUILD_DEBUG") == "1"
CFLAGS = ["-O0", "-g"] if DEBUG else ["-O3", "-g0"]
SOURCES = sorted(pathlib.Path("smg/_fast").glob("*.pyx"))

setup(
    ext_modules=cythonize(
        [
            Extension(
                ".".join(path.with_suffix("").parts),
                [str(path)],
                extra_compile_args=CFLAGS,
                define_macros=[("CYTHON_TRACE", "1")] if DEBUG else [],
            )
            for path in SOURCES
        ],
        build_dir="build/cython",
        nthreads=os.cpu_count() or 1,
        annotate=DEBUG,
        compiler_directives={
            "language_level": "3",
            "binding": True,
            "embedsignature": False,
            "auto_pickle": False,
            "wraparound": False,
            "cdivision": True,
            "boundscheck": DEBUG,
            "initializedcheck": DEBUG,
            "linetrace": DEBUG,
        },
    ),
)
