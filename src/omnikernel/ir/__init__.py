"""Tile IR: the types, values and operations that every stage between the reader and the lowering works on."""
