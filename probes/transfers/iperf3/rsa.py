"""Derives an RSA key pair from a secret, with PEM (RFC 7468).

For single-use keys only: the running time depends on the secret. Primes are probable (Miller-Rabin).
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

EXPONENT = 65537
# More than the 5 rounds that FIPS 186-5 requires for random candidates of 1024 bits (table B.1).
ROUNDS = 8
BITS = 2048

SMALL_PRIMES = [n for n in range(3, 2000, 2) if all(n % d for d in range(3, math.isqrt(n) + 1, 2))]
SMALL_PRODUCT = math.prod(SMALL_PRIMES)
# AlgorithmIdentifier of rsaEncryption, with no parameters (RFC 8017, appendix A.1), in DER.
RSA_ENCRYPTION = bytes.fromhex("300d06092a864886f70d0101010500")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The key pair with modulus `p`·`q` and public exponent `EXPONENT`."""

    p: int
    q: int
    private_exponent: int

    @property
    def modulus(self) -> int:
        return self.p * self.q

    def private_pem(self) -> str:
        # RSAPrivateKey of RFC 8017, appendix A.1.2.
        d, p, q = self.private_exponent, self.p, self.q
        numbers = (0, self.modulus, EXPONENT, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
        return _pem("RSA PRIVATE KEY", _sequence(*(_integer(number) for number in numbers)))

    def public_pem(self) -> str:
        # SubjectPublicKeyInfo of RFC 5280, section 4.1.
        key = _sequence(_integer(self.modulus), _integer(EXPONENT))
        return _pem("PUBLIC KEY", _sequence(RSA_ENCRYPTION, _element(0x03, b"\0" + key)))


def key_pair(secret: str, bits: int = BITS) -> KeyPair:
    """Derive the pair, in tenths of a second."""
    numbers = _numbers(secret, bits // 2)
    p = _prime(numbers, bits // 2)
    q = _prime(numbers, bits // 2)
    return KeyPair(p, q, pow(EXPONENT, -1, math.lcm(p - 1, q - 1)))


def _numbers(secret: str, bits: int) -> Iterator[int]:
    """Yield pseudo-random numbers of `bits` bits (SHAKE256 of secret and counter)."""
    count = 0
    while True:
        yield int.from_bytes(hashlib.shake_256(f"{count}:{secret}".encode()).digest(bits // 8))
        count += 1


def _prime(numbers: Iterator[int], bits: int) -> int:
    # Next probable prime; two high bits make products twice as long.
    for number in numbers:
        candidate = number | 1 | 0b11 << bits - 2
        if math.gcd(candidate, SMALL_PRODUCT) > 1 or (candidate - 1) % EXPONENT == 0:
            continue
        if all(_passes(candidate, next(numbers) % (candidate - 3) + 2) for _ in range(ROUNDS)):
            return candidate
    raise AssertionError("the numbers never end")


def _passes(candidate: int, base: int) -> bool:
    odd, twos = candidate - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    power = pow(base, odd, candidate)
    if power in (1, candidate - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % candidate
        if power == candidate - 1:
            return True
    return False


def _integer(number: int) -> bytes:
    return _element(0x02, number.to_bytes(number.bit_length() // 8 + 1))


def _sequence(*elements: bytes) -> bytes:
    return _element(0x30, b"".join(elements))


def _element(tag: int, content: bytes) -> bytes:
    """A DER element with the shortest length (X.690, section 10.1)."""
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(size)]) + size + content


def _pem(label: str, der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])
