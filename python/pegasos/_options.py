"""The options of the command line, in a table."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Option(NamedTuple):
    """A row of the table: an option, or an argument that is known by its place."""

    #: What it is called, and in capitals what stands for its value.
    names: str
    #: The parameter of an estimator that it sets; or none.
    param: str | None
    #: What reads the value, or a list of choices, or what a switch sets.
    value: Callable[[str], Any] | list[str] | bool
    #: The parameter's default in linear models and in kernel machines, None where they do not have it. Stated here, as the
    #: estimators are not there before something is to be trained.
    defaults: tuple[str | None, str | None]
    text: str
    #: The value where it is not given and is no parameter; ... if it must be given.
    otherwise: Any = None


def _reader(number: Callable[[str], Any], want: str, **words: Any) -> Callable[[str], Any]:
    """Reads a number, or a word that means something else."""

    def read(text: str) -> Any:
        if text.lower() in words:
            return words[text.lower()]
        try:
            return number(text)
        except ValueError:
            raise ArgumentTypeError(f"must be {want}, got {text!r}") from None

    return read


def _fraction(text: str) -> float:
    if not 0.0 < float(text) < 1.0:
        raise ValueError
    return float(text)


def _positive(text: str) -> int:
    if not 1 <= int(text) < 2**63:
        raise ValueError
    return int(text)


def _duration(text: str) -> float:
    if not float(text) >= 0.0:
        raise ValueError
    return float(text)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _column(text: str) -> str | int | None:
    with suppress(ValueError):
        return int(text)
    return None if text.lower() == "none" else text


_COUNT = _reader(int, "an int or 'none'", none=None)
_BUDGET = _reader(int, "an int, 'none' or 'auto'", none=None, auto="auto")
_STRENGTH = _reader(float, "a number or 'auto'", auto="auto")
_WIDTH = _reader(float, "a number, 'scale' or 'auto'", scale="scale", auto="auto")
_TOLERANCE = _reader(float, "a number or 'none'", none=None)
_OFFSET = _reader(float, "a number or 'auto'", auto="auto")
_MEAN = _reader(
    int,
    "'yes', 'no', 'uniform', 'polynomial' or the number of a step",
    **{"yes": True, "no": False, "uniform": "uniform", "polynomial": "polynomial"},
)
_PART = _reader(_fraction, "a number between 0 and 1")
_ROWS = _reader(_positive, "an int >= 1")
_PASSES = _reader(_positive, "an int >= 1, 'none' or 'auto'", none=None, auto="auto")
_SECONDS = _reader(_duration, "a number >= 0")

#: Of what is no parameter.
_NONE = (None, None)

_READING = [
    Option("--format", None, ["svmlight", "csv", "tsv", "npy", "npz", "parquet", "arrow"], _NONE,
        "the format of DATA (default: what its ending says)"),
    Option("--label --target COLUMN", None, _column, _NONE,
        "the column of a table that holds the labels: its name in the header, or its number, counted "
        "from 0, or from the end if negative; 'none' if there is none (default: the last)", -1),
    Option("--columns NAMES", None, _names, _NONE,
        "the columns of a table that are features, in this order: names with commas between them (default: all but the "
        "label's); a table without labels then needs --label none"),
    Option("--zero-based", None, ["no", "yes"], _NONE,
        "whether columns of an svmlight file are counted from 0 (default: whether the file has a column 0, so say it for all "
        "files of a model where one of them may lack it)"),
    Option("--hashing N", None, _ROWS, _NONE,
        "make N features of the columns of a table by hashing their names and, of strings, what they hold, as "
        "scikit-learn's FeatureHasher does: the same N for all that a model is to see"),
]

#: Stands for the heading of options that exclude one another.
ONE_OF = "one of"

#: The commands, the heading in their help, and what they take.
TABLE: list[tuple[str, str | None, list[Option]]] = [
    ("train", None, [
        Option("DATA", None, str, _NONE, "the examples to learn from; see below"),
        Option("-o --output MODEL", None, str, _NONE, "the file to write the model to", ...),
    ]),
    ("train", "the problem", [
        Option("--loss", "loss", ["hinge", "log_loss", "squared_hinge"], ("squared_hinge", None),
            "what an example costs"),
        Option("--alpha A", "alpha", _STRENGTH, ("auto", "auto"),
            "strength of the regularisation, > 0: smaller fits the examples more closely and takes longer; C of "
            "other solvers is 1/(alpha n), and 'auto' is C=1, with --passes alpha = 1e-4"),
        Option("--multi-class", "multi_class", ["crammer_singer", "ovo", "ovr"], ("ovr", "ovo"),
            "how more than two classes are told apart: all in one problem (hinge loss only), each from the others "
            "or, with --kernel, each from each"),
        Option("--no-intercept", "fit_intercept", False, ("yes", "auto"), "no constant is added to the scores"),
        Option("--class-weight", "class_weight", ["balanced"], ("none", "none"),
            "'balanced' makes every class as important as any other, however rare"),
        Option("--calibration", "calibration", ["isotonic", "sigmoid", "temperature"], ("none", "none"),
            "make probabilities of scores, for predict --proba: by a logistic function of each, by the softmax of "
            "all over a temperature, or by a rising step function; takes three fits more, or five"),
    ]),
    ("train", "kernel machines", [
        Option("--kernel", "kernel", ["linear", "poly", "rbf", "sigmoid"], (None, "rbf"),
            "train a kernel machine (default: a linear model)"),
        Option("--gamma G", "gamma", _WIDTH, (None, "scale"),
            "of the kernel; 'scale' is 1 over the number of features and their variance, 'auto' 1 over their number"),
        Option("--degree N", "degree", int, (None, "3"), "of 'poly'"),
        Option("--coef0 C", "coef0", float, (None, "0.0"), "of 'poly' and 'sigmoid'"),
        Option("--metric", "metric", ["auto", "diagonal", "full", "plain"], (None, "plain"),
            "of 'rbf': learn first in which directions scores change, by a weight for each feature, by a matrix, or "
            "by whatever does better, if anything does; takes ten fits more or so"),
        Option("--budget B", "budget", _BUDGET, (None, "auto"),
            "the most support vectors there may be: constant time and memory, however many the examples; 'none' "
            "keeps all, 'auto' up to 100,000 examples (50,000 sparse ones) and 1000 for more, or with --passes"),
        Option("--maintenance", "maintenance", ["auto", "merge", "project", "random", "remove"], (None, "auto"),
            "what happens to a support vector too many: it is merged with another, projected onto the others, or one "
            "is removed"),
        Option("--no-refine", "refine", False, (None, "yes"),
            "on a budget, leave the coefficients as the passes have left them; else the support vectors get the best "
            "there are"),
    ]),
    ("train", "when to stop", [
        Option("--max-iter N", "max_iter", int, ("100", "1"), "epochs, passes over the examples"),
        Option("--tol TOL", "tol", _TOLERANCE, ("0.001", "0.001"),
            "stop when the objective is proved to be within this fraction of its minimum or, where nothing can be "
            "proved, when the loss stops falling by this much; 'none' runs all epochs and skips the cost of looking, or, where "
            "an exact kernel machine is solved, goes as far as there is to go"),
    ]),
    ("train", "how to get there", [
        Option("--solver", "solver", ["auto", "dual", "pegasos"], ("auto", "auto"),
            "steps of Pegasos, dual coordinate ascent, or 'auto', one and then the other; of exact kernel machines that is dual "
            "ascent from the beginning, but for several classes jointly"),
        Option("--shards K", "shards", int, ("1", None),
            "parts of the examples that are learned from side by side, their models averaged after each epoch"),
        Option("--learning-rate", "learning_rate", ["constant", "invscaling", "pegasos"], ("pegasos", None),
            "step sizes: 1/(alpha t), eta0/t^power_t, or eta0"),
        Option("--eta0 ETA", "eta0", float, ("1.0", None), "see --learning-rate"),
        Option("--power-t P", "power_t", float, ("0.5", None), "see --learning-rate"),
        Option("--t0 T0", "t0", _OFFSET, ("auto", None),
            "added to t in the step sizes, which tames the first steps; 'auto' adds what the loss needs"),
        Option("--projection", "projection", True, ("no", "no"),
            "after each step, go back into the ball that holds the optimum; no gap is certified then"),
        Option("--average {yes,no,uniform,polynomial,N}", "average", _MEAN, ("no", "yes"),
            "the model is a mean of all steps' results: all weigh alike (uniform), late ones more (polynomial), or "
            "alike from step N on; 'yes' is polynomial, and the recent results of kernel machines, 'no' the last "
            "alone; a linear model with --passes is polynomial unless this says otherwise"),
        Option("--batch-size K", "batch_size", int, ("1", "1"), "examples to a step"),
        Option("--sampling", "sampling", ["blocks", "replacement", "shuffle", "storage"], ("shuffle", "shuffle"),
            "the order of the examples: shuffled anew in each epoch, shuffled in blocks (for data larger than the "
            "caches), drawn with replacement, or as stored"),
        Option("--seed INT", "random_state", int, ("none", "none"), "an int makes runs repeatable"),
        Option("--jobs N", "n_jobs", _COUNT, ("none", "none"),
            "threads, for exact kernel machines, refits, problems of several classes and predictions; none is one for each core"),
    ]),
    ("train", "what need not fit into memory", [
        Option("--passes N", None, _PASSES, _NONE,
            "learn batch by batch, in memory that does not grow, and go over the examples N times; with a budget once "
            "more, for the coefficients, unless --no-refine. 'none' reads all of them at once (default: auto, 'none' up "
            "to 1 GB, 3 for what is larger)", "auto"),
        Option("--window ROWS", None, _ROWS, _NONE,
            "so many examples are in memory at a time, and are shuffled among one another unless --sampling storage "
            "(default: 10,000, or fewer of many features)"),
        Option("--cache", None, True, _NONE,
            "keep what was parsed of a text in a file beside DATA: later passes read that, windows hold rows from all over "
            "it, and the next run parses nothing"),
        Option("--cache-file FILE", None, str, _NONE, "the same, in a file of this name"),
        Option("--save-every SECONDS", None, _SECONDS, _NONE, "write the model so often, too (default: 60)", 60.0),
        Option("--resume", None, True, _NONE,
            "go on with the model in MODEL, if there is one, where it was stopped or killed: the result is that of a run "
            "that was not"),
    ]),
    ("train", "data and output", [
        *_READING,
        Option("--n-features N", None, _ROWS, _NONE,
            "the number of features of an svmlight file, which need not mention the last of them; a pipe read in passes "
            "needs it"),
        Option("--scale", None, True, _NONE,
            "scale the features first, dense ones to a mean of 0 and a variance of 1, sparse ones to at most 1; the "
            "model file holds by what"),
        Option("--float32", None, True, _NONE,
            "keep features and weights in single precision: half the memory, somewhat faster"),
        Option("--test-size FRACTION", None, _PART, _NONE,
            "hold out this fraction of the examples, each class in proportion, and report the accuracy on it "
            "(default: train on all)"),
        Option("-q --quiet", None, True, _NONE,
            "no progress bar (there is none unless stderr is a terminal) and no summary"),
    ]),
    ("predict evaluate", None, [
        Option("MODEL", None, str, _NONE, "a model file that 'pegasos train' wrote"),
    ]),
    ("predict", None, [
        Option("DATA", None, str, _NONE, "examples, labels in it are ignored and may be missing; see below"),
        *_READING,
        Option("-o --output FILE", None, str, _NONE, "write there, not to stdout"),
    ]),
    ("predict", ONE_OF, [
        Option("--scores", None, True, _NONE,
            "print scores instead of labels, separated by tabs: one for each class in the order of 'pegasos info', "
            "or, for two classes, one that is positive for the second"),
        Option("--proba", None, True, _NONE,
            "print probabilities instead of labels, one for each class, separated by tabs; only for models trained "
            "with --calibration or --loss log_loss"),
    ]),
    ("evaluate", None, [
        Option("DATA", None, str, _NONE, "examples, with labels; see below"),
        *_READING,
    ]),
    ("export", None, [
        Option("MODEL", None, str, _NONE, "a model file"),
        Option("-o --output FILE", None, str, _NONE, "write there, not to stdout"),
        Option("--name NAME", None, str, _NONE,
            "what the names of its functions and arrays begin with: NAME_predict and so on (default: model)", "model"),
    ]),
    ("info", None, [
        Option("MODEL", None, str, _NONE, "a model file"),
    ]),
]

#: The option for each parameter.
BY_PARAM = {option.param: option for _, _, options in TABLE for option in options if option.param}

EXAMPLES = """\
examples:
  pegasos train train.svm -o model.safetensors --alpha 1e-5 --test-size 0.1
  pegasos train iris.csv -o iris.safetensors --label species --loss log_loss --alpha 0.01 --seed 0
  pegasos train letters.csv -o letters.safetensors --kernel rbf --gamma 0.25 --budget 500
  pegasos train large.svm -o large.safetensors --passes 5 --cache --resume
  pegasos train large.parquet -o large.safetensors --target label --kernel rbf --budget 1000 --passes 3
  pegasos predict iris.safetensors new.csv --proba -o probabilities.tsv
  pegasos export iris.safetensors -o iris.h --name iris

DATA is told by its ending:
  .svm .svmlight .libsvm .txt   label index:value ... on each line; also with .gz or .bz2
  .csv .tsv                     with or without a header; the last column is the label, or --label
  .npz                          arrays X and y, or X_train and y_train, or a CSR matrix's and y
  .npy                          an array; the last column is the label, or --label
  .parquet .arrow .feather      tables; a folder of Parquet files, too; needs pyarrow
  a text on each line           for models that begin with a HashingVectorizer; or a .csv of texts and labels
or by --format. "-" is the standard input, in svmlight format unless --format says another.
"""


def how_to_read(arguments: Namespace) -> dict[str, Any]:
    """How examples are to be read, as `pegasos.io.read` takes it."""
    found = {name: getattr(arguments, name) for name in ("label", "columns", "format", "hashing")}
    return found | {"zero_based": {"no": False, "yes": True, None: "auto"}[arguments.zero_based]}
