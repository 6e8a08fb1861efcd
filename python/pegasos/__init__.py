"""Support vector machines trained with stochastic sub-gradients.

Names are imported when they are first used: what predicts from a file, and the command's help, do not wait for scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pegasos._core import InternalError, __version__

if TYPE_CHECKING:
    from pegasos._display import TrainingCurveDisplay
    from pegasos._kernel import KernelPegasosClassifier
    from pegasos._linear import PegasosClassifier
    from pegasos._merge import merge, split
    from pegasos._online import OnlineGradientClassifier
    from pegasos._path import path
    from pegasos._predictor import Predictor
    from pegasos._projectron import ProjectronClassifier
    from pegasos._tuned import KernelPegasosClassifierCV, PegasosClassifierCV
    from pegasos.io import load, save

#: Where each of the others is.
_PLACES = {
    "KernelPegasosClassifier": "pegasos._kernel",
    "KernelPegasosClassifierCV": "pegasos._tuned",
    "OnlineGradientClassifier": "pegasos._online",
    "PegasosClassifier": "pegasos._linear",
    "PegasosClassifierCV": "pegasos._tuned",
    "Predictor": "pegasos._predictor",
    "ProjectronClassifier": "pegasos._projectron",
    "TrainingCurveDisplay": "pegasos._display",
    "load": "pegasos.io",
    "merge": "pegasos._merge",
    "path": "pegasos._path",
    "save": "pegasos.io",
    "split": "pegasos._merge",
}

#: Modules that are imported when they are first used.
_MODULES = ("dask", "datasets", "explain", "io", "onnx", "river")

__all__ = [
    "InternalError",
    "KernelPegasosClassifier",
    "KernelPegasosClassifierCV",
    "OnlineGradientClassifier",
    "PegasosClassifier",
    "PegasosClassifierCV",
    "Predictor",
    "ProjectronClassifier",
    "TrainingCurveDisplay",
    "__version__",
    "load",
    "merge",
    "path",
    "save",
    "split",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        found = globals()[name] = getattr(import_module(_PLACES[name]), name)
        return found
    if name in _MODULES:
        return import_module(f"pegasos.{name}")
    raise AttributeError(f"module 'pegasos' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
