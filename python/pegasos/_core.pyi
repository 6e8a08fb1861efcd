from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

type _Csr = tuple[NDArray[Any], NDArray[Any], NDArray[Any], int]
type _Rows = NDArray[Any] | _Csr
type _Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any], int, NDArray[np.float64]]

__all__ = [
    "Examples",
    "Facts",
    "Fit",
    "InternalError",
    "Made",
    "Metric",
    "NonFiniteError",
    "Refit",
    "Svmlight",
    "Trainer",
    "__version__",
    "agop",
    "gradients",
]
__version__: str

class InternalError(RuntimeError): ...
class NonFiniteError(ValueError): ...

@final
class Examples:
    def __new__(
        cls,
        x: _Rows,
        y: NDArray[np.uint32] | None = None,
        weight: NDArray[np.float64] | None = None,
    ) -> Examples: ...
    def __len__(self) -> int: ...
    def check(self) -> None: ...
    def squared_norms(self) -> NDArray[np.float64]: ...

@final
class Made:
    @property
    def kind(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def params(self) -> dict[str, Any]: ...
    @property
    def targets(self) -> list[int] | int | None: ...
    @property
    def n_features(self) -> int: ...
    @property
    def sparse(self) -> bool: ...
    @property
    def classes(self) -> int: ...

@final
class Facts:
    @property
    def t(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def gradient_error(self) -> float: ...
    @property
    def spans(self) -> bool: ...
    @property
    def regret(self) -> tuple[float, float]: ...

@final
class Trainer:
    @staticmethod
    def linear(
        n_features: int,
        sparse: bool,
        targets: list[int] | int,
        dtype: str,
        constant: float,
        params: dict[str, Any],
    ) -> Trainer: ...
    @staticmethod
    def kernel(
        bounded: bool,
        n_features: int,
        sparse: bool,
        classes: int,
        dtype: str,
        params: dict[str, Any],
    ) -> Trainer: ...
    @staticmethod
    def average(trainers: list[Trainer], factors: list[float]) -> Trainer: ...
    def copy(self) -> Trainer: ...
    @property
    def made(self) -> Made: ...
    @property
    def facts(self) -> Facts: ...
    def assume_positive(self) -> None: ...
    def forget_rows(self) -> None: ...
    def set_coefs(self, coefs: NDArray[np.float64], steps: int) -> None: ...
    def survives(self, examples: Examples) -> bool: ...
    def scores(
        self, examples: Examples, *, threads: int = 1
    ) -> NDArray[np.float64]: ...
    def result(self) -> tuple[NDArray[Any], Any, Any]: ...
    def vectors(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]: ...
    def parts(self) -> dict[str, Any]: ...
    @staticmethod
    def from_parts(parts: dict[str, Any]) -> Trainer: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Fit:
    def __new__(
        cls,
        trainer: Trainer,
        examples: Examples,
        rows: str | NDArray[np.int64],
        *,
        solver: str = "pegasos",
        tol: float | None = None,
        max_epochs: int = 1,
        patience: int = 5,
        seed: int = 0,
        first_epoch: int = 0,
        shards: int = 1,
        cache: int = 0,
        certify: bool = False,
        going_on: bool = True,
        until_stopped: bool = False,
        every: int | None = None,
        metric: Metric | None = None,
        threads: int = 1,
    ) -> Fit: ...
    def epoch(self, progress: Callable[[int, int], object] | None = None) -> bool: ...
    @property
    def outcome(self) -> str | None: ...
    @property
    def losses(self) -> list[float]: ...
    @property
    def certificate(self) -> tuple[float, float]: ...
    @property
    def epochs(self) -> int: ...
    @property
    def ascends(self) -> bool: ...
    @property
    def records(self) -> list[tuple[int, int, int, float]]: ...
    def stop(self) -> None: ...
    def end(self) -> None: ...

@final
class Refit:
    ROUGH: ClassVar[float]
    ROUGHER: ClassVar[float]
    def __new__(
        cls,
        trainer: Trainer,
        n_examples: int,
        alpha: float,
        cache: int,
        multi_class: str,
        *,
        metric: Metric | None = None,
        threads: int = 1,
    ) -> Refit: ...
    @staticmethod
    def linear(
        n_examples: int,
        n_features: int,
        sparse: bool,
        targets: list[int] | int,
        dtype: str,
        constant: float,
        loss: str,
        alpha: float,
    ) -> Refit: ...
    @property
    def rank(self) -> int: ...
    def set_alpha(self, alpha: float, *, anew: bool = False) -> None: ...
    def solve(
        self,
        examples: Examples,
        tol: float,
        seed: int,
        *,
        threads: int = 1,
        progress: Callable[[int], object] | None = None,
    ) -> tuple[float, float, float, int, int]: ...
    @staticmethod
    def worth(visits: int, n_examples: int, t: int) -> int: ...
    def scores(
        self, examples: Examples, rows: NDArray[np.int64], *, threads: int = 1
    ) -> NDArray[np.float64]: ...
    def coefs(self, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]: ...
    def features(self, examples: Examples, *, threads: int = 1) -> NDArray[Any]: ...
    def weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

@final
class Metric:
    def __new__(
        cls, values: NDArray[np.float64], n_features: int, diagonal: bool, dtype: str
    ) -> Metric: ...
    def map(self, examples: Examples, *, threads: int = 1) -> NDArray[Any]: ...

@final
class Svmlight:
    def __new__(
        cls, dtype: str, zero_based: bool | None, n_features: int | None, *, threads: int = 1
    ) -> Svmlight: ...
    @property
    def n_rows(self) -> int: ...
    def push(self, block: bytes) -> None: ...
    def end(self) -> None: ...
    def seen(self) -> tuple[int, bool]: ...
    def forget(self) -> None: ...
    def take(self, n: int) -> _Arrays: ...
    def finish(self) -> _Arrays: ...

def agop(
    trainer: Trainer, examples: Examples, rows: NDArray[np.int64], diagonal: bool, *, threads: int = 1
) -> NDArray[np.float64]: ...
def gradients(
    trainer: Trainer, examples: Examples, rows: NDArray[np.int64], *, threads: int = 1
) -> NDArray[Any]: ...
