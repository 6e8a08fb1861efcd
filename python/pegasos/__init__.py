"""Support vector machines trained with stochastic sub-gradients."""

from pegasos._core import InternalError, __version__
from pegasos._linear import PegasosClassifier
from pegasos.io import load, save

__all__ = ["InternalError", "PegasosClassifier", "__version__", "load", "save"]
