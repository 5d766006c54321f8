"""Loads the compiled kernels, and says where they can be used."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import warnings
from collections.abc import Sequence
from ctypes import POINTER, c_float, c_int, c_int64, c_void_p
from typing import Any

import torch
from torch import Tensor

LANES = 16
"""Floats of a vector (kernels.h): widths of heads, and the padded length of prompts, are multiples of it."""
PANEL = 32
"""Columns of weights that are computed at once (kernels.h)."""
INTERFACE = 1
"""Of the functions below (kernels.h): those of another number were compiled for another version of this file."""

_FLOATS, _SIZE = c_void_p, c_int64


class Heads(ctypes.Structure):
    """`Heads` of elementwise.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("qkv", "weight", "cos", "sin")),
        ("eps", c_float),
        *((name, c_int64) for name in ("rows", "heads", "turned", "width")),
    )


class Step(ctypes.Structure):
    """`Step` of decoding.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("qkv", "own_keys", "own_values", "keys", "values", "length", "row", "first", "out")),
        ("scale", c_float),
        *((name, c_int64) for name in ("prompts", "heads", "kv_heads", "width", "room", "longest", "seen")),
    )


class Tree(ctypes.Structure):
    """`Tree` of attention.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("qkv", "root", "branch", "first", "out", "top")),
        ("scale", c_float),
        *((name, c_int64) for name in ("roots", "heads", "kv_heads", "width", "longest_root", "longest_branch")),
    )


_ARGUMENTS: dict[str, Sequence[Any]] = {
    "agon_norm": (_FLOATS, _FLOATS, c_float, _FLOATS, _SIZE, _SIZE),
    "agon_norm_back": (_FLOATS, _FLOATS, _FLOATS, c_float, _FLOATS, _FLOATS, _SIZE, _SIZE),
    "agon_gate": (_FLOATS, _FLOATS, _SIZE, _SIZE),
    "agon_gate_back": (_FLOATS, _FLOATS, _FLOATS, _FLOATS, _SIZE, _SIZE),
    "agon_turn": (POINTER(Heads), _FLOATS),
    "agon_turn_back": (POINTER(Heads), _FLOATS, _FLOATS),
    "agon_product": (_FLOATS, _FLOATS, _FLOATS, _SIZE, _FLOATS, _SIZE, _SIZE, _SIZE),
    "agon_draw": (_FLOATS, _SIZE, c_void_p, c_float, c_void_p, _FLOATS, _SIZE, _SIZE),
    "agon_decode": (POINTER(Step),),
    "agon_attend": (POINTER(Tree), _FLOATS, _FLOATS),
}
_FALLIBLE = ("agon_draw", "agon_decode", "agon_attend")
"""Those that take memory; see `call`."""


def _load() -> Any:
    """Return the library, or None where it was not compiled, would be slow, or is switched off."""
    spec = importlib.util.find_spec("agents.kernels._compiled")
    if spec is None or spec.origin is None or os.environ.get("AGON_KERNELS") == "0":
        return None
    if platform.machine() == "x86_64" and torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        return None  # without AVX2 the exponential has no vectors, and attention takes several times as long as torch's
    try:
        library: Any = ctypes.CDLL(spec.origin)
    except OSError:  # made for another machine
        return None
    if not hasattr(library, "agon_interface") or library.agon_interface() != INTERFACE:
        message = f"{spec.origin} was compiled for another version and is left out; install agon-env once more to compile it"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return None
    if not _shares_threads(library):
        return None
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int if name in _FALLIBLE else None
    return library


def _shares_threads(library: Any) -> bool:
    """Return whether the kernels have torch's OpenMP, and so its threads and `torch.set_num_threads`.

    torch brings its own. Some of its versions give it another name, and then the kernels would get the system's beside it.
    """
    mine, its = (getattr(each, "omp_get_max_threads", None) for each in (library, ctypes.CDLL(torch._C.__file__)))
    if mine is None or its is None:
        return mine is None
    return ctypes.cast(mine, c_void_p).value == ctypes.cast(its, c_void_p).value


LIBRARY = _load()
"""The kernels, or None. torch is imported before, whose OpenMP they share."""


def usable(*tensors: Tensor) -> bool:
    """Return whether the kernels can work on these tensors."""
    if LIBRARY is None:
        return False
    for x in tensors:  # noqa: SIM110 - twice as fast as `all`, a thousand times per text
        if x.dtype is not torch.float32 or not x.is_cpu:
            return False
    return True


def call(kernel: Any, *arguments: Any) -> None:
    """Run a kernel that takes memory.

    Raises:
        MemoryError: there was none.
    """
    if kernel(*arguments):
        raise MemoryError("no memory for the scores of some rows; use smaller batches")
