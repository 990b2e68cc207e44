"""The operator: what `@omnikernel.op` makes of a function, and the bindings that handle its calls.

In: a function, `mutates`, `strided`, a gradient. Out: an `Operator`. A call is handled by the binding of its arrays'
library: JAX's if any argument is a JAX array, else torch's, else that of other libraries' arrays, else NumPy's.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..errors import ArgumentTypeError
from . import after_import, alias, launches, nested
from .arrays import Array, DType
from .launches import Checker, EagerRun, MutationError
from .schema import Param, Schema, SchemaError, each, read_schema
from .sharding import Dimensions, read_dimensions

Handler = Callable[[tuple[Any, ...], dict[str, Any]], Any]
OPERATORS: dict[str, Operator] = {}  # the registry: one operator a name


@dataclass(frozen=True, slots=True)
class Gradient:
    """How an operator is differentiated: what is saved, and the function from saved values and gradients to gradients."""

    backward: Callable[..., Any]
    save: Callable[..., Any] | None


@dataclass(frozen=True, slots=True)
class Reference:
    """What an operator means, as a function of arrays; results within `rtol` and `atol` are equal. None: by the dtype."""

    function: Callable[..., Any]
    rtol: float | None = None
    atol: float | None = None


class Operator:
    """One declaration, callable on the arrays of every library. Made by `omnikernel.op`."""

    def __init__(self, function: Callable[..., Any], schema: Schema) -> None:
        self.function = function
        self.schema = schema
        self.name = schema.name
        self.checker = Checker(schema)
        self.gradient: Gradient | None = None
        self.vmap_rule: Callable[..., Any] | None = None
        self.fake_rule: Callable[..., Any] | None = None
        self.sharding_rule: Callable[..., Any] | Dimensions | None = None
        self.jvp_rule: Callable[..., Any] | None = None
        self.reference: Reference | None = None
        self.example: Callable[[], Any] | None = None
        self._handlers: dict[type, Handler] = {}
        self._bindings: dict[str, Handler] = {}
        self._torch_binding: Any = None
        self._jax_functions: dict[Any, Any] = {}
        self._checked_writes = not self.checker.mutable
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<operator {self.name}{self.schema.torch()}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call on the arrays of any library; the result is of the same library."""
        handler = self._handlers.get(type(args[0])) if args else None
        if handler is None:
            handler = self._find(args, kwargs)
        return handler(args, kwargs)

    def __reduce__(self) -> str:
        """Pickled and copied like the function: by name, so that modules which hold an operator can be."""
        return self.function.__qualname__

    # ---- what a user adds ----

    def def_vjp(self, backward: Callable[..., Any], *, save: Callable[..., Any] | None = None) -> Operator:
        """Give the operator a derivative.

        Args:
            backward: called as `backward(saved, *grads)`: what `save` returned, and a gradient for every result (None
                where a result has none). Returns a gradient for every array parameter, in order: an array of its shape and
                dtype, or None; one alone need not be in a tuple. Written with operators or the library's own functions.
            save: called as `save(*parameters, *results)`; returns a tuple of what backward needs. Default: all of them.

        Returns:
            The operator.
        """
        self.gradient = Gradient(backward, save)
        self._refresh()
        return self

    def def_vmap(self, rule: Callable[..., Any]) -> Operator:
        """Give the operator a rule for `vmap`; without one, one call a slice (torch), or a grid axis more (JAX).

        Args:
            rule: called as `rule(size, batched, *parameters)`: `batched[i]` says whether parameter i has the new axis, then
                in front. Returns the results, each with the new axis in front.
        """
        self.vmap_rule = rule
        self._refresh()
        return self

    def def_fake(self, rule: Callable[..., Any]) -> Operator:
        """Replace the derived rule for shapes and dtypes: called like the operator, makes outputs by `omnikernel.empty`."""
        self.fake_rule = rule
        return self

    def def_jvp(self, rule: Callable[..., Any]) -> Operator:
        """Give the operator a forward derivative, for JAX: `rule(primals, tangents)` returns (results, result tangents)."""
        self.jvp_rule = rule
        self._refresh()
        return self

    def def_sharding(self, rule: Callable[..., Any] | str, *, whole: Sequence[str] | str = ()) -> Operator:
        """Say how arrays that are spread over devices go through the operator. Without a rule, inputs are replicated.

        Args:
            rule: names for the dimensions of the array parameters and the results, e.g. `"... n, n -> ... n"`: for DTensors
                and for JAX arrays under plain `jit`; along each name that all results have, a part of the inputs gives
                that part of the results. Or a function for DTensors alone, as
                `torch.distributed.tensor.experimental.register_sharding` takes it.
            whole: the names along which nothing may be split, as the row of a norm.

        Raises:
            SchemaError: names that do not fit the operator.
        """
        names = (whole,) if isinstance(whole, str) else tuple(whole)
        self.sharding_rule = read_dimensions(self.schema, rule, names) if isinstance(rule, str) else rule
        self._refresh()
        return self

    def def_reference(
        self, function: Callable[..., Any], *, rtol: float | None = None, atol: float | None = None
    ) -> Operator:
        """Name the function that says what the operator means; `omnikernel worth` compares the two.

        Args:
            function: called like the operator, gives the same results (and writes the same arguments in place), by the
                array functions of torch, or of the caller's library (`omnikernel.namespace`).
            rtol, atol: the tolerance within which results are equal; None: one that suits the dtype.
        """
        self.reference = Reference(function, rtol, atol)
        return self

    def def_example(self, maker: Callable[[], Any]) -> Operator:
        """Name a function that makes arguments of a usual size: a tuple, a dict by name, or one array alone.

        Arrays may be of any library; `omnikernel worth` moves them to the device that it measures on.
        """
        self.example = maker
        return self

    @property
    def torch(self) -> Any:
        """The dispatcher entry, `torch.ops.namespace.name.default`; imports torch."""
        self._bind("torch")
        return self._torch_binding.overload

    # ---- calls ----

    def mixed(self, bound: Sequence[Any]) -> str:
        """The library that handles a call with these arguments.

        Raises:
            ArgumentTypeError: torch tensors and JAX arrays in one call.
        """
        found: dict[str, str] = {}
        for index in self.schema.arrays:
            value = bound[index]
            for item in each(value):
                library = library_of(item)
                if library:
                    found.setdefault(library, self.schema.params[index].name)
        if "jax" in found and "torch" in found:
            raise ArgumentTypeError(
                f"operator {self.name}: argument {found['jax']!r} is a JAX array and {found['torch']!r} a torch tensor; "
                f"convert one of them first"
            )
        return next((library for library in ("array", "jax", "torch", "protocol") if library in found), "numpy")

    def dispatch(self, bound: Sequence[Any], out: Any = None) -> Any:
        """Call on bound arguments, by the binding of their arrays' library."""
        library = self.mixed(bound)
        if library == "array":
            return nested.run_inside(self, bound)
        module = importlib.import_module(f"{__package__}.{library}")
        self._bind(library)
        return module.run_on(self, bound, out)

    def scalar(self, param: Param, value: Any) -> Any:
        """An argument that is no array, as the function of the operator gets it.

        Raises:
            ArgumentTypeError: of another kind than declared.
        """
        return convert(self.name, param, value)

    def items(self, param: Param, value: Any) -> Sequence[Any]:
        """The arrays of a list of arrays.

        Raises:
            ArgumentTypeError: it is no list.
        """
        if not isinstance(value, (tuple, list)):
            got = repr(value) if value is None else f"a {type(value).__qualname__}"
            raise ArgumentTypeError(
                f"operator {self.name}, argument {param.name!r}: expected a list of arrays, got {got}"
            )
        return value

    def check_wrote(self, run: EagerRun) -> None:
        """After the first call with launches: everything declared as mutated was written by some kernel.

        Raises:
            MutationError: it was not.
        """
        if self._checked_writes or not run.launched:
            return
        idle = [self.schema.params[i].name for i in sorted(self.checker.mutable - run.wrote)]
        if idle:
            raise MutationError(
                f"operator {self.name}: declared mutates={tuple(idle)!r}, but no kernel that it launched stores through "
                f"{', '.join(map(repr, idle))}; remove the name from mutates"
            )
        self._checked_writes = True

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handler:
        """The handler of a call whose first argument is of a type not seen yet."""
        if self._torch_binding is not None and self._torch_binding.tracing():
            return self._bindings["torch"]  # what Dynamo traces is a tensor or becomes one
        names = {param.name for param in self.schema.params}
        bound = self.schema.bind(args, {k: v for k, v in kwargs.items() if k != "out" or "out" in names})
        library = self.mixed(bound)
        if library == "array":
            return lambda a, k: nested.run_inside(self, self.schema.bind(a, k))
        handler = self._bind(library)
        if args and library_of(args[0]) == library:
            self._handlers[type(args[0])] = handler
        return handler

    def _bind(self, library: str) -> Handler:
        found = self._bindings.get(library)
        if found is None:
            module = importlib.import_module(f"{__package__}.{library}")
            found = self._bindings[library] = module.bind(self)
        return found

    def bind_torch(self) -> None:
        """Make the dispatcher's entry now; called when torch is or becomes loaded."""
        if OPERATORS.get(self.name) is not self:  # declared again before torch was there
            return
        handler = self._bind("torch")
        torch = sys.modules["torch"]
        self._handlers[torch.Tensor] = self._handlers[torch.nn.Parameter] = handler

    def forget(self) -> None:
        """Take the operator out of torch's dispatcher, to make room for another of its name."""
        if self._torch_binding is not None:
            self._torch_binding.lib._destroy()

    def _refresh(self) -> None:
        """Bindings read the rules when they are made; after a change they are made again where it matters."""
        if self._torch_binding is not None:
            self._torch_binding.refresh()
        self._bindings.pop("jax", None)
        self._handlers = {t: h for t, h in self._handlers.items() if library_of_type(t) != "jax"}


_PROTOCOLS = ("__array_namespace__", "__dlpack_device__", "__cuda_array_interface__")


@functools.cache
def library_of_type(kind: Any) -> str:
    """The library of an array type: numpy, torch, jax, array (inside an operator's function), protocol (another's), or ""."""
    for base in kind.__mro__:
        root: str = base.__module__.partition(".")[0]
        if root in ("numpy", "torch", "jax", "jaxlib"):
            return "jax" if root == "jaxlib" else root
        if base is Array:
            return "array"
    return "protocol" if any(hasattr(kind, name) for name in _PROTOCOLS) else ""


def library_of(value: Any) -> str:
    """The library of an array; "" for what is no array."""
    import numpy as np

    kind = library_of_type(value.__class__)
    if kind == "numpy":
        return "numpy" if isinstance(value, np.ndarray) else ""
    if kind == "torch":
        return "torch" if isinstance(value, sys.modules["torch"].Tensor) else ""
    return kind


_NUMBERS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}


def convert(name: str, param: Param, value: Any) -> Any:
    """A scalar argument as declared; numbers of NumPy become Python's, symbolic sizes stay.

    Raises:
        ArgumentTypeError: of another kind.
    """
    kind = param.kind
    if value is None and (kind.optional or param.default is None):
        return None
    if kind.base == "dtype":
        try:
            return DType(value)
        except TypeError:
            raise ArgumentTypeError(
                f"operator {name}, argument {param.name!r}: expected a dtype or its name, got {value!r}"
            ) from None
    if kind.many:
        if not isinstance(value, (tuple, list)):
            raise ArgumentTypeError(
                f"operator {name}, argument {param.name!r}: expected a list of {kind.base}, got {value!r}"
            )
        return tuple(_number(name, param, item) for item in value)
    return _number(name, param, value)


def _number(name: str, param: Param, given: Any) -> Any:
    value: Any = given
    base = param.kind.base
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if type(value).__name__ in ("SymInt", "SymFloat", "SymBool"):
        return value
    accepted = _NUMBERS[base]
    if not isinstance(value, accepted) or (isinstance(value, bool) and base != "bool"):
        described = (
            repr(value) if isinstance(value, (bool, int, float, str, type(None))) else f"a {type(value).__qualname__}"
        )
        advice = ""
        if library_of_type(given.__class__) == "jax":
            advice = "; numbers are compiled into the program: pass a Python number, or declare the parameter an Array"
        raise ArgumentTypeError(f"operator {name}, argument {param.name!r}: expected {base}, got {described}{advice}")
    return float(cast(float, value)) if base == "float" else value


def op(
    name: str,
    *,
    mutates: Sequence[str] | str = (),
    strided: Sequence[str] | str = (),
    reference: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Operator]:
    """Declare an operator: the decorated function allocates its results and launches kernels.

    Args:
        name: `namespace::name`; in torch it is `torch.ops.namespace.name`.
        mutates: the array parameters that the kernels write in place. Checked against the kernels' own stores.
        strided: the array parameters that are passed as views, with `x.stride(i)`; all others come dense (row-major).
        reference: what the operator means; see `Operator.def_reference`.

    Returns:
        A decorator that gives an `Operator`.

    Raises:
        SchemaError: what the annotations say cannot be a schema, or the name is taken.
        AliasError: the function returns one of its inputs, or a view of it.
    """
    mutated = (mutates,) if isinstance(mutates, str) else tuple(mutates)
    views = (strided,) if isinstance(strided, str) else tuple(strided)

    def decorate(function: Callable[..., Any]) -> Operator:
        schema = read_schema(function, name, mutated, views)
        other = OPERATORS.get(name)
        if other is not None and (other.function.__module__, other.function.__qualname__) != (
            function.__module__,
            function.__qualname__,
        ):
            raise SchemaError(
                f"operator {name} is already declared, in {other.function.__module__}; choose another name"
            )
        after_import.when_loaded("triton", launches.install)  # not needed before, nor where all kernels are shipped
        alias.check(function, schema)
        if other is not None:  # declared again, e.g. in a notebook
            other.forget()
        made = OPERATORS[name] = Operator(function, schema)
        if reference is not None:
            made.def_reference(reference)
        after_import.when_loaded("torch", made.bind_torch)
        return made

    return decorate
