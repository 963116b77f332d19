"""The limits of a coordinator: how much it serves at once, and for how many rows."""

from __future__ import annotations

from dataclasses import dataclass

from unpooled.errors import RefusedError

MEGABYTE = 2**20
MOST_PRODUCTS = 2**16
"""Of one request. Of those that learners make, a descent of many models in shares has most: some thousand."""


@dataclass(frozen=True)
class Serving:
    """A coordinator's limits: megabytes per request, and rows of a product if it knows how many there are.

    The default is enough for ten trees at a time on 200,000 rows of 200 columns.
    """

    megabytes: float = 4096
    rows: int | None = None

    def check(self, party: str, driver: str, size: int, products: int, rows: int) -> None:
        """Refuse a request before any of it is computed."""
        if products > MOST_PRODUCTS:
            raise RefusedError(f"{party} serves at most {MOST_PRODUCTS} products at once; {driver} asks for {products}")
        if self.rows is not None and rows > self.rows:
            raise RefusedError(f"{party} serves products of at most {self.rows} rows; {driver} asks for {rows}")
        if size > self.megabytes * MEGABYTE:
            raise RefusedError(
                f"{party} serves at most {self.megabytes:g} MB at once (policy.maximum_served_megabytes); "
                f"{driver} asks for {size // MEGABYTE}"
            )
