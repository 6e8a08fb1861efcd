"""Whether a model that was saved here predicts the same elsewhere, where there may be nothing but NumPy.

    python .ci/elsewhere.py save FOLDER
    python .ci/elsewhere.py check FOLDER
"""

import sys
from pathlib import Path

import numpy as np

import pegasos


def save(folder: Path) -> None:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    folder.mkdir(exist_ok=True)
    for name in ("PegasosClassifier", "KernelPegasosClassifier"):
        model = getattr(pegasos, name)(random_state=0).fit(X, y)
        pegasos.save(model, folder / f"{name}.safetensors")
        np.savez(folder / f"{name}.npz", X=X, scores=model.decision_function(X), labels=model.predict(X))


def check(folder: Path) -> None:
    stored = sorted(folder.glob("*.npz"))
    assert stored, f"nothing was saved in {folder}"
    for path in stored:
        there = np.load(path)
        here = pegasos.load(path.with_suffix(".safetensors"), light=True)
        np.testing.assert_allclose(here.decision_function(there["X"]), there["scores"], rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(here.predict(there["X"]), there["labels"])
        print(f"{path.stem}: {len(there['X'])} rows as there")


if __name__ == "__main__":
    {"save": save, "check": check}[sys.argv[1]](Path(sys.argv[2]))
