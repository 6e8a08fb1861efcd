"""Files: written whole or not at all, and what is wrong with one that is read."""

from __future__ import annotations

import csv
import errno
import os
import secrets
import shutil
import zipfile
import zlib
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from safetensors import SafetensorError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Path: TypeAlias = str | os.PathLike[str]

#: What readers of foreign formats raise when the content is not what they expect.
BROKEN = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    RecursionError,
    SafetensorError,
    TypeError,
    ValueError,
    csv.Error,
    zipfile.BadZipFile,
    zlib.error,
)


@contextmanager
def naming(path: Path, what: str = "") -> Iterator[None]:
    """Turns whatever a broken file provokes into a ValueError that names the file."""
    try:
        yield
    except OSError as error:
        # The system's own errors have a number; those without are decompressors' complaints. An
        # invalid argument is a place that a damaged archive refers to.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise ValueError(f"{os.fspath(path)}: {what}{error}") from error
    except BROKEN as error:
        reason = " ".join(str(error).split())
        if isinstance(error, KeyError):
            reason = f"it has no entry {reason}"
        elif not isinstance(error, ValueError | SafetensorError | csv.Error):
            reason = f"it is damaged: {reason}"
        raise ValueError(f"{os.fspath(path)}: {what}{reason}") from error


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes the place of ``path`` when the block ends.

    Parameters
    ----------
    path : str or path-like
        The file to write. What is no regular file, such as a pipe, is written to as it stands.

    Yields
    ------
    file : binary file
        A new file in the same folder. If the block raises, it vanishes, and ``path`` is as it was.

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
    target = os.path.realpath(path)
    exists = os.path.exists(target)
    if exists and not os.path.isfile(target):
        with open(target, "wb") as file:
            yield file
        return
    temporary = os.path.join(os.path.dirname(target), f".pegasos-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if exists:
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise


def check_writable(path: Path) -> None:
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
    raise OSError(reason, os.strerror(reason), os.fspath(path))
