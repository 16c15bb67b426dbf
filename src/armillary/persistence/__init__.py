"""Models in files: `save` and `load`; fits that go on where they were killed: `Checkpoint`."""

from armillary.persistence.archive import load, save
from armillary.persistence.fit_checkpoints import Checkpoint

__all__ = ["Checkpoint", "load", "save"]
