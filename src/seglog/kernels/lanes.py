"""XXH64's four lanes as one vector, for processors that multiply four 64-bit words at a time (AVX-512 DQ, VL).

There a stripe of 32 bytes takes five instructions instead of 24, eight of them multiplications that compete for one
unit. Elsewhere such a product consists of many 32-bit ones and gains little: checksum.py processes lane by lane.
Loaded only where the kernels are compiled.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import config, types
from numba.extending import intrinsic

from seglog.kernels.layout import P1, P2, P4, STRIPE_BYTES

WORD, HALF, BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
LANES = ir.VectorType(WORD, 4)
FLAG = "seglog_side_by_side"
"""The symbol that holds the answer of `multiplies_side_by_side` in a library."""


@intrinsic
def multiplies_side_by_side(_typing: Any) -> Any:
    """Return whether this processor does that. In a library it is a constant, which `entry` sets for each level."""

    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        if not config.CPU_NAME:
            return ir.Constant(BIT, int(_host_multiplies_side_by_side()))
        known = builder.module.globals.get(FLAG) or ir.GlobalVariable(builder.module, BIT, FLAG)
        known.linkage, known.initializer = "weak", ir.Constant(BIT, 0)
        return builder.load(known)

    return types.boolean(), generate


def _host_multiplies_side_by_side() -> bool:
    has = llvm.get_host_cpu_features()
    return bool(has.get("avx512dq") and has.get("avx512vl"))


def _words(*values: Any) -> Any:
    return ir.Constant(LANES, [ir.Constant(WORD, int(word) % 2**64) for word in values])


def _all(word: Any) -> Any:
    return _words(*[word] * 4)


def _rotated(builder: Any, lanes: Any, *left: int) -> Any:
    back = [64 - bits for bits in left]
    return builder.or_(builder.shl(lanes, _words(*left)), builder.lshr(lanes, _words(*back)))


def _scrambled(builder: Any, lanes: Any) -> Any:
    return builder.mul(_rotated(builder, lanes, 31, 31, 31, 31), _all(P1))


def _seeded(builder: Any, seed: Any) -> Any:
    none = ir.Constant(LANES, ir.Undefined)
    everywhere = ir.Constant(ir.VectorType(HALF, 4), [0] * 4)
    seeds = builder.shuffle_vector(builder.insert_element(none, seed, HALF(0)), none, everywhere)
    return builder.add(seeds, _words(int(P1) + int(P2), P2, 0, -int(P1)))


def _over_stripes(builder: Any, address: Any, last: Any, lanes: Any) -> Any:
    """Process the stripes from `address` up to the one at or before `last`; return the lanes."""
    before, loop = builder.block, builder.append_basic_block("stripe")
    after = builder.append_basic_block("stripes.done")
    builder.branch(loop)
    builder.position_at_end(loop)
    at, held = builder.phi(WORD), builder.phi(LANES)
    words = builder.load(builder.inttoptr(at, LANES.as_pointer()), align=1)
    taken = _scrambled(builder, builder.add(held, builder.mul(words, _all(P2))))
    following = builder.add(at, WORD(STRIPE_BYTES))
    for phi, first, next_one in ((at, address, following), (held, lanes, taken)):
        phi.add_incoming(first, before)
        phi.add_incoming(next_one, loop)
    builder.cbranch(builder.icmp_signed("<=", following, last), loop, after)
    builder.position_at_end(after)
    return taken


def _merged(builder: Any, lanes: Any) -> Any:
    def each(vector: Any) -> list[Any]:
        return [builder.extract_element(vector, HALF(lane)) for lane in range(4)]

    one, two, three, four = each(_rotated(builder, lanes, 1, 7, 12, 18))
    digest = builder.add(builder.add(one, two), builder.add(three, four))
    for lane in each(_scrambled(builder, builder.mul(lanes, _all(P2)))):
        digest = builder.add(builder.mul(builder.xor(digest, lane), WORD(int(P1))), WORD(int(P4)))
    return digest


@intrinsic
def stripes_side_by_side(_typing: Any, _address: Any, _last: Any, _seed: Any) -> Any:
    """Return XXH64's unfinished digest of the stripes (one or more) from `address` to the one at or before `last`."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, last, seed = arguments
        return _merged(builder, _over_stripes(builder, address, last, _seeded(builder, seed)))

    return types.uint64(types.int64, types.int64, types.uint64), generate
