"""The command ``pegasos``: train, predict, evaluate, look at models in files, and make C of them.

Results go to stdout. On bad input the exit status is 2 and stderr has one line that says why; 130
means interrupted. Output files appear complete or not at all.
"""

from __future__ import annotations

import argparse
import errno
import os
import reprlib
import sys
import warnings
from contextlib import suppress
from io import RawIOBase, StringIO
from typing import TYPE_CHECKING, Any, NoReturn

# Whatever takes long to import is imported where it is needed: nobody who asks for help waits for scikit-learn.
from pegasos._core import __version__
from pegasos._options import EXAMPLES, ONE_OF, TABLE, Option, how_to_read
from pegasos._report import budget_lines, classes_line, objective_lines, print_aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pegasos._predictor import Predictor

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
    except (ArithmeticError, ImportError, MemoryError, OSError, ValueError) as error:
        # What is not there to be imported is pyarrow, and says so.
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


class _Parser(argparse.ArgumentParser):
    """Says which command is wrong in the usage, not in the message."""

    def __init__(self, **keywords: Any) -> None:
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(epilog=EXAMPLES, formatter_class=layout, allow_abbrev=False, **keywords)

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
    for commands, heading, options in TABLE:
        for name in commands.split():
            place: argparse._ActionsContainer = parsers[name]
            if heading == ONE_OF:
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
        keywords |= {"choices": option.value}
    if option.param is not None:
        keywords |= {"help": _with_default(option), "dest": option.param, "default": argparse.SUPPRESS}
    elif names:
        keywords |= {"required": True} if option.otherwise is ... else {"default": option.otherwise}
    place.add_argument(*(names or [str(metavar).lower()]), **keywords)


def _with_default(option: Option) -> str:
    """What an option is for, and the default of its parameter unless a switch or the text tells of it."""
    if option.value is False or "(default" in option.text:
        return option.text
    defaults = [default for default in option.defaults if default is not None]
    with_kernel = f", with --kernel {defaults[-1]}" if defaults[-1] != defaults[0] else ""
    return f"{option.text} (default: {defaults[0]}{with_kernel})"


# -- commands


def _train(arguments: argparse.Namespace) -> None:
    from pegasos._train import train

    train(arguments)


def _predict(arguments: argparse.Namespace) -> None:
    from pegasos import io
    from pegasos._predictor import Predictor

    _check_spares(arguments.output, "predictions", {"examples": arguments.data, "model": arguments.model})
    model = Predictor(arguments.model)
    if arguments.proba and not model.has_probabilities:
        needed = "--proba needs a model trained with --calibration or --loss log_loss, this one was trained with neither"
        if model.about["params"].get("calibration") is not None:
            needed = "its calibration has no scores to learn from: of --passes 1, before the second window, there are none"
        raise ValueError(f"{arguments.model}: {needed}")
    X = io.read_for(model, arguments.data, **how_to_read(arguments)).X
    if arguments.proba:
        rows = model.predict_proba(X).tolist()
    elif arguments.scores:
        scores = model.decision_function(X)
        rows = scores.reshape(len(scores), -1).tolist()
    else:
        broken = [label for label in map(str, model.classes_.tolist()) if "\n" in label or "\r" in label]
        if broken:
            raise ValueError(
                f"{arguments.model}: labels must have no line breaks to be printed one a line, got {broken[0]!r}; --scores prints "
                "a column for each"
            )
        rows = [[label] for label in model.predict(X).tolist()]
    _write("".join("\t".join(map(str, row)) + "\n" for row in rows), arguments.output)


def _check_spares(output: str | None, what: str, inputs: dict[str, str]) -> None:
    from pegasos._files import check_spares

    if output is not None and output != "-":
        check_spares(output, what, inputs)


def _write(text: str, output: str | None) -> None:
    from pegasos._files import replacing

    if output is None or output == "-":
        _write_whole(text)
    else:
        with replacing(output) as file:
            file.write(text.encode())


def _write_whole(text: str) -> None:
    """Writes all of it to standard output: without a buffer, as by PYTHONUNBUFFERED, that may take a part and say nothing."""
    raw = getattr(sys.stdout, "buffer", None)
    if not isinstance(raw, RawIOBase):
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    rest = memoryview(text.encode(sys.stdout.encoding, sys.stdout.errors or "strict"))
    while rest:
        written = raw.write(rest)
        if written is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), "standard output")
        rest = rest[written:]


def _by_class(y: Any, guess: Any, labels: list[Any]) -> tuple[Any, Any, Any, Any]:
    """Precision, recall and F1 of each class, 0 where they are 0/0, and its examples: as scikit-learn's, which may not be there."""
    import numpy as np

    place = {label: number for number, label in enumerate(labels)}
    codes, guesses = (np.array([place[label] for label in column.tolist()], np.int64) for column in (y, guess))
    right, there, named = (np.bincount(each, minlength=len(labels)) for each in (codes[codes == guesses], codes, guesses))
    parts = ((right, named), (right, there), (2 * right, named + there))
    precision, recall, f1 = (np.divide(a, b, out=np.zeros(len(labels)), where=b > 0) for a, b in parts)
    return precision, recall, f1, there


def _evaluate(arguments: argparse.Namespace) -> None:
    from pegasos import io
    from pegasos._predictor import Predictor

    model = Predictor(arguments.model)
    X, y, _ = io.read_for(model, arguments.data, **how_to_read(arguments))
    if y is None:
        raise ValueError(f"{arguments.data}: it has no labels to compare with")
    ours, theirs = ("text" if labels.dtype.kind in "UO" else "numbers" for labels in (model.classes_, y))
    if ours != theirs:
        raise ValueError(f"{arguments.data}: its labels are {theirs}, those of the model {ours}")
    guess = model.predict(X)
    right = int((guess == y).sum())
    unseen = sorted(set(y.tolist()) - set(model.classes_.tolist()))
    labels = [*model.classes_.tolist(), *unseen]
    columns = _by_class(y, guess, labels)
    width = max(5, *(len(str(label)) for label in labels))
    # Nothing is said before all is known.
    print(f"accuracy {right / len(y):.4f} ({right:,} of {len(y):,})\n")
    print(f"{'class':<{width}}  precision  recall      F1  examples")
    for label, precision, recall, f1, support in zip(labels, *columns, strict=True):
        print(f"{label!s:<{width}}  {precision:9.4f}  {recall:6.4f}  {f1:6.4f}  {support:8,}")


def _export(arguments: argparse.Namespace) -> None:
    from pegasos._predictor import Predictor

    _check_spares(arguments.output, "header", {"model": arguments.model})
    _write(Predictor(arguments.model).to_c(arguments.name), arguments.output)


def _info(arguments: argparse.Namespace) -> None:
    from pegasos._predictor import Predictor

    model = Predictor(arguments.model)
    about, trainer = model.about, model.about["trainer"]
    # A file of an earlier version does not say which parameters were given.
    given = {name: about["params"][name] for name in about.get("given", about["params"])}
    lines = {
        "class": about["class"],
        "format": str(about["format"]),
        "parameters": ", ".join(f"{name}={reprlib.repr(value)}" for name, value in given.items()) or "all at their defaults",
        "classes": classes_line(model.classes_),
        "features": f"{model.n_features_in_:,}",
        **{f"step {k}": step["class"] for k, step in enumerate(about.get("steps", []), 1)},
        **_holds(model, trainer["dtype"]),
        "steps": f"{trainer['t']:,}",
    }
    bounded = model.is_bounded
    lines |= budget_lines(trainer["gradient_error"] / max(1, trainer["steps"]) if bounded else None)
    print_aligned(lines | objective_lines(_number(about["objective"]), _number(about["dual_objective"]), bounded=bounded))


def _number(value: Any) -> float:
    return float(value["float"]) if isinstance(value, dict) else float(value)


def _holds(model: Predictor, dtype: str) -> dict[str, str]:
    if model.n_vectors is not None:
        return {"support vectors": f"{model.n_vectors:,}, {dtype}"}
    nonzero, size = model.n_weights
    return {"weights": f"{nonzero:,} nonzero of {size:,}, {dtype}"}


_COMMANDS = {
    "train": (_train, "train a linear model, or with --kernel a kernel machine, and write it to a file"),
    "predict": (_predict, "print the label of each example, one a line"),
    "evaluate": (_evaluate, "print accuracy, and precision, recall and F1 by class"),
    "export": (_export, "write a model as a header for C, with all that predicts: for devices"),
    "info": (_info, "print what a model file holds"),
}
