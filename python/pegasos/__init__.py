"""Support vector machines trained with stochastic sub-gradients."""

from pegasos._core import InternalError, __version__
from pegasos._kernel import KernelPegasosClassifier
from pegasos._linear import PegasosClassifier, merge
from pegasos._online import OnlineGradientClassifier
from pegasos._projectron import ProjectronClassifier
from pegasos.io import load, save

__all__ = [
    "InternalError",
    "KernelPegasosClassifier",
    "OnlineGradientClassifier",
    "PegasosClassifier",
    "ProjectronClassifier",
    "__version__",
    "load",
    "merge",
    "save",
]
