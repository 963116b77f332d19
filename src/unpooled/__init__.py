"""unpooled: learning together from data that stays apart.

The public names are those in `__init__.pyi`; `docs/python.md` explains each. Names are loaded when first
used, so that worker processes, which need little of the package, start quickly.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
