"""Kernels whose parts are compiled once.

Numba would make of a kernel that another one calls all that a call from Python needs: optimised code, machine code, and
two wrappers that take its arguments from Python. The caller takes in what was optimised and optimises it again, at each
level of calls: two thirds of the time of compiling `Links`. A part is left as it was lowered, and optimised once, in
the kernel that it ends in.

This needs names that numba does not promise. `jit` imports this module on versions on which it was tested, and a kernel
that fails to compile this way is compiled by numba alone, like all kernels after it.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba import _dynfunc, types  # type: ignore[attr-defined]
from numba.core import codegen, registry
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

_logger = logging.getLogger("armillary.kernels")


class Kernel(registry.CPUDispatcher):
    """A kernel, which from Python is called and kept on disk, and from other kernels is a part of theirs."""

    _compiler: Any
    is_plain = False  # whether all kernels of the process are compiled by numba alone from now on

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=options, pipeline_class=_KernelCompiler)
        _customize(self._compiler, _Flags)
        self.part = _Part(function, options)
        self._options = options

    @property
    def _numba_type_(self) -> Any:
        """What compiled code sees under the name of the kernel."""
        return types.Dispatcher(self if Kernel.is_plain else self.part)

    def compile(self, sig: Any) -> Any:
        """As numba asks for it."""
        with _without_collector():
            if Kernel.is_plain:
                return self._compile_plainly(sig)
            try:
                return super().compile(sig)
            except Warning:  # of the cache, where warnings are errors
                raise
            except Exception as error:
                return self._compile_after(error, sig)

    def _compile_after(self, error: Exception, sig: Any) -> Any:
        """What numba alone makes of a kernel that failed: nothing, with its words, where the kernel is wrong."""
        Kernel.is_plain = True
        try:
            compiled = self._compile_plainly(sig)
        except BaseException:
            Kernel.is_plain = False
            raise
        why = f"{self.py_func.__name__} failed with {type(error).__name__}: {error}"
        _logger.debug("Kernels are compiled by numba alone from here on, which takes longer: %s", why)
        return compiled

    def _compile_plainly(self, sig: Any) -> Any:
        self._compiler = numba.jit(**self._options)(self.py_func)._compiler
        return super().compile(sig)


@contextmanager
def _without_collector() -> Iterator[None]:
    """The collector would look a dozen times at what stays: 5 to 15 % of a compilation."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _customize(compiler: Any, change: Any) -> None:
    """Have a compiler change its flags."""
    if not hasattr(compiler, "_customize_flags"):
        raise AttributeError("compilers of functions have no _customize_flags")
    compiler._customize_flags = change


class _Part(registry.CPUDispatcher):
    """A kernel as compiled code sees it."""

    _compiler: Any

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=options, pipeline_class=_PartCompiler)
        _customize(self._compiler, _part_flags)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """One version for all numbers that stand in a call, where numba would make one for each of them."""
        plain = {name: types.unliteral(given) for name, given in kws.items()}
        return super().get_call_template(tuple(types.unliteral(given) for given in args), plain)


class _Flags(Flags):
    """Numba's options of a compilation, compared by those that are set: numba looks at all, 15,000 times in `Links`."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Flags) and self._values == other._values)

    def __hash__(self) -> int:
        return hash(_Flags)  # they may still change, and few differ


def _part_flags(flags: Flags) -> Any:
    changed: Any = _Flags(flags)
    changed.no_cpython_wrapper = changed.no_cfunc_wrapper = changed.no_compile = True
    return changed


_REPLACED = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals")
if missing := [name for name in _REPLACED if not hasattr(codegen.JITCodeLibrary, name)]:
    raise AttributeError(f"libraries of code have no {missing[0]}")


class _PartLibrary(codegen.JITCodeLibrary):
    """Code that is only linked into that of others, with what it calls itself."""

    def _optimize_final_module(self) -> None:
        """It is optimised there."""

    def _finalize_final_module(self) -> None:
        """No machine code is made of it."""
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    """To code that compiled code calls, and Python cannot."""

    _name = "armillary_part_lowering"

    def run_pass(self, state: Any) -> bool:
        """As numba asks for it."""
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        super().run_pass(state)
        lowered = state["cr"]
        # the function is a name by which lowered calls find the library; it has no address to be called at
        named = (lowered.fndesc.lookup_module(), state.func_id.func_name, "", 0, lowered.env, (state.library,))
        function = _dynfunc.make_function(*named)
        state.targetctx.insert_user_function(function, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=function)
        return True


# Passes for what no kernel has (closures, `with`, messages made of variables), and notes on types for people. Each pass
# is followed by an analysis of the whole function.
_UNUSED_PASSES = {
    "AnnotateTypes",
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineInlinables",
    "InlineOverloads",
    "LiteralPropagationSubPipelinePass",
    "MakeFunctionToJitFunction",
    "RewriteDynamicRaises",
    "WithLifting",
}


class _KernelCompiler(CompilerBase):
    def define_pipelines(self) -> list[Any]:
        """Numba's, without what kernels do not use."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [self.replaced(*step) for step in passes.passes if step[0].__name__ not in _UNUSED_PASSES]
        passes._finalized = False
        passes.finalize()
        return [passes]

    def replaced(self, step: Any, why: str) -> tuple[Any, str]:
        """The pass to make in place of numba's."""
        return step, why


class _PartCompiler(_KernelCompiler):
    def replaced(self, step: Any, why: str) -> tuple[Any, str]:
        """Lowered to a part."""
        return (_PartLowering if step is NativeLowering else step), why
