"""unpooled: learning together from data that stays apart."""

from unpooled.version import __version__

__all__ = ["__version__"]
