"""Models that are already in Hugging Face's form: a local folder, or an id of the hub."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from baton.core.errors import Incompatible

TAKEN = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def convert_hub(model_id: str, folder: Path) -> None:
    """Download what a model folder needs (into the hub's own cache) and take it over."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        snapshot = snapshot_download(model_id, allow_patterns=[*TAKEN, "*.safetensors", "*.safetensors.index.json"])
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise Incompatible(f"the hub does not give {model_id!r}: {error}") from error
    convert_folder(Path(snapshot), folder)


def convert_folder(source: Path, folder: Path) -> None:
    """Link (or copy, across file systems) the files of a Hugging Face folder with fast tokenizer and safetensors."""
    names = [name for name in TAKEN if (source / name).is_file()]
    weights = sorted(path.name for path in (*source.glob("*.safetensors"), *source.glob("*.safetensors.index.json")))
    for needed in ("config.json", "tokenizer.json"):
        if needed not in names:
            raise Incompatible(f"{source} has no {needed}")
    if not weights:
        raise Incompatible(f"{source} has no safetensors")
    for name in (*names, *weights):
        _link(source / name, folder / name)
    if "chat_template.jinja" not in names and "tokenizer_config.json" in names:
        _take_template_from_config(folder)


def _link(source: Path, destination: Path) -> None:
    try:
        os.link(source.resolve(), destination)
    except OSError:
        shutil.copyfile(source, destination)


def _take_template_from_config(folder: Path) -> None:
    """Older folders hold the chat template inside `tokenizer_config.json`."""
    template = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")).get("chat_template")
    if isinstance(template, list):
        template = next((entry["template"] for entry in template if entry.get("name") == "default"), None)
    if isinstance(template, str):
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
