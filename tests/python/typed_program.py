"""A small program as users write it: type checkers know what everything is, and find words that mean nothing."""

from typing import TYPE_CHECKING, assert_type

import numpy as np

from pegasos import (
    KernelPegasosClassifier,
    KernelPegasosClassifierCV,
    OnlineGradientClassifier,
    PegasosClassifier,
    PegasosClassifierCV,
    ProjectronClassifier,
    merge,
    path,
)

random = np.random.default_rng(0)
X = random.normal(size=(80, 3))
y = (X[:, 0] > 0).astype(int)

linear = assert_type(PegasosClassifier("log_loss", alpha=0.01, random_state=0).fit(X, y, X[:, 0] ** 2), PegasosClassifier)
assert_type(linear.partial_fit(X, y, classes=[0, 1]), PegasosClassifier)
assert_type(linear.predict(X), np.ndarray)
assert_type(linear.decision_function(X), np.ndarray)
assert_type(linear.predict_proba(X), np.ndarray)
assert_type(linear.predict_log_proba(X), np.ndarray)
assert_type(linear.score(X, y), float)
assert_type(linear.coef_, np.ndarray)
assert_type(linear.intercept_, np.ndarray)
assert_type(linear.classes_, np.ndarray)
assert_type(linear.alpha_, float)
assert_type(linear.duality_gap_, float)
assert_type(linear.loss_curve_, list[float])
assert_type(linear.sparsify().densify(), PegasosClassifier)
assert_type(linear.set_params(alpha=0.1), PegasosClassifier)

online = assert_type(OnlineGradientClassifier(radius=2.0).fit(X, y), OnlineGradientClassifier)
assert_type(online.score(X, y), float)
assert_type(online.regret_bound_, float)
assert_type(merge([online, online]), OnlineGradientClassifier)

kernel = assert_type(
    KernelPegasosClassifier(gamma=0.5, budget=20, calibration="sigmoid", class_weight="balanced").fit(X, y),
    KernelPegasosClassifier,
)
assert_type(kernel.partial_fit(X, y), KernelPegasosClassifier)
assert_type(kernel.refit(X, y, alpha=[0.1, 0.01]), KernelPegasosClassifier)
assert_type(kernel.predict(X), np.ndarray)
assert_type(kernel.decision_function(X), np.ndarray)
assert_type(kernel.predict_proba(X), np.ndarray)
assert_type(kernel.score(X, y), float)
assert_type(kernel.dual_coef_, np.ndarray)
assert_type(kernel.budget_, int | None)

projectron = assert_type(ProjectronClassifier("poly", sampling=np.arange(80)).fit(X, y), ProjectronClassifier)
assert_type(projectron.predict(X), np.ndarray)
assert_type(projectron.score(X, y), float)

tuned = assert_type(PegasosClassifierCV([0.1, 0.01], cv=3).fit(X, y), PegasosClassifierCV)
assert_type(tuned.predict(X), np.ndarray)
assert_type(tuned.predict_proba(X), np.ndarray)
assert_type(tuned.score(X, y), float)
assert_type(tuned.best_estimator_, PegasosClassifier)
widths = assert_type(KernelPegasosClassifierCV([0.1], [0.01], 20, cv=3).fit(X, y), KernelPegasosClassifierCV)
assert_type(widths.decision_function(X), np.ndarray)
assert_type(widths.gamma_, float)
assert_type(widths.best_estimator_, KernelPegasosClassifier)

assert_type(path(X, y, np.geomspace(1.0, 0.01, 3)).coefs, np.ndarray)

if TYPE_CHECKING:
    # An error each; a checker that finds none says that the comment is not needed.
    PegasosClassifier("hing")  # type: ignore[arg-type]
    PegasosClassifier(solver="newton")  # type: ignore[arg-type]
    PegasosClassifier(multi_class="ovo")  # type: ignore[arg-type]
    PegasosClassifier(learning_rate="optimal")  # type: ignore[arg-type]
    PegasosClassifier(average="mean")  # type: ignore[arg-type]
    PegasosClassifier(alpha="scale")  # type: ignore[arg-type]
    PegasosClassifier(sampling="sorted")  # type: ignore[arg-type]
    PegasosClassifier(class_weight="equal")  # type: ignore[arg-type]
    PegasosClassifier(calibration="auto")  # type: ignore[arg-type]
    PegasosClassifier(C=1.0)  # type: ignore[call-arg]
    OnlineGradientClassifier(learning_rate="optimal")  # type: ignore[arg-type]
    KernelPegasosClassifier("gauss")  # type: ignore[arg-type]
    KernelPegasosClassifier(gamma="median")  # type: ignore[arg-type]
    KernelPegasosClassifier(budget="none")  # type: ignore[arg-type]
    KernelPegasosClassifier(maintenance="delete")  # type: ignore[arg-type]
    KernelPegasosClassifier(metric="euclidean")  # type: ignore[arg-type]
    ProjectronClassifier("precomputed")  # type: ignore[arg-type]
    PegasosClassifierCV(rule="worst")  # type: ignore[arg-type]
    KernelPegasosClassifierCV("all")  # type: ignore[arg-type]
    path(X, y, loss="hing")  # type: ignore[arg-type]
