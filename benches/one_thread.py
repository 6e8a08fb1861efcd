"""One thread for everyone. Import it before NumPy, which reads these variables once."""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PEGASOS_NUM_THREADS"):
    os.environ[name] = "1"
