"""LLVM: a text builder (`emit`) and the way from text to machine code (`jit`)."""
