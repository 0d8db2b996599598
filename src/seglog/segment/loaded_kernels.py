"""Kernels that this process has already loaded, for callers that must not wait for a compiler."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any


def loaded_kernel(module: str, name: str) -> Callable[..., Any] | None:
    """Return a kernel if it can be called without delay: from a compiled library, or compiled by this process."""
    kernel = getattr(sys.modules.get(f"seglog.kernels.{module}"), name, None)
    is_ready = isinstance(kernel, BuiltinFunctionType) or getattr(kernel, "signatures", None)
    return kernel if is_ready else None
