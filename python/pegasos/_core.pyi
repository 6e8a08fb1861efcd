from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

type _Csr = tuple[NDArray[Any], NDArray[Any], NDArray[Any], int]
type _Rows = NDArray[Any] | _Csr
type _Labels = tuple[NDArray[np.uint32], NDArray[np.float64] | None]
type _Order = tuple[str, int, int] | NDArray[np.int64]

__all__ = ["InternalError", "LinearTrainer", "NonFiniteError", "__version__", "check_shape"]
__version__: str

class InternalError(RuntimeError): ...
class NonFiniteError(ValueError): ...

def check_shape(x: _Rows) -> None: ...
@final
class LinearTrainer:
    def __new__(
        cls,
        n_features: int,
        targets: list[int] | int,
        dtype: str,
        constant: float,
        params: dict[str, Any],
    ) -> LinearTrainer: ...
    @staticmethod
    def average(trainers: list[LinearTrainer], factors: list[float]) -> LinearTrainer: ...
    @property
    def t(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    def regret(self) -> tuple[float, float]: ...
    def keep_ledger(self, n_examples: int) -> None: ...
    def forget_ledger(self) -> None: ...
    def check(self, x: _Rows, labels: _Labels) -> None: ...
    def run(
        self,
        x: _Rows,
        labels: _Labels,
        order: _Order,
        *,
        shards: int = 1,
        threads: int = 1,
        progress: Callable[[int], object] | None = None,
    ) -> tuple[int, int, float]: ...
    def begin_dual(self, x: _Rows, labels: _Labels) -> None: ...
    def estimate(self, x: _Rows, labels: _Labels, loss: float) -> float: ...
    def ascend(
        self,
        x: _Rows,
        labels: _Labels,
        order: tuple[str, int],
        tol: float,
        *,
        threads: int = 1,
        progress: Callable[[int], object] | None = None,
    ) -> tuple[int, int, float]: ...
    def leap(self, x: _Rows, labels: _Labels, tol: float, *, threads: int = 1) -> None: ...
    def end_dual(self) -> None: ...
    def evaluate(
        self,
        x: _Rows,
        labels: _Labels,
        *,
        tol: float = 0.0,
        all: bool = True,
        threads: int = 1,
    ) -> list[tuple[float, float]]: ...
    def result(self) -> tuple[NDArray[Any], NDArray[np.float64]]: ...
    def parts(self) -> dict[str, Any]: ...
    @staticmethod
    def from_parts(parts: dict[str, Any]) -> LinearTrainer: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
