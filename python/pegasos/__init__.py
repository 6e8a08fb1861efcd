"""Support vector machines trained with stochastic sub-gradients."""

import os
import signal
import sys

try:
    from pegasos._core import InternalError, __version__
    from pegasos._kernel import KernelPegasosClassifier
    from pegasos._linear import PegasosClassifier
    from pegasos._merge import merge
    from pegasos._online import OnlineGradientClassifier
    from pegasos._path import path
    from pegasos._projectron import ProjectronClassifier
    from pegasos._tuned import KernelPegasosClassifierCV, PegasosClassifierCV
    from pegasos.io import load, save
except KeyboardInterrupt:
    # The command spends its first second here; nobody who stops it then wants to see where it was.
    if os.path.basename(sys.argv[0]) not in ("pegasos", "-m"):
        raise
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stderr.write("pegasos: interrupted\n")
    sys.exit(130)

__all__ = [
    "InternalError",
    "KernelPegasosClassifier",
    "KernelPegasosClassifierCV",
    "OnlineGradientClassifier",
    "PegasosClassifier",
    "PegasosClassifierCV",
    "ProjectronClassifier",
    "__version__",
    "load",
    "merge",
    "path",
    "save",
]
