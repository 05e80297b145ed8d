"""Imports the native module, and explains how to install it if it is missing, for example in an unbuilt source tree."""

from pathlib import Path

try:
    from unrack import _native  # noqa: F401
except ImportError as why:
    here = Path(__file__).parent
    raise ImportError(
        f"cannot import unrack._native, the part of the package in Rust, from {here} ({why}): install the wheel "
        "(`pip install unrack`), or if this is a source tree, run `make build` there, and "
        f"`ln -sf ../../target/release/libunrack_native.so {here / '_native.abi3.so'}`",
        name="unrack._native",
    ) from why
