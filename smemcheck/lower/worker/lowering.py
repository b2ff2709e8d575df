"""One job → one footprint: Triton's own stages up to the layout of shared memory, and the whole pipeline when asked.

The stop (measured equal to ``metadata.shared`` on every row of an H200's run, see ``tests/lower``): the backend's
``make_ttir`` and ``make_ttgir`` say which passes they want (:mod:`.passes`), then its ``make_llir`` up to the pass
``add_to_llvmir``, where :class:`_Stop` leaves. These passes are run. The module then carries the results as attributes
and the buffers as operations.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import binary, buffers, completion, registers, versions
from .frontend import Frontend, Reads, plain_text_of, pretend_device, text_of
from .passes import Beginnings, NotedOptions, Notes, Noting, StandIn, Step, UnnotedError, run
from .request import Request

_STAGES = "num_stages"
_MOST_KNOWN = 4096  # answers, some kilobytes each


class _Stop(BaseException):
    """Leaves ``make_llir``; not an ``Exception``, so that no handler in between takes it."""


class Wanted(NamedTuple):
    """What a job asks for beside shared memory: ``registers``, of kernels within ``limit`` bytes of shared memory alone.

    A kernel over the limit is never loaded. The way to the registers goes on from a module in the directory ``handover``.
    """

    registers: bool = False
    limit: Optional[int] = None
    handover: str = ""


class Lowering:
    """A job that has come through the frontend, and goes as far as it is asked to."""

    def __init__(self, request: Request, frontend: Frontend, beginnings: Beginnings) -> None:
        self.request = request
        self.printed = frontend.module(request, request.frontend_key)
        target, options = request.target, request.options
        self._family = versions.family(target.backend, target.arch, options.num_ctas, self.printed.text)
        self._told = request.options_on(self._family).__dict__
        self._beginnings = beginnings
        self._name = ("smemcheck",) if request.internals.runs_are_named else ()
        self.ttgir = ""
        self._module: Any = None
        self._left: List[Step] = []

    def work(self, *asked: Any) -> bytes:
        """A digest of all that the way to the layout depends on: the module, options, family of the target, what is ``asked``.

        ``num_stages`` is no part of it where there is no loop: the backends pass it to passes over ``scf.for`` only
        (triton/backends/nvidia/compiler.py and amd/compiler.py, 3.2 to 3.9).
        """
        return self._digest(self._begun(), "", self._stages_matter(), *asked)

    def _stages_matter(self) -> bool:
        return "scf.for" in self.printed.text or self.request.options.num_stages < 1

    def pipeline(self, common: str, *asked: Any) -> Optional[bytes]:
        """Go on until ``num_stages`` is not read any more; a digest of all that the rest of the work depends on, as above.

        A loop without loads that can be pipelined is the same for every number of stages. ``common`` is what other jobs
        have in common with this one: ``stages``, if they differ in their number alone, else ``ttir`` or nothing. Without
        others there is nothing to keep for them, and no digest.
        """
        request = self.request
        notes = Notes()
        stages = request.stages(NotedOptions(request.options, notes))
        stand_in = StandIn(self.printed.context, notes)
        with Noting(request.backend, request.target, notes):
            stages["ttir"](stand_in, {})
            ttir = len(notes.steps)
            stages["ttgir"](stand_in, {})
        shared, settled = notes.first_read(_STAGES), notes.last_read(_STAGES)
        is_common = common == "stages" and self._stages_matter()
        wanted = (ttir, shared) if is_common else (ttir,) if common else ()
        places = sorted({place for place in wanted if 0 < place < len(notes.steps)})
        self._module = self._beginnings.module(self.printed, notes, request.options, request.target, places, self._name)
        reached = places[-1] if places else 0
        if not is_common:
            self._left = notes.steps[reached:]
            return None
        run(self._module, notes.steps[reached:settled], self._name)
        self._left = notes.steps[max(reached, settled) :]
        text = plain_text_of(self._module)
        # Without locations, of which a parsed module lacks some, so those of the kernel's own text stand for them.
        return self._digest(self._begun(), text, self._reads_stages_late(text), repr(self._left), *asked)

    def finish(self, *, keep_ttgir: bool = False) -> Dict[str, Any]:
        """Run to the layout of shared memory; what it says. Sizes in bytes, tensor memory in columns.

        ``self.ttgir`` becomes the printed module as it was before that layout, if it is to be kept.
        """
        request, module = self.request, self._module
        run(module, self._left, self._name)
        text = plain_text_of(module)
        self.ttgir = text_of(module) if keep_ttgir else ""
        registers_at_least = _registers_at_least(request, text)
        code = self._digest(hashlib.blake2b(digest_size=20), text, self._reads_stages_late(text))
        _run_until_stop(request, module, self._name)
        prefix = request.internals.prefix
        shared = module.get_int_attr(f"{prefix}.shared")
        warps = module.get_int_attr(f"{prefix}.total-num-warps") or request.options.num_warps
        if request.internals.descriptor:
            warps = request.options.num_warps * (module.get_int_attr(f"{prefix}.num-warp-groups-per-cta") or 1)
        return {
            "shared_memory": shared or 0,
            "tensor_memory": module.get_int_attr(f"{prefix}.tensor_memory_size") or 0,
            "num_warps": warps,
            "threads": warps * request.warp_size,
            "buffers": buffers.read(text_of(module), shared or 0, request.internals.columns_start_at) if shared else [],
            "registers_at_least": registers_at_least,
            "code_digest": code.hex()[:16],
            "method": "allocation",
        }

    def _reads_stages_late(self, text: str) -> bool:
        """After TTGIR the number of stages is read by AMD's backend only (lower_instruction_sched_hints)."""
        return self.request.target.backend == "hip" and "scf.for" in text

    def _begun(self) -> Any:
        """A digest of what the frontend made, to be gone on with."""
        return self.printed.digest(*self._names())

    def _names(self) -> Tuple[str, str]:
        """The target as modules spell it, and what stands for it: targets of a family are lowered alike."""
        return f'"cuda:{self.request.target.arch}"', f'"cuda:{self._family}"'

    def _digest(self, begun: Any, text: str, stages_matter: bool, *asked: Any) -> bytes:
        """Of a module and of what the stages after it read."""
        items = sorted((name, item) for name, item in self._told.items() if stages_matter or name != _STAGES)
        begun.update(repr((items, self.request.target.backend, self._family, asked)).encode())
        begun.update(text.replace(*self._names()).encode())
        return bytes(begun.digest())


def allocate(request: Request, frontend: Frontend) -> Dict[str, Any]:
    """Run to the layout of shared memory and stop there. Sizes in bytes, tensor memory in columns."""
    lowering = Lowering(request, frontend, Beginnings())
    lowering.pipeline("")
    return lowering.finish()


def _registers_at_least(request: Request, text: str) -> Optional[int]:
    """A lower bound, which a text that is not understood must not cost the rest of the answer; of NVIDIA's targets alone."""
    if request.target.backend != "cuda":
        return None
    try:
        return registers.at_least(text)
    except Exception:  # noqa: BLE001 (a Triton that prints otherwise)
        return None


def _run_until_stop(request: Request, module: Any, name: Tuple[str, ...]) -> None:
    def stop(*_: Any) -> None:
        raise _Stop

    notes = Notes(frozenset(versions.BARRIER_PASSES if request.options.num_ctas == 1 else ()))
    metadata = {"target": request.target, **request.options.__dict__}
    make_llir = request.stages(request.options)["llir"]
    try:
        with Noting(request.backend, request.target, notes, {versions.STOP_BEFORE: stop}):
            make_llir(module, metadata)
    except _Stop:
        run(module, notes.steps, name)
        return
    raise RuntimeError(f"make_llir never asked for {versions.STOP_BEFORE}")


def compile_fully(request: Request) -> Dict[str, Any]:
    """``triton.compile``: what it reports, and registers and spills of the binary it made."""
    import triton

    if request.target.backend == "hip" and request.internals.links_elsewhere:
        # The assembly says all that is asked for, and a missing linker here says nothing about the user's machine.
        type(request.backend).make_hsaco = staticmethod(lambda *_: b"")
        type(request.backend).hash = lambda backend: str(backend.target)
    pretend_device(request.target, Reads())
    compiled = triton.compile(request.source, target=request.target, options=request.options.__dict__)
    metadata = compiled.metadata
    warps = metadata.num_warps
    answer = {
        "shared_memory": metadata.shared,
        "tensor_memory": getattr(metadata, "tmem_size", None) or 0,
        "num_warps": warps,
        "threads": warps * request.warp_size,
        "buffers": [],
        "method": "full",
    }
    answer.update(binary.resources(compiled.asm, request.target))
    return answer


class Lower:
    """Answers jobs one after the other. Work that was done for one job is not done again for another."""

    def __init__(self) -> None:
        self.frontend = Frontend()
        self._beginnings = Beginnings()
        self._kernel: Any = None
        self._known: Dict[bytes, Dict[str, Any]] = {}

    def __call__(self, request: Request, wanted: Wanted, method: str, common: str = "stages") -> Dict[str, Any]:
        """The answer to a job.

        ``method`` is what the check found to work on this target: ``allocation``, or ``full`` where the stop does not hold.
        ``common`` is what other jobs share with this one, see :meth:`Lowering.pipeline`.
        """
        if method == "full" or request.arguments.get("ir_override"):
            return compile_fully(request)
        if request.kernel is not self._kernel:
            self._kernel = request.kernel
            self._beginnings.forget()
        lowering = Lowering(request, self.frontend, self._beginnings)
        asked = (wanted, request.target if wanted.registers else None)
        work = lowering.work(*asked)
        if work not in self._known:
            try:
                rest = lowering.pipeline(common, *asked)
            except UnnotedError:
                return compile_fully(request)
            answer = self._known.get(rest) if rest is not None else None
            if answer is None:
                answer = _finish(lowering, wanted)
                if rest is not None:
                    self._keep(rest, answer)
            self._keep(work, answer)
        return self._known[work]

    def _keep(self, work: bytes, answer: Dict[str, Any]) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[work] = answer


def _finish(lowering: Lowering, wanted: Wanted) -> Dict[str, Any]:
    request = lowering.request
    answer = lowering.finish(keep_ttgir=wanted.registers)
    if request.options.num_ctas > 1 and answer["num_warps"] != request.options.num_warps:
        # Barriers between the specialised warps of a cluster get shared memory past the stop (3.8 and later).
        return compile_fully(request)
    if not wanted.registers or (wanted.limit is not None and answer["shared_memory"] > wanted.limit):
        return answer
    rest = f"{answer['code_digest']}.{request.target.arch}.ttgir"
    completion.lay_down(wanted.handover, rest, lowering.ttgir)
    return {**answer, "rest": rest, "cost": completion.cost(lowering.ttgir, answer["threads"])}


def complete(request: Request, text: str, allocated: Dict[str, Any]) -> Dict[str, Any]:
    """From the module that was laid down to the registers; what is ``allocated`` already is said by the binary once more."""
    answer = completion.complete(request, text)
    if any(answer[name] != allocated[name] for name in ("shared_memory", "tensor_memory", "num_warps")):
        return compile_fully(request)
    return answer
