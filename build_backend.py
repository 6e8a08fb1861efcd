"""maturin, which by itself would download a Rust toolchain wherever it finds none, and pip would not say so.

Without cargo a build from source ends with maturin's own word on what is missing. Whoever wants the download sets
MATURIN_NO_INSTALL_RUST to nothing.
"""

import os

os.environ.setdefault("MATURIN_NO_INSTALL_RUST", "1")

from maturin import *  # noqa: E402, F403
