"""`python -m armillary` is the command `armillary`."""

from armillary.cli import main

main()
