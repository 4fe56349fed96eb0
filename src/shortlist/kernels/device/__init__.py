"""Triton code: one program for each row, or for each block of rows and columns."""
