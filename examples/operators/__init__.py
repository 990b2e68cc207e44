"""Six operators with derivatives, for NumPy, PyTorch and JAX: a package to copy.

    from operators import gelu
    gelu(x)                      # x: a NumPy array, a torch tensor or a JAX array

Every file holds the kernels, the declaration and the derivative of one operator.
"""

from .attention import attention
from .cross_entropy import cross_entropy
from .gelu import gelu
from .layer_norm import layer_norm
from .rms_norm import rms_norm
from .softmax import softmax

__all__ = ["attention", "cross_entropy", "gelu", "layer_norm", "rms_norm", "softmax"]
