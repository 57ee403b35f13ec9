"""The bytes behind each token id, read once from `tokenizer.json`, so that text is made from tokens by concatenation.

Two families are understood: byte-level BPE (a character for each byte) and pieces with a space mark and byte fallback.
Any other decoder is refused at the start: an approximate one would split or lose characters.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from baton.core.errors import Incompatible

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenTable(NamedTuple):
    pieces: tuple[bytes, ...]  #: by id: what the token adds to the text; empty for control tokens and unused ids
    control: dict[int, str]  #: names of control tokens ("special" in the file)
    max_piece_bytes: int  #: no token covers more bytes of a prompt

    def naming(self, tokens: dict[int, str]) -> TokenTable:
        """The same, with these control tokens written into the text by their names."""
        pieces = list(self.pieces)
        for token, name in tokens.items():
            pieces[token] = name.encode()
        return self._replace(pieces=tuple(pieces))

    def shown(self, token: int) -> bytes:
        """Bytes by which a token is named in log-probabilities: control tokens by their names."""
        return self.control[token].encode() if token in self.control else self.pieces[token]


def byte_level_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: itself if printable in Latin-1, else the next one from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(256) if byte not in set(printable))
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(hidden)}


def decoder_steps(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The decoder as a flat list of steps."""
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [step for inner in decoder["decoders"] for step in decoder_steps(inner)]
    return [decoder]


def piece_decoder(tokenizer: dict[str, Any]) -> Any:
    """Return the function from a vocabulary piece to its bytes."""
    steps = {step["type"]: step for step in decoder_steps(tokenizer.get("decoder"))}
    if "ByteLevel" in steps:
        alphabet = byte_level_alphabet()

        def from_alphabet(piece: str) -> bytes:
            if all(char in alphabet for char in piece):
                return bytes(alphabet[char] for char in piece)
            return piece.encode()

        return from_alphabet
    if "Metaspace" in steps:
        mark, space = steps["Metaspace"]["replacement"], " "
    elif "Replace" in steps and "String" in steps["Replace"]["pattern"]:
        mark, space = steps["Replace"]["pattern"]["String"], steps["Replace"]["content"]
    else:
        raise Incompatible(f"the tokenizer's decoder ({', '.join(steps) or 'none'}) is not one that can be streamed")

    def from_marked(piece: str) -> bytes:
        byte = BYTE_TOKEN.fullmatch(piece) if "ByteFallback" in steps else None
        return bytes([int(byte[1], 16)]) if byte else piece.replace(mark, space).encode()

    return from_marked


def build_table(tokenizer: dict[str, Any], vocab_size: int) -> TokenTable:
    """Read the table of a parsed `tokenizer.json`; `vocab_size` is the model's, which may be larger."""
    vocab = tokenizer["model"]["vocab"]
    ids = vocab if isinstance(vocab, dict) else {piece: index for index, (piece, _) in enumerate(vocab)}
    added = tokenizer.get("added_tokens", [])
    size = max(vocab_size, *(index + 1 for index in ids.values()), *(token["id"] + 1 for token in added), 0)
    pieces = [b""] * size
    to_bytes = piece_decoder(tokenizer)
    for piece, index in ids.items():
        pieces[index] = to_bytes(piece)
    for token in added:
        pieces[token["id"]] = b"" if token["special"] else token["content"].encode()
    control = {token["id"]: token["content"] for token in added if token["special"]}
    longest = max(map(len, (*pieces, *(name.encode() for name in control.values()))))
    return TokenTable(tuple(pieces), control, longest)
