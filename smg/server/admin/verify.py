"""Signatures and claims of JSON Web Tokens, by the library PyJWT, which is imported when a token comes.

Asymmetric algorithms only: `none` and the HMAC family are never tried, whatever a token or a key set says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LEEWAY_S = 30

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# Algorithms by key type and, where the type has curves, by curve.
_ALGORITHMS: dict[tuple[str, str], tuple[str, ...]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")
_RSA_BITS = range(2048, 8193)


class TokenError(Exception):
    """Why a token is refused, in words that show nothing of it."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """`key` is what the library verifies with, `algorithms` what it may be used for."""

    key: Any
    algorithms: tuple[str, ...]


def read_key(jwk: Mapping[str, Any]) -> SigningKey | None:
    """A key of a JWK set; None when it is not one for verifying signatures, or broken."""
    from jwt.algorithms import get_default_algorithms

    if jwk.get("use", "sig") != "sig" or "verify" not in _texts(jwk.get("key_ops", ["verify"])):
        return None
    kind, curve, named = jwk.get("kty"), jwk.get("crv", ""), jwk.get("alg")
    if not isinstance(kind, str) or not isinstance(curve, str):
        return None
    algorithms = _ALGORITHMS.get((kind, "" if kind == "RSA" else curve), ())
    if named is not None:
        algorithms = tuple(one for one in algorithms if one == named)
    if not algorithms:
        return None
    # A set that shows private members by mistake is used like any other.
    public = {name: jwk[name] for name in _PUBLIC if name in jwk}
    try:
        key = get_default_algorithms()[algorithms[0]].from_jwk(public)
    except Exception:
        # Whatever the library makes of a broken key, the others of the set count.
        return None
    if kind == "RSA" and key.key_size not in _RSA_BITS:
        return None
    return SigningKey(key, algorithms)


def key_id(token: str) -> tuple[str, str]:
    """Algorithm and key ID that a token names, both unverified. Raises `TokenError`."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
    except Exception:
        raise TokenError("the token cannot be read") from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if not any(algorithm in one for one in _ALGORITHMS.values()):
        raise TokenError("the algorithm is not accepted")
    if not isinstance(kid, str):
        raise TokenError("the token names no key")
    return str(algorithm), kid


def claims_of(token: str, algorithm: str, key: SigningKey, issuer: str, audience: str) -> dict[str, Any]:
    """The verified claims. Raises `TokenError`."""
    import jwt

    if algorithm not in key.algorithms:
        raise TokenError("the key is not for this algorithm")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            issuer=issuer,
            audience=audience,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iss", "aud"], "verify_iat": False},
        )
    except jwt.ExpiredSignatureError:
        raise TokenError("the token has expired") from None
    except jwt.ImmatureSignatureError:
        raise TokenError("the token is not valid yet") from None
    except jwt.InvalidAudienceError:
        raise TokenError("the token is for another audience") from None
    except jwt.InvalidIssuerError:
        raise TokenError("the token is of another issuer") from None
    except jwt.MissingRequiredClaimError as error:
        raise TokenError(f"the token has no {error.claim}") from None
    except jwt.InvalidSignatureError:
        raise TokenError("the signature is wrong") from None
    except Exception:
        # A forged token must never be more than a refusal, whatever the library trips over.
        raise TokenError("the token cannot be verified") from None
    return claims


def _texts(value: object) -> list[object]:
    return value if isinstance(value, list) else []
