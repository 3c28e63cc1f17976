"""Searches that ask for programs to be run, and what runs the questions of many searches in one module.

A search is a generator: it yields the programs that it wants to have run, gets their outcomes by name, and returns what it found. A module costs ten
seconds and a program in it little, so searches ask for all that they can use at once, and several searches share their rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from fornaxc.qualify.programs import Options, Outcome, Program, run_programs

Found = TypeVar("Found")
Search = Generator[Sequence[Program], Mapping[str, Outcome], Found]
Runner = Callable[[Sequence[Program]], Mapping[str, Outcome]]


def drive(searches: Mapping[str, Search[Found]], options: Options) -> dict[str, Found]:
    """Carry out searches side by side; what each returned, by its name. An exception of one ends all."""
    return drive_with(searches, lambda programs: run_programs(programs, options))


def drive_with(searches: Mapping[str, Search[Found]], runner: Runner) -> dict[str, Found]:
    """The same with a function that runs the programs of a round; names there are unique over all searches."""
    found: dict[str, Found] = {}
    asked: dict[str, Sequence[Program]] = {}
    answers: dict[str, Any] = dict.fromkeys(searches)
    while len(found) < len(searches):
        for name, search in searches.items():
            if name in found:
                continue
            try:
                asked[name] = search.send(answers[name])
            except StopIteration as end:
                found[name] = end.value
                asked.pop(name, None)
        if not asked:
            continue
        labelled = [replace(p, name=f"{name}/{p.name}") for name, programs in asked.items() for p in programs]
        outcomes = runner(labelled) if labelled else {}
        answers = {name: {p.name: outcomes[f"{name}/{p.name}"] for p in programs} for name, programs in asked.items()}
    return found
