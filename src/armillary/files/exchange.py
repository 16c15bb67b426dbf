"""Two folders that trade names in one step, where the system can do that: nobody ever finds neither or half of one."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

# what systems, file systems and sandboxes answer that do not know this call
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM})
_LINUX_HERE, _LINUX_EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
_MACOS_SWAP = 2  # RENAME_SWAP


def exchange(one: Path, other: Path) -> bool:
    """Give each the name of the other; False, with nothing done, where the system cannot. Both must be there."""
    call = _call()
    if call is None:
        return False
    if call(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))


@cache
def _call() -> Callable[[bytes, bytes], int] | None:
    """The function of the C library, with what it takes beside the names."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            swap = library.renamex_np
            swap.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint]
            return lambda one, other: int(swap(one, other, _MACOS_SWAP))
        trade = library.renameat2
    except (AttributeError, OSError, TypeError):  # an older library; Windows
        return None
    trade.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return lambda one, other: int(trade(_LINUX_HERE, one, _LINUX_HERE, other, _LINUX_EXCHANGE))
