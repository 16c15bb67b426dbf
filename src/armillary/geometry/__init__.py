"""The sphere: angles, maps, transport and means, in float64, without a word about clusters."""
