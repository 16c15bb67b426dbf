"""One pass over the rows, one loop over the passes; no model is named here."""
