"""SipHash-2-4-128 and the block-hash chain, from their definitions."""

from collections.abc import Sequence

MASK = (1 << 64) - 1


def rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & MASK


def sip_round(v: list[int]) -> None:
    v[0] = (v[0] + v[1]) & MASK
    v[2] = (v[2] + v[3]) & MASK
    v[1] = rotate(v[1], 13) ^ v[0]
    v[3] = rotate(v[3], 16) ^ v[2]
    v[0] = rotate(v[0], 32)
    v[2] = (v[2] + v[1]) & MASK
    v[0] = (v[0] + v[3]) & MASK
    v[1] = rotate(v[1], 17) ^ v[2]
    v[3] = rotate(v[3], 21) ^ v[0]
    v[2] = rotate(v[2], 32)


def siphash128_twin(key: bytes, data: bytes) -> bytes:
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        sip_round(v)
        sip_round(v)
        v[0] ^= word
    halves = []
    for position, constant in ((2, 0xEE), (1, 0xDD)):
        v[position] ^= constant
        for _ in range(4):
            sip_round(v)
        halves.append((v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little"))
    return b"".join(halves)


def hash_chain_twin(key: bytes, root: bytes, tokens: Sequence[int], block_size: int) -> bytes:
    parent, hashes = root, []
    for first in range(0, len(tokens) - block_size + 1, block_size):
        block = b"".join(token.to_bytes(4, "little", signed=True) for token in tokens[first : first + block_size])
        leaf = siphash128_twin(key, b"BTN_LEAF" + block)
        parent = siphash128_twin(key, b"BTN_LINK" + parent + leaf)
        hashes.append(parent)
    return b"".join(hashes)
