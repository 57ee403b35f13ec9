"""The folder of a run's files: it is there, and that run's alone, before anything is measured. Files are written whole
or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from baton.services.loadgen.load_errors import BadLoad


@contextmanager
def taken(out: str, names: Sequence[str], what: str) -> Iterator[Path | None]:
    """The folder, made if it is not there; None without a name. Nobody else takes it until the end, however that comes.

    Raises BadLoad where one of the files `names` of `what` ("run") would be lost or another process has taken the
    folder, OSError where it cannot be made or written to.
    """
    if not out:
        yield None
        return
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "nothing can be written to this folder", str(folder))
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(held, folder)
        refuse_files(folder, names, what)
        yield folder
    finally:
        os.close(held)


def _lock(held: int, folder: Path) -> None:
    """Of the folder itself: it leaves no file, and ends with the process."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadLoad(f"out: another run is writing to {folder}") from None


def refuse_files(folder: Path, names: Sequence[str], what: str) -> None:
    """Raises BadLoad where files of a run would be lost."""
    for name in names:
        path = folder / name
        if path.exists() and path.stat().st_size:
            raise BadLoad(f"out: {folder} already holds a {what} ({name})")


def write_all(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Each under its name. The first takes its place when all are written, so that a full disk leaves none of them; the
    last one's place says that all are there. Raises OSError, which names the file."""
    drafts: list[tuple[Path, Path]] = []
    path = folder
    try:
        for name, data in files:
            path = folder / name
            draft = path.with_name(name + ".new")
            drafts.append((draft, path))
            draft.write_bytes(data)
        for draft, path in drafts:
            os.replace(draft, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        for draft, _ in drafts:
            draft.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Raises OSError, which names the file."""
    write_all(path.parent, [(path.name, data)])
