"""From arguments to a finished launch: array adapters, specialisation, argument slots, thread pool, disk cache.

In: the arguments of `kernel[grid](...)` and a compiled `Artefact`. Out: results in the caller's own arrays. Everything
works without the C extension `omnikernel._native`, only slower. No array library but NumPy is ever imported here.
"""
