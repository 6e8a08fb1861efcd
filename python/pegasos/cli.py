"""The command ``pegasos``: train, predict, evaluate and look at models in files.

Results go to stdout. On bad input the exit status is 2 and stderr has one line that says why; 130
means interrupted. Output files appear complete or not at all.
"""

from __future__ import annotations

import argparse
import errno
import math
import os
import reprlib
import sys
import time
import warnings
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import train_test_split

from pegasos import io
from pegasos._core import __version__
from pegasos._files import check_writable
from pegasos._kernel import KernelPegasosClassifier
from pegasos._linear import PegasosClassifier
from pegasos._machine import KernelMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, default=None
        The arguments after the command's name; None takes those of the process.

    Returns
    -------
    status : int
        The exit status: 0 for success, 2 for bad options or input, 130 after Ctrl-C, 141 if the
        reader of stdout has gone away.

    Examples
    --------
    >>> from pegasos.cli import main
    >>> main(["train", "no-such-file.svm", "-o", "model.safetensors"])
    2
    """
    if sys.stderr is None:
        # Closed by whoever called: nobody is there to be told anything.
        sys.stderr = open(os.devnull, "w")
    if sys.stdout is None:
        sys.stdout = _Closed()
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    with warnings.catch_warnings():
        # Among them ConvergenceWarning.
        warnings.filterwarnings("always", category=UserWarning)
        # What overflows is refused by the estimators.
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        warnings.showwarning = _show_warning
        return _run(arguments.command, arguments)


class _Closed(StringIO):
    """A standard output that was closed by whoever called: an error for those who need one."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "stdout")


def _run(command: Callable[[argparse.Namespace], None], arguments: argparse.Namespace) -> int:
    try:
        command(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("pegasos: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _forget_stdout()
        return 141
    except (ArithmeticError, MemoryError, OSError, ValueError) as error:
        _forget_stdout()
        print(f"pegasos: error: {_said(error)}", file=sys.stderr)
        return 2
    return 0


def _forget_stdout() -> None:
    """Drops what could not be written, or the interpreter would try again at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            stdout = sys.stdout.fileno()
            os.dup2(os.open(os.devnull, os.O_WRONLY), stdout)


def _said(error: BaseException) -> str:
    """One line about an error."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "there is not enough memory" + (f": {error}" if str(error) else "")
    # Lines after the first are advice on Python code.
    return next(iter(str(error).splitlines()), type(error).__name__)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"pegasos: warning: {' '.join(str(message).split())}", file=sys.stderr)


# -- options


class Option(NamedTuple):
    """A row of the table: an option, or an argument that is known by its place."""

    #: What it is called, and in capitals what stands for its value.
    names: str
    #: The parameter of an estimator that it sets, and whose default it has; or none.
    param: str | None
    #: What reads the value, or a list of choices (None: the words that the estimator takes), or what a switch sets.
    value: Callable[[str], Any] | list[str] | bool | None
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
            raise argparse.ArgumentTypeError(f"must be {want}, got {text!r}") from None

    return read


def _fraction(text: str) -> float:
    if not 0.0 < float(text) < 1.0:
        raise ValueError
    return float(text)


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

_READING = [
    Option("--format", None, ["svmlight", "csv", "tsv", "npz"], "the format of DATA (default: what its ending says)"),
    Option("--label COLUMN", None, _column, "the column of a .csv or .tsv file that holds the labels: its name in "
        "the header, or its number, counted from 0, or from the end if negative; 'none' if there is none (default: "
        "the last)", -1),
]

#: Stands for the heading of options that exclude one another.
_ONE_OF = "one of"

#: The commands, the heading in their help, and what they take.
_TABLE: list[tuple[str, str | None, list[Option]]] = [
    ("train", None, [
        Option("DATA", None, str, "the examples to learn from; see below"),
        Option("-o --output MODEL", None, str, "the file to write the model to", ...),
    ]),
    ("train", "the problem", [
        Option("--loss", "loss", None, "what an example costs"),
        Option("--alpha A", "alpha", _STRENGTH, "strength of the regularisation, > 0: smaller fits the examples more "
            "closely and takes longer; C of other solvers is 1/(alpha n), and 'auto' is C=1"),
        Option("--multi-class", "multi_class", None, "how more than two classes are told apart: all in one problem "
            "(hinge loss only), each from the others or, with --kernel, each from each"),
        Option("--no-intercept", "fit_intercept", False, "no constant is added to the scores"),
        Option("--class-weight", "class_weight", None, "'balanced' makes every class as important as any other, "
            "however rare"),
        Option("--calibration", "calibration", None, "make probabilities of scores, for predict --proba: by a logistic "
            "function of each, by the softmax of all over a temperature, or by a rising step function; takes five fits "
            "more"),
    ]),
    ("train", "kernel machines", [
        Option("--kernel", "kernel", ["linear", "poly", "rbf", "sigmoid"], "train a kernel machine "
            "(default: a linear model)"),
        Option("--gamma G", "gamma", _WIDTH, "of the kernel; 'scale' is 1 over the number of features and their "
            "variance, 'auto' 1 over their number"),
        Option("--degree N", "degree", int, "of 'poly'"),
        Option("--coef0 C", "coef0", float, "of 'poly' and 'sigmoid'"),
        Option("--metric", "metric", None, "of 'rbf': learn first in which directions scores change, by a weight for each "
            "feature, by a matrix, or by whatever does better, if anything does; takes ten fits more or so"),
        Option("--budget B", "budget", _BUDGET, "the most support vectors there may be: constant time and memory, "
            "however many the examples; 'none' keeps all, 'auto' up to 50,000 examples and 1000 for more"),
        Option("--maintenance", "maintenance", None, "what happens to a support vector too many: it is merged with "
            "another, projected onto the others, or one is removed"),
        Option("--no-refine", "refine", False, "on a budget, leave the coefficients as the passes have left them; else "
            "the support vectors get the best there are"),
    ]),
    ("train", "when to stop", [
        Option("--max-iter N", "max_iter", int, "epochs, passes over the examples"),
        Option("--tol TOL", "tol", _TOLERANCE, "stop when the objective is proved to be within this fraction of its "
            "minimum or, where nothing can be proved, when the loss stops falling by this much; 'none' runs all epochs "
            "and skips the cost of looking"),
    ]),
    ("train", "how to get there", [
        Option("--solver", "solver", None, "steps of Pegasos, dual coordinate ascent, or one and then the other"),
        Option("--shards K", "shards", int, "parts of the examples that are learned from side by side, their models "
            "averaged after each epoch"),
        Option("--learning-rate", "learning_rate", None, "step sizes: 1/(alpha t), eta0/t^power_t, or eta0"),
        Option("--eta0 ETA", "eta0", float, "see --learning-rate"),
        Option("--power-t P", "power_t", float, "see --learning-rate"),
        Option("--t0 T0", "t0", _OFFSET, "added to t in the step sizes, which tames the first steps; 'auto' adds what "
            "the loss needs"),
        Option("--projection", "projection", True, "after each step, go back into the ball that holds the optimum; no "
            "gap is certified then"),
        Option("--average {yes,no,uniform,polynomial,N}", "average", _MEAN, "the model is a mean of all steps' "
            "results: all weigh alike (uniform), late ones more (polynomial), or alike from step N on; 'yes' is "
            "polynomial, and the recent results of kernel machines, 'no' the last alone"),
        Option("--batch-size K", "batch_size", int, "examples to a step"),
        Option("--sampling", "sampling", None, "the order of the examples: shuffled anew in each epoch, shuffled in "
            "blocks (for data larger than the caches), drawn with replacement, or as stored"),
        Option("--seed INT", "random_state", int, "an int makes runs repeatable"),
        Option("--jobs N", "n_jobs", _COUNT, "threads; more than one helps only with more than two classes; none is "
            "one for each core"),
    ]),
    ("train", "data and output", [
        *_READING,
        Option("--float32", None, True, "keep features and weights in single precision: half the memory, somewhat "
            "faster"),
        Option("--test-size FRACTION", None, _PART, "hold out this fraction of the examples, each class in proportion, "
            "and report the accuracy on it (default: train on all)"),
        Option("-q --quiet", None, True, "no progress bar (there is none unless stderr is a terminal) and no summary"),
    ]),
    ("predict evaluate", None, [Option("MODEL", None, str, "a model file that 'pegasos train' wrote")]),
    ("predict", None, [
        Option("DATA", None, str, "examples, labels in it are ignored and may be missing; see below"),
        *_READING,
        Option("-o --output FILE", None, str, "write there, not to stdout"),
    ]),
    ("predict", _ONE_OF, [
        Option("--scores", None, True, "print scores instead of labels, separated by tabs: one for each class in the "
            "order of 'pegasos info', or, for two classes, one that is positive for the second"),
        Option("--proba", None, True, "print probabilities instead of labels, one for each class, separated by tabs; "
            "only for models trained with --calibration or --loss log_loss"),
    ]),
    ("evaluate", None, [Option("DATA", None, str, "examples, with labels; see below"), *_READING]),
    ("info", None, [Option("MODEL", None, str, "a model file")]),
]

#: The option for each parameter.
_OPTIONS = {
    option.param: option.names.split()[0] for _, _, options in _TABLE for option in options if option.param
}

_EXAMPLES = """\
examples:
  pegasos train train.svm -o model.safetensors --alpha 1e-5 --test-size 0.1
  pegasos train iris.csv -o iris.safetensors --label species --loss log_loss --alpha 0.01 --seed 0
  pegasos train letters.csv -o letters.safetensors --kernel rbf --gamma 0.25 --budget 500
  pegasos predict iris.safetensors new.csv --proba -o probabilities.tsv

DATA is told by its ending:
  .svm .svmlight .libsvm .txt   label index:value ... on each line; also with .gz or .bz2
  .csv .tsv                     with or without a header; the last column is the label, or --label
  .npz                          arrays X and y, or X_train and y_train, or a CSR matrix's and y
or by --format. "-" is the standard input, in svmlight format unless --format says another.
"""


class _Parser(argparse.ArgumentParser):
    """Says which command is wrong in the usage, not in the message."""

    def __init__(self, **keywords: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(epilog=_EXAMPLES, formatter_class=layout, allow_abbrev=False, **keywords)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"pegasos: error: {message}\n")


def _parser() -> _Parser:
    parser = _Parser(prog="pegasos", description="Support vector machines trained with stochastic sub-gradients.")
    parser.add_argument("--version", action="version", version=f"pegasos {__version__}")
    added = parser.add_subparsers(required=True, metavar="COMMAND")
    parsers = {}
    for name, (command, text) in _COMMANDS.items():
        parsers[name] = added.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        parsers[name].set_defaults(command=command)
    for commands, heading, options in _TABLE:
        for name in commands.split():
            place: argparse._ActionsContainer = parsers[name]
            if heading == _ONE_OF:
                place = parsers[name].add_mutually_exclusive_group()
            elif heading:
                place = parsers[name].add_argument_group(heading)
            for option in options:
                _add(place, option)
    parsers["train"].add_argument("-C", "--C", action=_NoC, help=argparse.SUPPRESS)
    return parser


class _NoC(argparse.Action):
    """Says what to do instead to those who come from other solvers."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        parser.error("there is no C: --alpha 1/(C n) means the same, n being the number of examples; the default is C=1")


def _add(place: argparse._ActionsContainer, option: Option) -> None:
    names = [name for name in option.names.split() if name.startswith("-")]
    metavar = next((name for name in option.names.split() if name not in names), None)
    keywords: dict[str, Any] = {"help": option.text}
    if isinstance(option.value, bool):
        keywords |= {"action": "store_const", "const": option.value}
    elif callable(option.value):
        keywords |= {"type": option.value, "metavar": metavar}
    else:
        keywords |= {"choices": option.value or _words(option.param)}
    if option.param is not None:
        keywords |= {"help": _with_default(option), "dest": option.param, "default": argparse.SUPPRESS}
    elif names:
        keywords |= {"required": True} if option.otherwise is ... else {"default": option.otherwise}
    place.add_argument(*(names or [str(metavar).lower()]), **keywords)


def _takers(param: str | None) -> list[Any]:
    """The estimators that have a parameter."""
    return [each for each in (PegasosClassifier, KernelPegasosClassifier) if param in each._parameter_constraints]


def _words(param: str | None) -> list[str]:
    """The strings that an estimator takes for a parameter."""
    return sorted({word for taker in _takers(param) for word in taker._parameter_constraints[param][0].options})


def _with_default(option: Option) -> str:
    """What an option is for, and the default of its parameter unless a switch or the text tells of it."""
    if option.value is False or "(default" in option.text:
        return option.text
    defaults = [_spelt(getattr(taker(), str(option.param))) for taker in _takers(option.param)]
    with_kernel = f", with --kernel {defaults[-1]}" if defaults[-1] != defaults[0] else ""
    return f"{option.text} (default: {defaults[0]}{with_kernel})"


def _spelt(value: Any) -> str:
    """A value as the command line spells it."""
    if value is None:
        return "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


# -- commands


def _train(arguments: argparse.Namespace) -> None:
    # A model that took hours must not be lost to a misspelt folder.
    check_writable(arguments.output)
    # Nor must hours be spent on options that do not fit together.
    _estimator(arguments)
    X, y, _ = io.read(arguments.data, label=arguments.label, format=arguments.format)
    if y is None:
        raise ValueError("training needs labels, --label cannot be none")
    if arguments.float32:
        X = X.astype(np.float32)
    model = _estimator(arguments)
    held_out: Any = None
    if arguments.test_size is not None:
        sizes = {"test_size": arguments.test_size, "stratify": y, "random_state": model.random_state}
        X, X_test, y, y_test = train_test_split(X, y, **sizes)
        held_out = X_test, y_test
    model.set_params(verbose=int(sys.stderr.isatty() and not arguments.quiet))
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    io.save(model.set_params(verbose=0), arguments.output)
    if arguments.quiet:
        return
    n, d = X.shape
    lines = {
        "examples": f"{n:,} x {d:,} features",
        "classes": _classes(model),
        "epochs": f"{model.n_iter_:,}",
        "time": f"{seconds:.2f} s ({model.n_iter_ * n / seconds:,.0f} rows/s)",
        **_objective(model),
        "training accuracy": f"{model.score(X, y):.4f}",
    }
    if held_out:
        lines["held-out accuracy"] = f"{model.score(*held_out):.4f} on {len(held_out[1]):,} examples"
    _print_aligned(lines | {"model": arguments.output})


def _estimator(arguments: argparse.Namespace) -> Any:
    """The estimator that the options describe."""
    given = {param: value for param, value in vars(arguments).items() if param in _OPTIONS}
    kernel = "kernel" in given
    estimator = KernelPegasosClassifier if kernel else PegasosClassifier
    for param in given:
        if estimator not in _takers(param):
            raise ValueError(f"{_OPTIONS[param]} {'does not go with' if kernel else 'needs'} --kernel")
    return estimator(**given)


def _predict(arguments: argparse.Namespace) -> None:
    model = io.load(arguments.model)
    if arguments.proba and not hasattr(model, "predict_proba"):
        needed = "--proba needs a model trained with --calibration or --loss log_loss, this one was trained with neither"
        raise ValueError(f"{arguments.model}: {needed}")
    X = io.read(arguments.data, label=arguments.label, model=model, format=arguments.format).X
    if arguments.proba:
        rows = model.predict_proba(X).tolist()
    elif arguments.scores:
        rows = model.decision_function(X).reshape(X.shape[0], -1).tolist()
    else:
        rows = [[label] for label in model.predict(X).tolist()]
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    if arguments.output in (None, "-"):
        sys.stdout.write(text)
    else:
        with io.replacing(arguments.output) as file:
            file.write(text.encode())


def _evaluate(arguments: argparse.Namespace) -> None:
    model = io.load(arguments.model)
    X, y, _ = io.read(arguments.data, label=arguments.label, model=model, format=arguments.format)
    if y is None:
        raise ValueError(f"{arguments.data}: it has no labels to compare with")
    ours, theirs = ("text" if labels.dtype.kind in "UO" else "numbers" for labels in (model.classes_, y))
    if ours != theirs:
        raise ValueError(f"{arguments.data}: its labels are {theirs}, those of the model {ours}")
    guess = model.predict(X)
    right = int(np.sum(guess == y))
    unseen = sorted(set(y.tolist()) - set(model.classes_.tolist()))
    labels = [*model.classes_.tolist(), *unseen]
    columns = precision_recall_fscore_support(y, guess, labels=labels, zero_division=0.0)
    width = max(5, *(len(str(label)) for label in labels))
    # Nothing is said before all is known.
    print(f"accuracy {right / len(y):.4f} ({right:,} of {len(y):,})\n")
    print(f"{'class':<{width}}  precision  recall      F1  examples")
    for label, precision, recall, f1, support in zip(labels, *columns, strict=True):
        print(f"{label!s:<{width}}  {precision:9.4f}  {recall:6.4f}  {f1:6.4f}  {support:8,}")


def _info(arguments: argparse.Namespace) -> None:
    model = io.load(arguments.model)
    defaults = type(model)().get_params(deep=False)
    params = model.get_params(deep=False).items()
    changed = [f"{name}={reprlib.repr(value)}" for name, value in params if value != defaults[name]]
    if isinstance(model, KernelMachine):
        coefs = model.dual_coef_
        holds = {"support vectors": f"{coefs.shape[1]:,}, {coefs.dtype}"}
    else:
        coefs = model.coef_
        holds = {"weights": f"{np.count_nonzero(coefs):,} nonzero of {coefs.size:,}, {coefs.dtype}"}
    lines = {
        "class": type(model).__name__,
        "format": str(io.FORMAT),
        "parameters": ", ".join(changed) or "all at their defaults",
        "classes": _classes(model),
        "features": f"{model.n_features_in_:,}",
        **holds,
        "steps": f"{model.t_:,}",
    }
    _print_aligned(lines | _objective(model))


def _classes(model: Any, most: int = 20) -> str:
    names = [str(label) for label in model.classes_[:most].tolist()]
    if len(model.classes_) > most:
        names.append("...")
    return f"{len(model.classes_):,}: {', '.join(names)}"


def _objective(model: Any) -> dict[str, str]:
    lines = {}
    if isinstance(model, KernelMachine) and model._choice("budget") is not None:
        lines["mean gradient error"] = f"{model.mean_gradient_error_:.4g}, for the budget"
        if math.isnan(model.objective_):
            # Without a refit none is evaluated, and none is what a stream minimises.
            return lines
    objective, gap = model.objective_, model.duality_gap_
    if math.isnan(objective):
        return lines | {"objective": "not evaluated", "duality gap": "none certified"}
    relative = f", {gap / objective:.2%} of the objective" if objective else ""
    certified = "none certified" if math.isnan(gap) else f"{gap:.3g}{relative}"
    return lines | {"objective": f"{objective:.6g}", "duality gap": certified}


def _print_aligned(lines: dict[str, str]) -> None:
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"{name:<{width}}  {value}")


_COMMANDS = {
    "train": (_train, "train a linear model, or with --kernel a kernel machine, and write it to a file"),
    "predict": (_predict, "print the label of each example, one a line"),
    "evaluate": (_evaluate, "print accuracy, and precision, recall and F1 by class"),
    "info": (_info, "print what a model file holds"),
}
