"""Does a hand-written operator earn its place? Its reference under `torch.compile`, timed beside it on the same arrays.

`omnikernel worth MODULE:operator` is the command; `compare.compare` is the same from Python. Needs torch.
"""
