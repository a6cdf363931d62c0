"""Reproducible random numbers from identity, key and salt.

SHA-256 over `identity LF key LF salt`, then SplitMix64 seeded with the first eight bytes, big-endian.
Fixed for major version 1: another hash or generator would change every decision made so far.
"""

from __future__ import annotations

from hashlib import sha256

from punctual.schedules.errors import DecisionError
from punctual.schedules.text import clip

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_UNIT = 2.0**-53


def seed_digest(identity: str, key: str, salt: str) -> bytes:
    return sha256(b"\n".join((encode_identity(identity), key.encode(), salt.encode()))).digest()


def encode_identity(identity: str) -> bytes:
    """UTF-8; what is not a text, or not Unicode, raises `DecisionError`."""
    try:
        return identity.encode()
    except (AttributeError, UnicodeEncodeError):
        value = clip(ascii(identity))
        message = f"identity: expected a text without lone surrogates, got {value}"
        raise DecisionError("invalid_identity", message, field="identity", value=value) from None


class SplitMix64:
    """The SplitMix64 generator of Steele, Lea and Flood."""

    __slots__ = ("_state",)

    def __init__(self, digest: bytes) -> None:
        self._state = int.from_bytes(digest[:8], "big")

    def next_int(self) -> int:
        self._state = (self._state + _GOLDEN) & _MASK
        mixed = self._state
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        return mixed ^ mixed >> 31

    def next_unit(self) -> float:
        """A uniform number in [0, 1) with 53 bits, exactly representable on every platform."""
        return (self.next_int() >> 11) * _UNIT


def draw_below(count: int, *, identity: str, key: str, salt: str) -> int:
    """Draw one number of range(count), the same on every node for the same seed."""
    unit = SplitMix64(seed_digest(identity, key, salt)).next_unit()
    return min(int(unit * count), count - 1)
