"""Expressions for polars: `import gantry_crypto.polars`, then `pl.col("email").gantry.sha256(hex=True)`.

Each is elementwise, keeps nulls, and takes strings and byte strings. The result is `pl.Binary`, or `pl.String` with `hex=True`.
"""

from __future__ import annotations

import polars as pl

from ._core import digest_many

__all__ = ["GantryExpressions"]


@pl.api.register_expr_namespace("gantry")
class GantryExpressions:
    """The namespace `gantry` of expressions."""

    def __init__(self, expr: pl.Expr) -> None:
        self._expr = expr

    def digest(self, alg: str, *, key: bytes | None = None, hex: bool = False) -> pl.Expr:
        """Returns the digest of each value, or its HMAC if there is a key."""
        dtype = pl.String if hex else pl.Binary

        def hashed(values: pl.Series) -> pl.Series:
            return pl.Series(values.name, digest_many(alg, values, key, hex)).cast(dtype)

        return self._expr.map_batches(hashed, return_dtype=dtype, is_elementwise=True)

    def hmac(self, alg: str, key: bytes, *, hex: bool = False) -> pl.Expr:
        """Returns the HMAC (RFC 2104) of each value."""
        return self.digest(alg, key=key, hex=hex)

    def md5(self, *, hex: bool = False) -> pl.Expr:
        """Returns the MD5 digest of each value."""
        return self.digest("md5", hex=hex)

    def sha1(self, *, hex: bool = False) -> pl.Expr:
        """Returns the SHA-1 digest of each value."""
        return self.digest("sha1", hex=hex)

    def sha256(self, *, hex: bool = False) -> pl.Expr:
        """Returns the SHA-256 digest of each value."""
        return self.digest("sha256", hex=hex)

    def sha512(self, *, hex: bool = False) -> pl.Expr:
        """Returns the SHA-512 digest of each value."""
        return self.digest("sha512", hex=hex)

    def sha3_256(self, *, hex: bool = False) -> pl.Expr:
        """Returns the SHA3-256 digest of each value."""
        return self.digest("sha3_256", hex=hex)

    def blake2b_256(self, *, hex: bool = False) -> pl.Expr:
        """Returns the BLAKE2b digest, of 32 bytes, of each value."""
        return self.digest("blake2b_256", hex=hex)
