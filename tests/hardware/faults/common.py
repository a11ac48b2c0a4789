"""What the planted faults share: floats in, floats out, one kernel of the file's own name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from touchgate.checks.cases import Array, Arrays, Bound, Case, Launch, Oracle, Placed, given, scratch, wanted

Answer = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def oracle_of(kernel: str, sizes: tuple[int, ...], answer: Answer, *, sums: bool = False) -> Oracle:
    """One case a size. answer: y of x. sums: whether the kernel has a third array, which nobody writes."""

    def cases() -> Iterator[Case]:
        for n in sizes:
            yield Case(f"n={n}", "float32", {"n": n}, places=("gpu",))

    def arrays(case: Case, random: np.random.Generator) -> Iterator[Array]:
        yield given("x", "float32", random.uniform(1, 2, case["n"]))
        yield wanted("y", "float32", (case["n"],))
        if sums:
            yield scratch("sums", "float32", (case["n"],))

    def launch(case: Case, placed: Mapping[str, Placed], threads: int) -> Iterator[Launch]:
        blocks = -(-case["n"] // threads)
        pointers = [placed[name].pointer for name in ("x", "y", "sums") if name in placed]
        yield Launch(kernel, (blocks, 1, 1), (threads, 1, 1), [*pointers, np.int32(case["n"])])

    def oracle(_case: Case, inputs: Arrays) -> Arrays:
        return {"y": answer(inputs["x"])}

    def bound(_case: Case, _inputs: Arrays, _outputs: Arrays) -> Mapping[str, Bound]:
        return {"y": Bound(None, "moved, or doubled: no rounding")}

    return Oracle(cases, arrays, launch, oracle, bound)
