"""The command ``pegasos``: train, predict, evaluate and look at models in files.

Results go to stdout. On bad input the exit status is 2 and stderr has one line that says why; 130
means interrupted. Output files appear complete or not at all.
"""

from __future__ import annotations

import argparse
import errno
import inspect
import math
import os
import reprlib
import sys
import time
import warnings
from contextlib import suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sklearn.metrics import precision_recall_fscore_support
from sklearn.model_selection import train_test_split

from pegasos import io
from pegasos._core import __version__
from pegasos._kernel import KernelPegasosClassifier
from pegasos._linear import PegasosClassifier
from pegasos._machine import KernelMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

__all__ = ["main"]

def _defaults(estimator: type) -> dict[str, Any]:
    parameters = inspect.signature(estimator).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


#: The defaults of the estimators' parameters are those of the options.
_DEFAULTS = _defaults(PegasosClassifier)
_KERNEL_DEFAULTS = _defaults(KernelPegasosClassifier)


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


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"pegasos: warning: {' '.join(str(message).split())}", file=sys.stderr)


# -- options


class _Parser(argparse.ArgumentParser):
    """Says which command is wrong in the usage, not in the message."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"pegasos: error: {message}\n")


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


def _parser() -> _Parser:
    parser = _Parser(
        prog="pegasos",
        description="Support vector machines trained with stochastic sub-gradients.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pegasos {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], None], text: str) -> _Parser:
        added: _Parser = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.set_defaults(command=command)
        return added

    train = add("train", _train, "train a linear model, or with --kernel a kernel machine, and write it to a file")
    train.add_argument("data", metavar="DATA", help="the examples to learn from; see below")
    train.add_argument(
        "-o", "--output", metavar="MODEL", required=True, help="the file to write the model to"
    )
    _add_training_options(train)

    predict = add("predict", _predict, "print the label of each example, one a line")
    _add_model_and_data(predict, "labels in it are ignored and may be missing")
    predict.add_argument("-o", "--output", metavar="FILE", help="write there, not to stdout")
    instead = predict.add_mutually_exclusive_group()
    instead.add_argument(
        "--scores",
        action="store_true",
        help="print scores instead of labels, separated by tabs: one for each class in the order "
        "of 'pegasos info', or, for two classes, one that is positive for the second",
    )
    instead.add_argument(
        "--proba",
        action="store_true",
        help="print probabilities instead of labels, one for each class, separated by tabs; only "
        "for models trained with --loss log_loss",
    )

    evaluate = add("evaluate", _evaluate, "print accuracy, and precision, recall and F1 by class")
    _add_model_and_data(evaluate, "with labels")

    info = add("info", _info, "print what a model file holds")
    info.add_argument("model", metavar="MODEL", help="a model file")
    return parser


def _add_model_and_data(parser: _Parser, about: str) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model file that 'pegasos train' wrote")
    parser.add_argument("data", metavar="DATA", help=f"examples, {about}; see below")
    _add_reading(parser)


def _add_reading(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--format",
        choices=["svmlight", "csv", "tsv", "npz"],
        help="the format of DATA (default: what its ending says)",
    )
    parser.add_argument(
        "--label",
        type=_column,
        default=-1,
        metavar="COLUMN",
        help="the column of a .csv or .tsv file that holds the labels: its name in the header, or "
        "its number, counted from 0, or from the end if negative; 'none' if there is none "
        "(default: the last)",
    )


#: The option for each parameter.
_OPTIONS: dict[str, str] = {
    "kernel": "--kernel",
    "multi_class": "--multi-class",
    "fit_intercept": "--no-intercept",
    "refine": "--no-refine",
}


def _add_training_options(parser: _Parser) -> None:
    def option(
        group: argparse._ArgumentGroup, name: str, param: str, text: str, **keywords: Any
    ) -> None:
        """An option for a parameter of an estimator, which has the default."""
        defaults = [of[param] for of in (_DEFAULTS, _KERNEL_DEFAULTS) if param in of]
        said = _text(defaults[0])
        if defaults[-1] != defaults[0]:
            said += f", with --kernel {_text(defaults[-1])}"
        _OPTIONS[param] = name
        group.add_argument(
            name,
            dest=param,
            default=argparse.SUPPRESS,
            help=f"{text} (default: {said})",
            **keywords,
        )

    group = parser.add_argument_group("the problem")
    option(group, "--loss", "loss", "what an example costs", choices=_choices("loss"))
    option(
        group,
        "--alpha",
        "alpha",
        "strength of the regularisation, > 0: smaller fits the examples more closely and takes "
        "longer; C of other solvers is 1/(alpha n)",
        type=float,
        metavar="A",
    )
    group.add_argument(
        "--multi-class",
        default=argparse.SUPPRESS,
        choices=_choices("multi_class"),
        help="how more than two classes are told apart: all in one problem, or each from the "
        "others (default: all in one for the hinge loss, ovr for others)",
    )
    group.add_argument(
        "--no-intercept",
        dest="fit_intercept",
        action="store_false",
        default=argparse.SUPPRESS,
        help="scores are 0 where all features are",
    )
    option(
        group,
        "--class-weight",
        "class_weight",
        "'balanced' makes every class as important as any other, however rare",
        choices=["balanced"],
    )

    group = parser.add_argument_group("kernel machines")
    group.add_argument(
        "--kernel",
        default=argparse.SUPPRESS,
        choices=["linear", "poly", "rbf", "sigmoid"],
        help="train a kernel machine, without an intercept (default: a linear model)",
    )
    option(
        group,
        "--gamma",
        "gamma",
        "of the kernel; 'scale' is 1 over the number of features and their variance, 'auto' 1 over "
        "their number",
        type=_gamma,
        metavar="G",
    )
    option(group, "--degree", "degree", "of 'poly'", type=int, metavar="N")
    option(group, "--coef0", "coef0", "of 'poly' and 'sigmoid'", type=float, metavar="C")
    option(
        group,
        "--budget",
        "budget",
        "the most support vectors there may be: constant time and memory, however many the examples; "
        "'none' keeps all",
        type=_integer_or_none,
        metavar="B",
    )
    option(
        group,
        "--maintenance",
        "maintenance",
        "what happens to a support vector too many: it is merged with another, projected onto the others, "
        "or one is removed",
        choices=_choices("maintenance", KernelPegasosClassifier),
    )
    group.add_argument(
        "--no-refine",
        dest="refine",
        action="store_false",
        default=argparse.SUPPRESS,
        help="on a budget, leave the coefficients as the passes have left them; else the support vectors get the "
        "best there are",
    )

    group = parser.add_argument_group("when to stop")
    option(
        group, "--max-iter", "max_iter", "epochs, passes over the examples", type=int, metavar="N"
    )
    option(
        group,
        "--tol",
        "tol",
        "stop when the objective is proved to be within this fraction of its minimum or, where "
        "nothing can be proved, when the loss stops falling by this much; 'none' runs all epochs "
        "and skips the cost of looking",
        type=_number_or("none", None),
        metavar="TOL",
    )

    group = parser.add_argument_group("how to get there")
    option(
        group,
        "--solver",
        "solver",
        "steps of Pegasos, dual coordinate ascent, or one and then the other",
        choices=_choices("solver"),
    )
    option(
        group,
        "--shards",
        "shards",
        "parts of the examples that are learned from side by side, their models averaged after "
        "each epoch",
        type=int,
        metavar="K",
    )
    option(
        group,
        "--learning-rate",
        "learning_rate",
        "step sizes: 1/(alpha t), eta0/t^power_t, or eta0",
        choices=_choices("learning_rate"),
    )
    option(group, "--eta0", "eta0", "see --learning-rate", type=float, metavar="ETA")
    option(group, "--power-t", "power_t", "see --learning-rate", type=float, metavar="P")
    option(
        group,
        "--t0",
        "t0",
        "added to t in the step sizes, which tames the first steps; 'auto' adds what the loss "
        "needs",
        type=_number_or("auto", "auto"),
        metavar="T0",
    )
    option(
        group,
        "--projection",
        "projection",
        "after each step, go back into the ball that holds the optimum; no gap is certified then",
        action="store_true",
    )
    option(
        group,
        "--average",
        "average",
        "the model is a mean of all steps' results: all weigh alike (uniform), late ones more "
        "(polynomial), or alike from step N on; 'yes' is polynomial, and the recent results of kernel "
        "machines, 'no' the last alone",
        type=_averaging,
        metavar="{yes,no,uniform,polynomial,N}",
    )
    option(group, "--batch-size", "batch_size", "examples to a step", type=int, metavar="K")
    option(
        group,
        "--sampling",
        "sampling",
        "the order of the examples: shuffled anew in each epoch, shuffled in blocks (for data "
        "larger than the caches), drawn with replacement, or as stored",
        choices=_choices("sampling"),
    )
    option(
        group, "--seed", "random_state", "an int makes runs repeatable", type=int, metavar="INT"
    )
    option(
        group,
        "--jobs",
        "n_jobs",
        "threads; more than one helps only with more than two classes; none is one for each core",
        type=_integer_or_none,
        metavar="N",
    )

    group = parser.add_argument_group("data and output")
    _add_reading(group)
    group.add_argument(
        "--float32",
        action="store_true",
        help="keep features and weights in single precision: half the memory, somewhat faster",
    )
    group.add_argument(
        "--test-size",
        type=_fraction,
        metavar="FRACTION",
        help="hold out this fraction of the examples, each class in proportion, and report the "
        "accuracy on it (default: train on all)",
    )
    group.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="no progress bar (there is none unless stderr is a terminal) and no summary",
    )


def _choices(param: str, estimator: Any = PegasosClassifier) -> list[str]:
    """The strings that an estimator takes for a parameter."""
    return sorted(estimator._parameter_constraints[param][0].options)


def _text(value: Any) -> str:
    """A value as the command line spells it."""
    if value is None:
        return "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _number_or(word: str, meaning: Any) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if text.lower() == word:
            return meaning
        try:
            return float(text)
        except ValueError:
            message = f"must be a number or {word!r}, got {text!r}"
            raise argparse.ArgumentTypeError(message) from None

    return parse


def _integer(text: str, otherwise: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {otherwise}, got {text!r}") from None


def _integer_or_none(text: str) -> int | None:
    return None if text.lower() == "none" else _integer(text, "an int or 'none'")


def _averaging(text: str) -> str | int | bool:
    if text in ("yes", "no"):
        return text == "yes"
    if text in ("uniform", "polynomial"):
        return text
    return _integer(text, "'yes', 'no', 'uniform', 'polynomial' or the number of a step")


def _gamma(text: str) -> str | float:
    if text in ("scale", "auto"):
        return text
    try:
        return float(text)
    except ValueError:
        message = f"must be a number, 'scale' or 'auto', got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def _column(text: str) -> str | int | None:
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        return text


def _fraction(text: str) -> float:
    try:
        fraction = float(text)
    except ValueError:
        fraction = math.nan
    if not 0.0 < fraction < 1.0:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1, got {text!r}")
    return fraction


# -- commands


def _train(arguments: argparse.Namespace) -> None:
    # A model that took hours must not be lost to a misspelt folder.
    _check_writable(arguments.output)
    # Nor must hours be spent on options that do not fit together.
    _estimator(arguments, np.array([0, 1]))
    X, y, _ = io.read(arguments.data, label=arguments.label, format=arguments.format)
    if y is None:
        raise ValueError("training needs labels, --label cannot be none")
    if arguments.float32:
        X = X.astype(np.float32)
    model = _estimator(arguments, y)
    held_out = None
    if arguments.test_size is not None:
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=arguments.test_size, stratify=y, random_state=model.random_state
        )
        held_out = X_test, y_test
    watched = sys.stderr.isatty() and not arguments.quiet
    model.set_params(verbose=int(watched))
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    io.save(model.set_params(verbose=_DEFAULTS["verbose"]), arguments.output)
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
    if held_out is not None:
        n_test = len(held_out[1])
        lines["held-out accuracy"] = f"{model.score(*held_out):.4f} on {n_test:,} examples"
    lines["model"] = arguments.output
    _print_aligned(lines)


def _estimator(arguments: argparse.Namespace, y: np.ndarray) -> Any:
    """The estimator that the options describe."""
    given = {param: value for param, value in vars(arguments).items() if param in _OPTIONS}
    kernel = "kernel" in given
    defaults, estimator = (
        (_KERNEL_DEFAULTS, KernelPegasosClassifier) if kernel else (_DEFAULTS, PegasosClassifier)
    )
    strange = [_OPTIONS[param] for param in given if param not in defaults]
    if strange:
        raise ValueError(f"{strange[0]} {'does not go with' if kernel else 'needs'} --kernel")
    if not kernel and "multi_class" not in given:
        jointly = given.get("loss", _DEFAULTS["loss"]) == "hinge" or len(np.unique(y)) == 2
        given["multi_class"] = "crammer_singer" if jointly else "ovr"
    return estimator(**given)


def _predict(arguments: argparse.Namespace) -> None:
    model = io.load(arguments.model)
    loss = model._choice("loss")
    if arguments.proba and loss != "log_loss":
        raise ValueError(
            f"{arguments.model}: --proba needs a model trained with --loss log_loss, this one was "
            f"trained with {loss}"
        )
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
    texts = [labels.dtype.kind in "UO" for labels in (y, model.classes_)]
    if texts[0] != texts[1]:
        kind = {True: "text", False: "numbers"}
        theirs, ours = (kind[text] for text in texts)
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
    changed = [
        f"{name}={reprlib.repr(value)}"
        for name, value in model.get_params(deep=False).items()
        if value != defaults[name]
    ]
    if isinstance(model, KernelMachine):
        coefs = model.dual_coef_
        holds = {"support vectors": f"{coefs.shape[1]:,}, {coefs.dtype}"}
    else:
        coefs = model.coef_
        nonzero = np.count_nonzero(coefs)
        holds = {"weights": f"{nonzero:,} nonzero of {coefs.size:,}, {coefs.dtype}"}
    _print_aligned(
        {
            "class": type(model).__name__,
            "format": str(io.FORMAT),
            "parameters": ", ".join(changed) or "all at their defaults",
            "classes": _classes(model),
            "features": f"{model.n_features_in_:,}",
            **holds,
            "steps": f"{model.t_:,}",
            **_objective(model),
        }
    )


def _check_writable(path: str) -> None:
    """Refuses a path that no file can be written to."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        reason = errno.EISDIR
    elif os.path.exists(target) and not os.path.isfile(target):
        return  # A device or a pipe.
    elif not os.path.isdir(folder):
        reason = errno.ENOENT
    elif not os.access(folder, os.W_OK | os.X_OK):
        reason = errno.EACCES
    else:
        return
    raise OSError(reason, os.strerror(reason), path)


def _classes(model: Any, most: int = 20) -> str:
    names = [str(label) for label in model.classes_[:most].tolist()]
    if len(model.classes_) > most:
        names.append("...")
    return f"{len(model.classes_):,}: {', '.join(names)}"


def _objective(model: Any) -> dict[str, str]:
    lines = {}
    if isinstance(model, KernelMachine) and model.budget is not None:
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
