"""The types of a kernel's parameters, as annotations: `native` code is compiled for exactly these.

int is an int64, bool a bool, a NamedTuple its fields in order; the aliases here are arrays, all C-contiguous. A kernel
compiled on demand takes its types from the call; so tests call both builds with the same arguments.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple


class ArrayOf(NamedTuple):
    """An array parameter: numpy's name of the element type, number of dimensions, whether the kernel writes to it."""

    element: str
    dimensions: int = 1
    written: bool = True


Word = Annotated[Any, "uint64"]  # a np.uint64

Input = Annotated[Any, ArrayOf("uint8", written=False)]
InputBools = Annotated[Any, ArrayOf("bool", written=False)]
InputInt64s = Annotated[Any, ArrayOf("int64", written=False)]
Uint8s = Annotated[Any, ArrayOf("uint8")]
Int32s = Annotated[Any, ArrayOf("int32")]
Int64s = Annotated[Any, ArrayOf("int64")]
Uint64s = Annotated[Any, ArrayOf("uint64")]
Bools = Annotated[Any, ArrayOf("bool")]
Int64Rows = Annotated[Any, ArrayOf("int64", 2)]
Uint64Rows = Annotated[Any, ArrayOf("uint64", 2)]
