"""What an example of a stream costs, and how many are right: pegasos.river beside river's own models.

    python benches/river_models.py [--full] [STREAM ...]

Prints CSV. Part "time": microseconds for an example in `learn_one`, `predict_one` and `predict_proba_one`, each over the whole
stream, model after model, the least of three turns (seven with --full); and the accuracy of predictions made before each
example was learned from, in %. Streams are generated: "10" and "100" standardised features, a noisy plane between two
classes; "texts" of 50 out of 20,000 words, whose names are new objects in every example, as a parser makes them.

Part "accuracy": the same accuracy, and the mean log loss, behind a `StandardScaler`, on the data sets that river comes with,
by `alpha`.
"""

from __future__ import annotations

import one_thread  # noqa: F401, I001 before NumPy

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from river import datasets, linear_model, multiclass, preprocessing, tree

import harness
from pegasos.river import KernelPegasosClassifier, PegasosClassifier

Pair = tuple[dict[str, float], Any]

OURS: dict[str, Callable[..., Any]] = {
    "pegasos": PegasosClassifier,
    "pegasos without probabilities": lambda **params: PegasosClassifier(calibration=None, **params),
    "pegasos log_loss": lambda **params: PegasosClassifier("log_loss", **params),
    "pegasos kernel": KernelPegasosClassifier,
}

THEIRS: dict[str, Callable[[], Any]] = {
    "LogisticRegression": linear_model.LogisticRegression,
    "Perceptron": linear_model.Perceptron,
    "PAClassifier": linear_model.PAClassifier,
    "ALMAClassifier": linear_model.ALMAClassifier,
    "HoeffdingTreeClassifier": tree.HoeffdingTreeClassifier,
}


def plane(n: int, n_features: int) -> list[Pair]:
    random = np.random.default_rng(n_features)
    X = random.normal(size=(n, n_features))
    y = X @ random.normal(size=n_features) + 0.3 * n_features**0.5 * random.normal(size=n) > 0.0
    names = [f"feature_{j}" for j in range(n_features)]
    return [(dict(zip(names, x, strict=True)), label) for x, label in zip(X.tolist(), y.tolist(), strict=True)]


def texts(n: int) -> list[Pair]:
    random = np.random.default_rng(0)
    often = 1.0 / np.arange(10.0, 20_010.0)
    leaning = random.normal(size=20_000)
    found = []
    for words in random.choice(20_000, (n, 50), p=often / often.sum()):
        words = np.unique(words)
        found.append(({f"word_{j}": 1.0 for j in words}, bool(leaning[words].sum() + random.normal() > 0.0)))
    return found


STREAMS: dict[str, Callable[[int], list[Pair]]] = {
    "10": lambda n: plane(n, 10),
    "100": lambda n: plane(n, 100),
    "texts": texts,
}


def microseconds(call: Callable[[Any], Any], items: list[Any]) -> float:
    start = time.perf_counter()
    for item in items:
        call(item)
    return (time.perf_counter() - start) / len(items) * 1e6


def progressive(model: Any, pairs: Iterator[Pair] | list[Pair], *, loss: bool) -> tuple[float, float]:
    """Accuracy in %, and the mean log loss, nan where it is not asked for."""
    right, surprise, n, told = 0, 0.0, 0, 0
    for x, y in pairs:
        if loss:
            p = model.predict_proba_one(x).get(y)
            if p is not None:
                surprise -= float(np.log(max(p, 1e-15)))
                told += 1
        right += model.predict_one(x) == y
        n += 1
        model.learn_one(x, y)
    return 100.0 * right / n, surprise / told if loss else float("nan")


def time_of(run: harness.Run, stream: str, n: int, turns: int) -> None:
    pairs = STREAMS[stream](n)
    models = {**OURS, **THEIRS}
    # Some take as long for one as others for a hundred.
    own = {name: pairs[: n // 4 if name in ("HoeffdingTreeClassifier", "pegasos kernel") else n] for name in models}
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in models}
    for _ in range(turns):
        for name, make in models.items():
            model, examples = make(), [x for x, _ in own[name]]
            learn = microseconds(lambda pair: model.learn_one(*pair), own[name])
            predict = microseconds(model.predict_one, examples)
            told = "without" not in name
            taken[name].append((learn, predict, microseconds(model.predict_proba_one, examples) if told else np.nan))
    for name, make in models.items():
        accuracy, _ = progressive(make(), own[name], loss=False)
        run.row("time", stream, name, "", len(own[name]), *np.min(taken[name], axis=0).tolist(), accuracy, "")


def accuracy_on(run: harness.Run, data: str, n: int) -> None:
    source = getattr(datasets, data)
    models: dict[tuple[str, Any], Callable[[], Any]] = {(name, ""): make for name, make in THEIRS.items()}
    for name in ("pegasos", "pegasos log_loss", "pegasos kernel"):
        for alpha in (1e-4, 1e-3, 1e-2, 1e-1):
            models[name, alpha] = partial(OURS[name], alpha=alpha)
    for (name, alpha), make in models.items():
        model = make()
        if data == "ImageSegments" and not model._multiclass:
            model = multiclass.OneVsRestClassifier(model)
        found = progressive(preprocessing.StandardScaler() | model, source().take(n), loss=True)
        run.row("accuracy", data, name, alpha, n, "", "", "", *found)


def main() -> None:
    columns = "part,stream,model,alpha,n,learn us,predict us,probabilities us,accuracy,log loss"
    run = harness.begin(__doc__, columns)
    for stream in run.wanted(STREAMS):
        time_of(run, stream, run.pick(quick=5_000, full=20_000, tiny=100), run.pick(quick=3, full=7, tiny=1))
    for data in run.wanted(["Phishing", "Bananas", "ImageSegments"]):
        accuracy_on(run, data, min(getattr(datasets, data)().n_samples, run.pick(quick=2_000, full=10_000, tiny=60)))


if __name__ == "__main__":
    main()
