"""Passes: a kernel in, a kernel or an analysis of it out. They never mutate and never emit code."""
