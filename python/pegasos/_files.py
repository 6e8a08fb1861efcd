"""Files: written whole or not at all, and what is wrong with one that is read."""

from __future__ import annotations

import bz2
import csv
import errno
import gzip
import hashlib
import os
import secrets
import shutil
import stat
import sys
import zipfile
import zlib
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import IO, TYPE_CHECKING, Any

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is open.
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    Path: TypeAlias = str | os.PathLike[str]

#: How files of these endings are decompressed.
_PACKED: dict[str, Callable[[str], Any]] = {".gz": gzip.open, ".bz2": bz2.open}

#: What readers of foreign formats raise when the content is not what they expect.
BROKEN = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
    csv.Error,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turns whatever a broken file provokes into a ValueError that names the file."""
    try:
        yield
    except OSError as error:
        # The system's own errors have a number; those without are decompressors' complaints. An
        # invalid argument is a place that a damaged archive refers to.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise ValueError(f"{os.fspath(path)}: {error}") from error
    except BROKEN as error:
        raise ValueError(f"{os.fspath(path)}: {why(error)}") from error


def why(error: Exception) -> str:
    """What an error that a broken file has provoked says of it."""
    reason = " ".join(str(error).split())
    if isinstance(error, KeyError):
        return f"it has no entry {reason}"
    return reason if isinstance(error, ValueError | csv.Error) else f"it is damaged: {reason}"


def _is_full(error: OSError) -> bool:
    """Whether a write, which names no file, has found no room."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of ``path`` when the block ends.

    Parameters
    ----------
    path : str or path-like
        The file to write. What is no regular file, such as a pipe, is written to as it stands.
    durable : bool, default=True
        Whether to wait until the disk has it. Otherwise a power failure may leave a file of which parts are missing:
        for what carries checksums and can be made again.

    Yields
    ------
    file : binary file
        A new file in the same folder. If the block raises, it vanishes, and ``path`` is as it was. If the process is
        killed, it stays until the next time that somebody replaces the same ``path``.

    Raises
    ------
    OSError
        The folder does not exist, is not writable, or is full.

    Examples
    --------
    >>> import tempfile, os
    >>> from pegasos.io import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(os.path.join(folder, "a.txt")) as file:
    ...         _ = file.write(b"all or nothing")
    ...     os.listdir(folder)
    ['a.txt']
    """
    if is_special(path):
        # By this name: that of a pipe behind /dev/stdout or /dev/fd/63 leads nowhere.
        with open(path, "wb") as special:
            yield special
        return
    target = os.path.realpath(path)
    exists = os.path.exists(target)
    own = os.path.join(os.path.dirname(target), f".pegasos-{_digest(os.path.basename(target))}-")
    try:
        _forget_killed(own)
        file = _created(own)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            if exists:
                shutil.copymode(target, file.name)
            if fcntl:
                # While it is locked: nobody takes it for one whose writer was killed.
                os.replace(file.name, target)
        if not fcntl:
            os.replace(file.name, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(file.name)
        if isinstance(error, OSError) and (error.filename == file.name or _is_full(error)):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise


def _digest(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def _created(own: str) -> IO[bytes]:
    """A new file that is locked as long as it is open."""
    while True:
        file = open(f"{own}{secrets.token_hex(8)}", "xb")
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX)
        # Before it was locked somebody may have taken it for one whose writer was killed.
        if os.path.exists(file.name):
            return file
        file.close()


def _forget_killed(own: str) -> None:
    """Removes files of such names that nobody writes to."""
    folder = os.path.dirname(own)
    for name in os.listdir(folder):
        if not name.startswith(os.path.basename(own)):
            continue
        path = os.path.join(folder, name)
        with suppress(OSError):
            if fcntl:
                with open(path, "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
            else:
                os.unlink(path)


def opened(path: Path) -> AbstractContextManager[Any]:
    """A file of bytes, decompressed if its ending says that it is packed; the standard input for "-"."""
    name = os.fspath(path)
    if name == "-":
        if sys.stdin is None:
            raise ValueError("the standard input is closed")
        return nullcontext(sys.stdin.buffer)
    for ending, open_packed in _PACKED.items():
        if name.lower().endswith(ending):
            return open_packed(name)
    return open(name, "rb")


def position(file: Any) -> int | None:
    """How much of an open file has been read, packed bytes if it is packed; None if it has no places, as a pipe."""
    try:
        return os.lseek(file.fileno(), 0, os.SEEK_CUR)
    except OSError:
        return None


def size_of(path: Path) -> int | None:
    """The size of a file; None of what has none, or is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def is_special(path: Path) -> bool:
    """Whether it is a device or a pipe, or a folder: what is there, and no file that another can take the place of."""
    return os.path.exists(path) and not os.path.isfile(path)


def is_pipe(path: Path) -> bool:
    """Whether what is there can be read but once, from one end to the other."""
    return is_special(path) and not os.path.isdir(path)


def check_readable(path: Path) -> None:
    """Refuses a path that no file can be read from, in the system's words."""
    # To open a pipe takes until somebody writes to it.
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        with open(path, "rb"):
            pass


def check_writable(path: Path) -> None:
    """Refuses a path that no file can be written to."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target):
        reason = errno.EISDIR
    elif is_special(path):
        return
    elif not os.path.isdir(folder):
        reason = errno.ENOENT
    elif not os.access(folder, os.W_OK | os.X_OK):
        reason = errno.EACCES
    else:
        return
    raise OSError(reason, os.strerror(reason), os.fspath(path))


def check_spares(output: Path, what: str, inputs: Mapping[str, Path]) -> None:
    """Refuses to write ``what`` over a file that is read: ``inputs`` by what they hold."""
    for name, path in inputs.items():
        # A terminal may be read from and written to.
        if os.path.isfile(path) and os.path.exists(output) and os.path.samefile(path, output):
            raise ValueError(f"{os.fspath(output)}: the {what} would take the place of the {name}; give --output another name")
