"""Kernels whose parts are compiled once.

Numba would make of a kernel that another one calls all that a call from Python needs: optimised code, machine code, and
two wrappers that take its arguments from Python. The caller takes in what was optimised and optimises it again, at each
level of calls: two thirds of the time of compiling `Links`. A part is left as it was lowered, and optimised once, in
the kernel that it ends in. So are functions of numba's own, such as `np.empty`.

Three more things cost time and are not needed. Arrays that a kernel is given, and views of them, need no owners: their
counts are a third of the code of a kernel that makes no array. A function that was asked what it makes of some types
answers the same the next time. And nobody calls kernels from C.

This needs names that numba does not promise. `jit` imports this module on versions on which it was tested, and a kernel
that fails to compile this way is compiled by numba alone, like all kernels after it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numba
from numba import types
from numba.core import codegen, registry, targetconfig
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering, NopythonRewrites

from armillary.collector import waiting

_logger = logging.getLogger("armillary.kernels")


class Kernel(registry.CPUDispatcher):
    """A kernel, which from Python is called and kept on disk, and from other kernels is a part of theirs."""

    _compiler: Any
    is_plain = False  # whether all kernels of the process are compiled by numba alone from now on

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=options, pipeline_class=_KernelCompiler)
        _customize(self._compiler, _kernel_flags)
        self.part = _Part(function, options)
        self._options = options

    @property
    def _numba_type_(self) -> Any:
        """What compiled code sees under the name of the kernel."""
        return types.Dispatcher(self if Kernel.is_plain else self.part)

    def compile(self, sig: Any) -> Any:
        """As numba asks for it."""
        with waiting():
            if Kernel.is_plain:
                return self._compile_plainly(sig)
            try:
                with _helped():
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


def _customize(compiler: Any, change: Any) -> None:
    """Have a compiler change its flags."""
    if not hasattr(compiler, "_customize_flags"):
        raise AttributeError("compilers of functions have no _customize_flags")
    compiler._customize_flags = change


class _Part(registry.CPUDispatcher):
    """A kernel as compiled code sees it."""

    _compiler: Any

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        super().__init__(function, targetoptions=options, pipeline_class=_KernelCompiler)
        _customize(self._compiler, _part_flags)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """One version for all numbers that stand in a call, where numba would make one for each of them."""
        plain = {name: types.unliteral(given) for name, given in kws.items()}
        return super().get_call_template(tuple(types.unliteral(given) for given in args), plain)


class _Flags(Flags):
    """Numba's options of a compilation, compared by those that are set: numba looks at all, 15,000 times in `Links`."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Flags) and self._shared() == other._shared())

    def __hash__(self) -> int:
        return hash(_Flags)  # they may still change, and few differ

    def _shared(self) -> dict[str, Any]:
        """What functions inside a kernel depend on: one version of them for kernels and parts."""
        return {name: value for name, value in self._values.items() if name != "no_cpython_wrapper"}


def _kernel_flags(flags: Flags) -> Any:
    changed: Any = _Flags(flags)
    changed.no_cfunc_wrapper = True
    return changed


def _part_flags(flags: Flags) -> Any:
    changed = _kernel_flags(flags)
    changed.no_cpython_wrapper = True
    return changed


# ---------------------------------------------------------------------------------------- what numba is lent meanwhile


@contextmanager
def _helped() -> Iterator[None]:
    """Numba makes libraries of code that can be parts, and remembers types, while this thread compiles."""
    target, typing = registry.cpu_target.target_context, registry.cpu_target.typing_context
    code = target.codegen()
    with global_compiler_lock:  # what is replaced is numba's own, not what another thread lent
        ours = {
            (target, "get_abi_sizeof"): cache(target.get_abi_sizeof),  # each answer is a program that LLVM reads
            (code, "_library_class"): _Library,
            (code, "set_env"): _for_those_with_code(code),
            (typing, "_resolve_user_function_type"): _remembering(typing),
        }
        for (owner, name), replacement in ours.items():
            setattr(owner, name, replacement)
        try:
            yield
        finally:
            for owner, name in ours:
                delattr(owner, name)  # its class has numba's


class _Library(codegen.JITCodeLibrary):
    """Code that is only linked into that of others, with what it calls itself, unless Python can call it."""

    _is_part = False

    def get_pointer_to_function(self, name: str) -> Any:
        """Asked for when all code is there: 0 for what Python cannot call."""
        if not self._finalized:
            self._is_part = all(function.name != name for function in self._final_module.functions)
        return super().get_pointer_to_function(name)

    def _optimize_final_module(self) -> None:
        if not self._is_part:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        """No machine code is made of a part."""
        if self._is_part:
            self._finalize_dynamic_globals()
            self._finalized = True
        else:
            super()._finalize_final_module()


_REPLACED = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals", "get_pointer_to_function")
if missing := [name for name in _REPLACED if not hasattr(codegen.JITCodeLibrary, name)]:
    raise AttributeError(f"libraries of code have no {missing[0]}")


def _for_those_with_code(code: Any) -> Any:
    """Numba's `set_env`, which takes it for granted that there is machine code."""
    known = code.set_env

    def set_env(name: str, env: Any) -> None:
        if code._engine.is_symbol_defined(name):
            known(name, env)

    return set_env


_answers: dict[Any, Any] = {}


def _remembering(typing: Any) -> Any:
    """Numba's answers to what a function makes of types; it would ask dozens of templates each time."""
    ask = typing._resolve_user_function_type

    def answer(function: Any, args: Any, kws: Any, literals: Any = None) -> Any:
        kind: Any = typing._lookup_global(function) or function
        flags = targetconfig.ConfigStack.top_or_none()
        is_of_numba = type(kind) is types.Function
        if kws or not is_of_numba or type(flags) is not _Flags:
            return ask(function, args, kws, literals)
        if (known := _answers.get((id(kind), args, flags))) is None:
            signature = ask(function, args, kws, literals)
            if signature is not None and signature.args in kind._impl_keys:
                known = kind, signature, kind._impl_keys[signature.args]  # with its kind: another may get its id
                _answers[id(kind), args, _Flags(flags)] = known
            return signature
        _, signature, kind._impl_keys[signature.args] = known
        return signature

    return answer


# ------------------------------------------------------------------------------------------------------------ passes


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """To code that counts owners of arrays only where arrays are made."""

    _name = "armillary_lowering"

    def run_pass(self, state: Any) -> bool:
        """As numba asks for it."""
        whole = state.targetctx
        if _is_borrowing(state):
            state.targetctx = whole.subtarget(enable_nrt=False)
            vars(state.targetctx).pop("nrt", None)
        try:
            return bool(super().run_pass(state))
        finally:
            state.targetctx = whole


def _is_borrowing(state: Any) -> bool:
    """Whether a kernel has no arrays but those it is given and views of them, and gives none back."""
    models = state.targetctx.data_model_manager
    if models[state.return_type].contains_nrt_meminfo():
        return False
    for block in state.func_ir.blocks.values():
        for made in block.find_exprs():
            if made.op in _CALLS:
                if models[state.calltypes[made].return_type].contains_nrt_meminfo():
                    return False
            elif made.op not in _VIEWS or (made.op == "getitem" and _is_list(state.typemap[made.index.name])):
                return False
    return True


# What makes no array, or one that a function returns; and what makes views at most.
_CALLS = {"binop", "call", "inplace_binop", "unary"}
_VIEWS = {
    "build_tuple",
    "cast",
    "exhaust_iter",
    "getattr",
    "getitem",
    "getiter",
    "iternext",
    "null",
    "pair_first",
    "pair_second",
    "phi",
    "static_getitem",
    "undef",
}


@register_pass(mutates_CFG=True, analysis_only=False)
class _Rewrites(NopythonRewrites):
    """Arithmetic of arrays as loops; most kernels have none."""

    _name = "armillary_rewrites"

    def run_pass(self, state: Any) -> bool:
        """As numba asks for it."""
        made = (one for block in state.func_ir.blocks.values() for one in block.find_exprs() if one.op in _CALLS)
        if not any(isinstance(state.calltypes[one].return_type, types.Array) for one in made):
            return False
        return bool(super().run_pass(state))


def _is_list(index: Any) -> bool:
    """Whether an index lists elements, so that they are copied."""
    every = tuple(index) if isinstance(index, types.BaseTuple) else (index,)  # type: ignore[arg-type]
    return any(isinstance(one, types.Array) for one in every)


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
        return {NativeLowering: _Lowering, NopythonRewrites: _Rewrites}.get(step, step), why
