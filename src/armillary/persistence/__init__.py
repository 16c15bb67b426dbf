"""Models in files: `save` and `load`."""

from armillary.persistence.archive import load, save

__all__ = ["load", "save"]
