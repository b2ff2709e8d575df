"""Kernels without an autotuner as sites of their own: their configs are the options that their launches give."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from smemcheck.config import Settings
from smemcheck.errors import defect
from smemcheck.model import Position, Problem, Site, Target, Unknown
from smemcheck.source.analysis import Analysis
from smemcheck.source.discovery import python_files
from smemcheck.source.freeze import posix
from smemcheck.source.module import Module, Statement
from smemcheck.source.plain import Definition, kernel_site
from smemcheck.specialize.launches.configs import config_of, on_target
from smemcheck.specialize.launches.explorations import Recorded
from smemcheck.specialize.launches.noted import Kernel
from smemcheck.specialize.launches.texts import modules_that_may_launch

if TYPE_CHECKING:
    from smemcheck.specialize.launches.entries import Callers
    from smemcheck.specialize.launches.search import Launches

_JIT = re.compile(r"@[\w.]*jit\b")


def launches_of(project: Analysis, root: str, settings: Settings, target: str | None = None) -> Launches:
    """What the launches under a scanned path say on a target (the first one, unless it is given), found once."""
    targets = list(project.evaluators)
    found: dict[str, Launches] = project.launches.setdefault(root, {})
    name = target or targets[0]
    if name not in found:
        from smemcheck.specialize.launches.search import Launches  # most runs after one change look for none

        other = found.get(targets[0])
        found[name] = Launches(project, name, root, settings.exclude, settings.respect_gitignore, other)
    return found[name]


def callers_of(project: Analysis, root: str, settings: Settings) -> list[Callers]:
    """Who calls whom under a scanned path; none where nobody had to ask, since an earlier run's launches hold."""
    if project.notes is not None and project.notes.earlier and root not in project.launches:
        return []
    return [launches_of(project, root, settings).callers]


def forget_launches(project: Any) -> None:
    """Release what example runs launched, once every site has its specialisations: it is most of what a run holds."""
    for found in project.launches.values() if isinstance(project, Analysis) else ():
        for launches in found.values():
            launches.forget()
    if isinstance(project, Analysis) and project.notes is not None:
        project.notes.forget()


def launches_by_target(
    project: Analysis, root: str, settings: Settings, path: str, name: str, line: int
) -> dict[str, list[Recorded]]:
    """The launches of a kernel on each target. Code that asks nothing about the device is run for the first one only.

    Where it leads to no launch on a target (it raises, because the device is too old), the launches of another stand for it.
    """
    kernel = Kernel(root, path, name, line)
    is_listed = any((path, line) in one.listed for one in project.launches.get(root, {}).values())
    if project.notes is not None:
        known: dict[str, list[Recorded]] | None = project.notes.launches(kernel, is_listed)
        if known is not None:
            return known
    first, *others = project.evaluators
    launches = launches_of(project, root, settings, first)
    recorded = launches.of(path, name, line)
    depends = any(one.launch.consulted_target for one in recorded) or (not recorded and launches.consulted_target)
    found = {first: recorded}
    for target in others:
        found[target] = launches_of(project, root, settings, target).of(path, name, line) if depends else recorded
    some = next((one for one in found.values() if one), [])
    found = {target: one or some for target, one in found.items()}
    if project.notes is not None:
        project.notes.note_launches(kernel, is_listed, found)
    return found


def launch_sites(
    project: Analysis,
    roots: Sequence[str],
    targets: Sequence[Target],
    settings: Settings,
    known: Sequence[Site],
    kept: Collection[str] = (),
) -> Iterator[Site | Problem]:
    """Every kernel that is launched and that no autotuner is put around. ``known`` are the autotuned ones.

    A defect of ours costs one of them, and is a problem of the report. ``kept`` are files whose sites are known from an earlier run: theirs are left out.
    """
    seen = {(site.position.path, site.position.line) for site in known}
    for root in dict.fromkeys(roots):
        paths = (path for path in python_files(root, settings.exclude, settings.respect_gitignore) if path not in kept)
        for module in modules_that_may_launch(project, paths):
            for statement in module.statements:
                key = (posix(module.path), statement.definition_line)
                if key in seen:
                    continue
                try:
                    if not _is_plain_kernel(project, root, settings, module, statement):
                        continue
                    seen.add(key)
                    site = _site(project, settings, root, targets, module, statement)
                except Exception as error:  # noqa: BLE001 - whatever it is, the other kernels' results must not be lost
                    yield Problem(defect(error), Position(*key))
                    continue
                if site is not None:
                    yield site


def configured(project: Analysis, settings: Settings, sites: Sequence[Site]) -> tuple[Site, ...]:
    """The sites; those whose list of configs is not known where it is written get the lists that their launches are made with."""
    for site in sites:
        if _is_unlisted(site):
            launches_of(project, site.root, settings).listed.add((site.position.path, site.position.line))
    return tuple(_guarded(project, settings, site) if _is_unlisted(site) else site for site in sites)


def _is_unlisted(site: Site) -> bool:
    return bool(site.answers) and all(isinstance(answer.configs, Unknown) for answer in site.answers.values())


def _guarded(project: Analysis, settings: Settings, site: Site) -> Site:
    try:
        return _configured(project, settings, site)
    except Exception as error:  # noqa: BLE001 - as above
        unknown = Unknown(defect(error), site.position)
        return replace(site, answers={name: replace(one, configs=unknown) for name, one in site.answers.items()})


def _configured(project: Analysis, settings: Settings, site: Site) -> Site:
    by_target = launches_by_target(
        project, site.root, settings, site.position.path, site.kernel_name, site.position.line
    )
    answers = dict(site.answers)
    for target, recorded in by_target.items():
        lists = [one.launch.configs for one in recorded if one.launch.configs]
        if lists and target in answers:
            union = tuple(dict.fromkeys(config for configs in lists for config in configs))
            note = f"its configs are those of {len(recorded)} example launches"
            answers[target] = replace(answers[target], configs=union, notes=(*answers[target].notes, note))
    return replace(site, answers=answers)


def _is_plain_kernel(project: Analysis, root: str, settings: Settings, module: Module, statement: Statement) -> bool:
    if statement.kind != "def" or not _JIT.search(statement.decorator_text) or statement.is_tuned:
        return False
    kernel = Kernel(root, posix(module.path), statement.defined_name or "", statement.definition_line)
    known: bool | None = project.notes.is_plain(kernel) if project.notes is not None else None
    if known is None:
        launch = re.compile(rf"\b{re.escape(kernel.name)}\s*(\[|\.run\b|\.warmup\b|\)\s*\[)")
        mentioning = launches_of(project, root, settings).callers.mentioning(kernel.name)
        known = any(launch.search(other.text) for other in mentioning if not other.is_kernel)
        if project.notes is not None:
            project.notes.note_plain(kernel, known)
    return known


def _site(
    project: Analysis, settings: Settings, root: str, targets: Sequence[Target], module: Module, statement: Statement
) -> Site | None:
    name = statement.defined_name or ""
    by_target = launches_by_target(project, root, settings, module.path, name, statement.definition_line)
    configs = {
        target: tuple(dict.fromkeys(config for config in map(config_of, recorded) if config is not None))
        for target, recorded in by_target.items()
    }
    if not any(configs.values()):
        return None
    return kernel_site(
        project,
        Definition(name, statement, statement.definition_line),
        root,
        targets,
        lambda target: tuple(on_target(config, target) for config in configs[target.name]),
    )
