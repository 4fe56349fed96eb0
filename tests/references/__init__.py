"""Formulas typed literally, in float64 and with plain loops, for the tests to compare with."""
