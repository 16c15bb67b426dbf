"""All work on N rows, behind one seam: `contract.py`."""
