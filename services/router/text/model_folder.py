"""What the router needs of a model folder: its card, its tokenizer both ways, its chat template. Imports no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from baton.core.errors import Incompatible
from baton.services.model.folder import ModelInfo, read_model_info
from baton.services.router.text.chat_template import ChatTemplate
from baton.services.router.text.token_table import TokenTable, build_table
from baton.services.router.text.tokenize import PromptEncoder
from baton.services.router.tools.detect import ToolFormat, detect_format, visible_tokens


class RouterModel(NamedTuple):
    folder: Path
    info: ModelInfo
    table: TokenTable
    encoder: PromptEncoder
    tool_format: ToolFormat | None  #: how the model writes tool calls
    tool_table: TokenTable  #: for answers in which they are looked for


def load_router_model(folder: Path, hash_key: bytes, tool_format: str = "auto") -> RouterModel:
    """Read the folder; Incompatible says what is missing or cannot be streamed."""
    info = read_model_info(folder)
    try:
        tokenizer_json = (folder / "tokenizer.json").read_text(encoding="utf-8")
        parsed = json.loads(tokenizer_json)
    except (OSError, ValueError) as error:
        raise Incompatible(f"{folder}: tokenizer.json cannot be read: {error}") from error
    table = build_table(parsed, info.vocab_size)
    template = _chat_template(folder)
    found = detect_format(template.source if template else None, tool_format)
    seen = visible_tokens(found, table.control) if found else {}
    encoder = PromptEncoder(tokenizer_json, table, template, hash_key)
    return RouterModel(folder, info, table, encoder, found, table.naming(seen))


def _chat_template(folder: Path) -> ChatTemplate | None:
    path = folder / "chat_template.jinja"
    if not path.is_file():
        return None
    return ChatTemplate(path.read_text(encoding="utf-8"), _special_names(folder / "tokenizer_config.json"))


def _special_names(path: Path) -> dict[str, str]:
    """Template variables such as `bos_token`; an entry is a string or an added token's object."""
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    names = {}
    for key, value in config.items():
        if key.endswith("_token"):
            content = value.get("content") if isinstance(value, dict) else value
            if isinstance(content, str):
                names[key] = content
    return names
