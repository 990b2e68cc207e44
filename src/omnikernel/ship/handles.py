"""`omnikernel.shipped`: the kernels of a module, prebuilt where they are, without importing the module.

In: the name of a module that holds Triton kernels. Out: the module itself where nothing was built for it (a checkout), else a
`ShippedModule`, whose kernels are launched, used in operators and passed to JAX like any. A launch that no prebuilt form fits
is compiled by Triton, with one warning that says why; without Triton it is an error that says what there is.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import config
from ..artefact import Artefact
from ..artefact import Parameter as Slot
from ..errors import ArgumentTypeError, CorruptArtefact, ShippedError, ShippedWarning
from ..ops.arrays import state
from ..runtime.arrays import Where, view_at
from ..runtime.cache import type_of
from ..runtime.launch import Executable, Variant
from ..runtime.prepare import OrdinaryLaunch, checked_grid
from . import fit, gpu, levels
from .objects import address_of
from .package import FOLDER, MANIFEST, Shipped, Unfit, read
from .quick import Quick


def shipped(name: str, package: str | None = None) -> Any:
    """The kernels of a module, prebuilt where they are.

    Args:
        name: the module, as for `importlib.import_module`: `"mypackage.kernels"`, or `".kernels"` with `package=__package__`.
        package: what a relative name is relative to.

    Returns:
        The module itself where its package holds nothing prebuilt for it, as in a checkout, or where `OMNIKERNEL_SHIPPED` is
        `none`; else a stand-in with the same kernels, and the module behind it for everything else.

    Raises:
        ShippedError: what is prebuilt is of another version of omnikernel, and Triton is not there to compile the kernels.
        CorruptArtefact: the manifest was altered.
    """
    full = importlib.util.resolve_name(name, package)
    if config.shipped() == config.SHIPPED_NONE:
        return importlib.import_module(full)
    folder = _folder(full)
    if folder is None:
        return importlib.import_module(full)
    try:
        found = read(folder)
    except Unfit as error:
        if not _triton():
            raise Unfit(f"{error}. {_NO_TRITON}") from None
        warnings.warn(f"{error}. Its kernels are compiled when they are needed", ShippedWarning, stacklevel=2)
        return importlib.import_module(full)
    return ShippedModule(full, found) if found.kernels(full) else importlib.import_module(full)


_NO_TRITON = "To compile kernels here, install what that needs: pip install triton llvmlite"


def _triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _folder(module: str) -> Path | None:
    """The prebuilt files of the innermost package around a module."""
    parent = module.rpartition(".")[0]
    while parent:
        spec = importlib.util.find_spec(parent)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            if (Path(place) / FOLDER / MANIFEST).is_file():
                return Path(place) / FOLDER
        parent = parent.rpartition(".")[0]
    return None


class ShippedModule:
    """A module whose kernels are prebuilt. It is imported only when something else of it is asked for."""

    def __init__(self, name: str, package: Shipped) -> None:
        self.__name__ = name
        self._package = package
        self._kernels = {kernel: ShippedKernel(kernel, name, package) for kernel in package.kernels(name)}

    def __getattr__(self, name: str) -> Any:
        kernels = self.__dict__.get("_kernels", {})
        if name in kernels:
            return kernels[name]
        if name.startswith("__"):
            raise AttributeError(f"module {self.__dict__.get('__name__')!r} has no attribute {name!r}")
        return getattr(self._module(name), name)

    def _module(self, wanted: str) -> Any:
        if not _triton():
            raise ShippedError(
                f"module {self.__name__!r} was shipped with the kernels {', '.join(self._kernels)}; for {wanted!r} the module "
                f"itself must be imported, which needs Triton. {_NO_TRITON}"
            )
        return importlib.import_module(self.__name__)

    def __dir__(self) -> list[str]:
        return sorted(self._kernels)

    def __repr__(self) -> str:
        return f"<prebuilt kernels of {self.__name__!r}: {', '.join(self._kernels)}>"


@dataclass(frozen=True, slots=True)
class Launched:
    """What a launch ran, for operators: position and name of the parameters that it writes."""

    written_positions: tuple[tuple[int, str], ...]


class ShippedKernel:
    """A prebuilt Triton kernel: `kernel[grid](...)`, with the arguments that the kernel takes."""

    def __init__(self, name: str, module: str, package: Shipped) -> None:
        self.__name__ = name
        self.__module__ = module
        self._package = package
        entry = package.kernels(module)[name]
        self._parameters = fit.read_parameters(entry)
        self.arg_names = [parameter.name for parameter in self._parameters]
        forms = [fit.read_form(index, about, self._parameters) for index, about in enumerate(entry["forms"])]
        self._forms = sorted(forms, key=lambda form: -form.strength)  # stable: equals as declared
        self._exact = frozenset(name for form in forms for name in form.constants)
        self._chosen: dict[Any, _Choice] = {}
        self._executables: dict[int, Prebuilt] = {}
        self._quick = Quick(self._parameters, self._exact)
        self._modules = gpu.Modules(package)
        self._said: set[str] = set()

    def __repr__(self) -> str:
        return f"<prebuilt kernel {self.__module__}:{self.__name__}>"

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        run = state.run
        if run is not None:
            return lambda *args, **kwargs: run.launch(self, grid, args, kwargs)
        quick = self._quick.launch

        def launch(*args: Any, **kwargs: Any) -> Any:
            launched = quick(grid, args, kwargs)
            return self._launch(grid, args, kwargs) if launched is None else launched

        return launch

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch the form that fits, or compile one.

        Raises:
            ArgumentTypeError, ArgumentValueError: an argument that no kernel can take.
            ShippedError: nothing prebuilt fits, and Triton is not there.
            CorruptArtefact: the file that fits was altered.
        """
        if warmup:
            return self.warmup(*args, grid=grid, **kwargs)
        launched = self._quick.launch(grid, args, kwargs)
        return self._launch(grid, args, kwargs) if launched is None else launched

    def _launch(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = self._bind(args, kwargs)
        device = gpu.device(call.values.values())
        arguments = self._look(call, device)
        choice = self._choose(call, arguments, device)
        form = choice.form
        if form is None:
            return self._compiled(choice.reason).run(*args, grid=grid, warmup=False, **kwargs)
        extents = _extents(grid, {**form.constants, **call.values})
        if device is not None:
            stream = gpu.current_stream(list(call.values.values()), device)
            passed = [arguments[name] for name in choice.runtime]
            self._modules.launch(self.__name__, form, choice.code, extents, passed, stream, device)
        else:
            values = [call.values[name] for name in choice.runtime]
            executable = self._executable(form, choice.code)
            executable.run(extents, values)
            self._quick.remember(args, kwargs, choice.launched, executable, choice.runtime)
        return choice.launched

    def warmup(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """What a launch would run; nothing is launched."""
        call = self._bind(args, kwargs)
        device = gpu.device(call.values.values())
        choice = self._choose(call, self._look(call, device), device)
        if choice.form is None:
            return self._compiled(choice.reason).warmup(*args, grid=grid, **kwargs)
        return choice.launched

    def for_tracing(
        self, call: Call, grid: Any, look: fit.Look
    ) -> tuple[Prebuilt, tuple[int, int, int], tuple[str, ...]] | None:
        """For JAX: the code for the CPU, the grid, the parameters that are passed; None where no form fits."""
        choice = self._search(call, self._seen(call, look), None)
        if choice.form is None:
            return None
        x, y, z = (*_extents(grid, {**choice.form.constants, **call.values}), 1, 1)[:3]
        return self._executable(choice.form, choice.code), (int(x), int(y), int(z)), choice.runtime

    def compile_for(self, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any) -> Any:
        """The kernel for arrays of these shapes and dtypes, as `omnikernel.ops.traced.compile_for` gives it."""
        from ..ops import traced as triton_kernels
        from . import traced

        call = self._bind(args, kwargs)
        found = traced.compile_for(self, call, grid)
        if found is not None:
            return found
        kernel = self._compiled(self._search(call, self._seen(call, traced.look), None).reason)
        return triton_kernels.compile_for(kernel, args, kwargs, grid)

    def prepare(self, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """For `omnikernel.prepare`: a launch that skips all that can be."""
        call = self._bind(args, kwargs)
        given = {
            name: value for name, value in call.values.items() if name in kwargs or name in self.arg_names[: len(args)]
        }
        constant = {parameter.name for parameter in self._parameters if parameter.constant}
        ordinary = OrdinaryLaunch(
            self,
            checked_grid(self, grid),
            {name: value for name, value in given.items() if name not in constant},
            {name: value for name, value in given.items() if name in constant},
            call.options,
        )
        device = gpu.device(call.values.values())
        choice = self._choose(call, self._look(call, device), device)
        if choice.form is None:
            self._compiled(choice.reason)
        # Where a form has a plain parameter as a constant, its value decides, which C does not look at.
        if choice.form is None or device is not None or self._exact - constant:
            return ordinary
        executable = self._executable(choice.form, choice.code)
        values = [call.values[name] for name in choice.runtime]
        executable.variant(executable.is_disjoint(*executable.encode(values)))
        defaults = {**choice.form.constants, **{n: v for n, v in call.values.items() if n not in given}}
        return self._quick.prepare(ordinary, defaults, choice.launched, executable, choice.runtime) or ordinary

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        names = self.arg_names
        if len(args) > len(names):
            raise ArgumentTypeError(
                f"kernel {self.__name__!r}: expected at most {len(names)} arguments ({', '.join(names)}), got {len(args)}"
            )
        values = dict(zip(names, args, strict=False))
        options: dict[str, Any] = {}
        for name, value in kwargs.items():
            if name in values:
                raise ArgumentTypeError(f"kernel {self.__name__!r}: parameter {name!r} is given twice")
            (values if name in names else options)[name] = value
        values.update((p.name, p.default[0]) for p in self._parameters if p.default and p.name not in values)
        missing = [p.name for p in self._parameters if not p.constant and p.name not in values]
        if missing:
            raise ArgumentTypeError(f"kernel {self.__name__!r}: no value for {', '.join(missing)}")
        return Call(values, options)

    def _look(self, call: Call, device: int | None) -> dict[str, fit.Argument]:
        return self._seen(call, view_at if device is None else gpu.look(device))

    def _seen(self, call: Call, look: fit.Look) -> dict[str, fit.Argument]:
        return {name: fit.seen(value, Where(self.__name__, name), look) for name, value in call.values.items()}

    def _choose(self, call: Call, arguments: Mapping[str, fit.Argument], device: int | None) -> _Choice:
        """The form for these arguments, remembered by all that decides it."""
        seen = tuple([(name, argument.key(name in self._exact)) for name, argument in arguments.items()])
        key = (device, config.reference(), seen, tuple(call.options.items()))
        found = self._chosen.get(key)
        if found is None:
            found = self._chosen[key] = self._search(call, arguments, device)
        return found

    def _search(self, call: Call, arguments: Mapping[str, fit.Argument], device: int | None) -> _Choice:
        stale = self._stale()
        if stale is not None:
            return _Choice(None, {}, (), Launched(()), stale)
        reasons = []
        for form in self._forms:
            code = self._code(form, device)
            if not code:
                continue
            reason = form.misfit(
                arguments, call.options, self._parameters, code["options"] if device is not None else None
            )
            if reason is None:
                return self._choice(form, code)
            reasons.append(reason)
        if not reasons:
            return _Choice(None, {}, (), Launched(()), f"nothing was built for {self._where(device)}")
        # Of several reasons that of the form which came farthest down the parameters is the one to tell.
        order = {name: i for i, name in enumerate(self.arg_names)}
        farthest = max(reasons, key=lambda text: order.get(text.partition(":")[0], len(order)))
        return _Choice(None, {}, (), Launched(()), farthest)

    def _choice(self, form: fit.Form, code: Mapping[str, Any]) -> _Choice:
        runtime = tuple(name for name, (_, hint) in form.types.items() if hint != 1)
        written = {name for name, _, _, writes in form.about["slots"] if writes}
        positions = tuple((i, name) for i, name in enumerate(self.arg_names) if name in written)
        return _Choice(form, code, runtime, Launched(positions), "")

    def _code(self, form: fit.Form, device: int | None) -> Mapping[str, Any]:
        """What was built of a form for this processor, or for a GPU; empty where nothing was."""
        if device is not None:
            return gpu.code_for(form.about["gpu"], device)
        built: Mapping[str, Mapping[str, Any]] = form.about["cpu"]
        return next((built[level] for level in levels.usable() if level in built), {})

    @functools.cached_property
    def _source(self) -> str | None:
        spec = importlib.util.find_spec(self.__module__)
        return self._package.source_changed(self.__module__, spec.origin if spec is not None else None)

    def _stale(self) -> str | None:
        return "OMNIKERNEL_REFERENCE is set" if config.reference() else self._source

    @staticmethod
    def _where(device: int | None) -> str:
        if device is not None:
            return f"a GPU of compute capability {gpu.capability_text(device)}"
        return f"this processor ({', '.join(levels.usable()) or 'no level is known'})"

    def _executable(self, form: fit.Form, code: Mapping[str, Any]) -> Prebuilt:
        found = self._executables.get(form.index)
        if found is None:
            found = self._executables[form.index] = Prebuilt(self.__name__, form, code, self._package)
        return found

    def _text(self, reason: str) -> str:
        forms = dict.fromkeys(form.text for form in self._forms)
        shown = ", ".join(list(forms)[:8]) + (f" and {len(forms) - 8} more" if len(forms) > 8 else "")
        built = dict.fromkeys(name for form in self._forms for name in (*form.about["cpu"], *form.about["gpu"]))
        return (
            f"kernel {self.__name__!r} of package {self._package.package!r}: no prebuilt code fits this launch: {reason}. "
            f"Shipped: {shown}, for {', '.join(built)}"
        )

    def _compiled(self, reason: str) -> Any:
        """The kernel as its module has it, to be compiled; says so the first time."""
        if not _triton():
            raise ShippedError(f"{self._text(reason)}. Launch it with what was shipped. {_NO_TRITON}")
        what = reason.partition(", got ")[0]  # another value of the same kind is no news
        if what not in self._said:
            self._said.add(what)
            warnings.warn(f"{self._text(reason)}. It is compiled instead", ShippedWarning, stacklevel=5)
        return getattr(importlib.import_module(self.__module__), self.__name__)


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a launch by parameter, in the order given, defaults last; and its options."""

    values: dict[str, Any]
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Choice:
    """What was found for a launch; without a form, the reason."""

    form: fit.Form | None
    code: Mapping[str, Any]
    runtime: tuple[str, ...]
    launched: Launched
    reason: str


def _extents(grid: Any, given: dict[str, Any]) -> Sequence[int]:
    found = grid(given) if callable(grid) else grid
    return (found,) if hasattr(found, "__index__") and not hasattr(found, "__len__") else tuple(found)


class Prebuilt(Executable):
    """A kernel whose code lies in a shared object."""

    def __init__(self, name: str, form: fit.Form, code: Mapping[str, Any], package: Shipped) -> None:
        self._code = code
        self._package = package
        slots = tuple(Slot(n, type_of(text), reads, writes) for n, text, reads, writes in form.about["slots"])
        super().__init__(_artefact(name, slots, code["disjoint"]))
        self.prints = bool(code["prints"])
        # What the code is, for JAX's programs, which do not carry it.
        self.identity = f"{package.package} {code['file']} {code['disjoint']['symbol']} {code['disjoint']['key']}"

    def _load(self, disjoint: bool) -> Variant:
        entry = self._code["disjoint" if disjoint else "any"]
        try:
            address, library = address_of(self._package, self._code["file"], entry["symbol"])
        except OSError as error:
            raise CorruptArtefact(
                f"kernel {self.name!r}: {self._package.folder / self._code['file']} cannot be loaded: {error}"
            ) from error
        return Variant(address, _artefact(self.name, self.artefact.parameters, entry), library)


def _artefact(name: str, slots: tuple[Slot, ...], entry: Mapping[str, Any]) -> Artefact:
    return Artefact(
        name=name,
        object=b"",
        parameters=slots,
        arena_bytes=entry["arena_bytes"],
        asserts=tuple(entry["asserts"]),
        cost=entry["cost"],
        in_order=entry.get("in_order", True),  # packages made earlier do not say
    )
