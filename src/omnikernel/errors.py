"""One class a mistake. A message names the kernel, what was expected, what came, where, and what to do."""

from __future__ import annotations


class OmnikernelError(Exception):
    """Base of every error that this package raises by itself."""


class UnsupportedOp(OmnikernelError):
    """The kernel uses an operation that the CPU backend does not compile."""


class ParseError(OmnikernelError):
    """TTIR text that the reader does not understand."""


class VerifyError(OmnikernelError):
    """A pass or the reader made a kernel that breaks the op schema: a bug of ours."""


class UnresolvedSymbol(OmnikernelError):
    """Generated code calls a function that this host does not have: a bug of ours, found at compile time."""


class ArgumentTypeError(OmnikernelError, TypeError):
    """An argument of a kind or dtype that cannot be passed to the kernel."""


class ArgumentValueError(OmnikernelError, ValueError):
    """An argument of the right type that cannot be passed as it is, e.g. a read-only array in a written position."""


class OptionValueError(OmnikernelError, ValueError, AssertionError):
    """A launch option out of its range; an `AssertionError` too, because Triton's GPU backends raise that."""


class DeviceAssertionError(OmnikernelError, AssertionError, RuntimeError):
    """A `tl.device_assert` of the kernel failed; a `RuntimeError` too, because torch raises that for one on a GPU."""


class ShippedError(OmnikernelError):
    """Prebuilt code that a launch needs is not there, or cannot be used here."""


class ShippedWarning(RuntimeWarning):
    """Prebuilt code was not used, and a kernel is compiled instead."""


class CorruptArtefact(OmnikernelError):
    """A stored kernel that is damaged, truncated or of another format."""
