"""`doit vectors`: lint the golden vectors, the only way to add one, and what two machines made of them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from touchgate.edge.commands.base import RepositoryCommand, print_json
from touchgate.edge.options import AS_JSON, SECTION
from touchgate.edge.usage import UsageFault

if TYPE_CHECKING:
    from touchgate.gate.git import Repository


def _text(name: str, about: str, metavar: str = "TEXT", default: str = "") -> dict[str, Any]:
    long = name.replace("_", "-")
    return {"name": name, "long": long, "default": default, "section": SECTION, "metavar": metavar, "help": about}


def _many(name: str, about: str, metavar: str) -> dict[str, Any]:
    return {**_text(name, about, metavar), "type": list, "default": []}


class Vectors(RepositoryCommand):
    """`check` and `diff` read, `add` and `pin` write; docs/vectors.md and docs/ladder.md have whole examples."""

    name = "vectors"
    doc_purpose = "lint golden vectors, add one, pin stages, compare two machines"
    doc_usage = "check | add FAMILY NAME | pin FAMILY | diff A B"
    doc_description = """\
check: every manifest below vectors/: shapes, counts, digests, provenance, files that nothing names; then every vector is
decoded by its family's oracle, without a kernel (exit 1 for any problem).

add: decodes the new vector with the family's oracle, compares, and only then writes. Nothing is overwritten. What the
encoder was given (--expect: the values as the decoder gives them back, little-endian) is needed for status "ok".

pin: decodes by the oracle, and adds the digests of the stages that are not pinned yet to the family's ladder.txt.

diff: two reports (result.json of `doit --report-dir`, or texts of ladder lines) are held against each other; the first stage,
frame and plane of each vector where they part is named (exit 1 where they part, 2 where they have no rung in common)."""
    cmd_options = (
        AS_JSON,
        _many("part", "bytes of the vector: KEY=FILE, kept in the family's folder; repeatable", "KEY=FILE"),
        _many("set", "a field of the vector: KEY=VALUE (JSON, else text); repeatable", "KEY=VALUE"),
        _text("expect", "file of the values that the encoder was given", "FILE"),
        _text("status", "how decoding ends", "STATUS", "ok"),
        _text("about", "what the vector is for"),
        _text("tool", "what made it"),
        _text("tool_version", "that tool's version"),
        _text("command", "how it was called"),
        _text("licence", "the tool's licence"),
        _text("date", "when it was made, YYYY-MM-DD [default: today]"),
        _text("source", "name of the provenance in the manifest [default: TOOL-VERSION]"),
        _text("decoder", "a new family's oracle file, from the root", "PATH"),
        _text("kernel", "a new family's .cu file, from the root", "PATH"),
        _text("family_about", "what a new family is"),
    )

    def act(self, repo: Repository, options: Any, names: list[str]) -> int:
        """Dispatch."""
        if names == ["check"]:
            return _check(repo.root, as_json=options["as_json"])
        if names[:1] == ["add"]:
            if len(names) != len(("add", "FAMILY", "NAME")):
                raise UsageFault("`doit vectors add` takes a family and a name, and options; see `doit help vectors`")
            return _add(repo.root, names[1], names[2], options)
        if names[:1] == ["pin"] and len(names) == len(("pin", "FAMILY")):
            return _pin(repo.root, names[1])
        if names[:1] == ["diff"] and len(names) == len(("diff", "A", "B")):
            from touchgate.edge.commands import vectors_diff  # noqa: PLC0415

            return vectors_diff.show(names[1], names[2], as_json=options["as_json"])
        raise UsageFault("`doit vectors` takes check, add FAMILY NAME, pin FAMILY, or diff A B; see `doit help vectors`")


def _check(root: Path, *, as_json: bool) -> int:
    from touchgate import golden, pinned  # noqa: PLC0415
    from touchgate.checks import conformance  # noqa: PLC0415  numpy

    problems = golden.check(root)
    folders = sorted(place.parent for place in (root / golden.FOLDER).glob(f"*/{golden.MANIFEST}"))
    targets = [f"{golden.FOLDER}/{folder.name}" for folder in folders]
    faulty = {problem.file for problem in problems}
    for target in targets:
        if not faulty & {f"{target}/{golden.MANIFEST}", golden.FOLDER}:
            problems += sorted({*pinned.problems(root, target), *conformance.lint(root, target)})
    counts = {folder.name: _count(root, target) for folder, target in zip(folders, targets, strict=True)}
    for place in sorted((root / golden.FOLDER).glob(f"*/{golden.LADDER}")):
        if place.parent not in folders:
            problems += pinned.alone(root, f"{golden.FOLDER}/{place.parent.name}")
    if as_json:
        found = [{"file": one.file, "line": one.line, "message": one.message} for one in problems]
        print_json({"schema": 1, "families": counts, "problems": found})
    else:
        for one in problems:
            print(one)
        for name, count in counts.items():
            print(f"{name}: {count} vectors")
        print(f"{len(problems)} problems" if problems else "no problems")
    return 1 if problems else 0


def _count(root: Path, target: str) -> int:
    from touchgate import golden  # noqa: PLC0415

    try:
        return len(golden.read_manifest(root / target)["vectors"]) if golden.within(root, target) else 0
    except (golden.VectorFault, KeyError, TypeError):
        return 0


def _pin(root: Path, family: str) -> int:
    from touchgate import adding  # noqa: PLC0415
    from touchgate.golden import FOLDER, LADDER, VectorFault  # noqa: PLC0415

    try:
        count = adding.pin(root, family)
    except VectorFault as fault:
        raise UsageFault(str(fault)) from None
    told = f"pinned {count} rungs in {FOLDER}/{family}/{LADDER}; commit it" if count else "every stage is pinned already"
    print(told)
    return 0


def _add(root: Path, family: str, name: str, options: Any) -> int:
    from touchgate import adding  # noqa: PLC0415
    from touchgate.golden import FOLDER, Head, VectorFault  # noqa: PLC0415

    missing = [f"--{key.replace('_', '-')}" for key in ("tool", "tool_version", "command", "licence") if not options[key]]
    if missing:
        raise UsageFault(f"a vector's provenance belongs to it: {', '.join(missing)} missing")
    source = adding.Source(
        name=options["source"] or f"{options['tool']}-{options['tool_version']}",
        tool=options["tool"],
        version=options["tool_version"],
        command=options["command"],
        date=options["date"] or dt.datetime.now(dt.timezone.utc).date().isoformat(),
        licence=options["licence"],
    )
    head = None
    if options["decoder"] or options["kernel"]:
        head = Head(options["family_about"], options["decoder"], options["kernel"])
    try:
        vector = adding.new_vector(
            name,
            parts=options["part"],
            fields=options["set"],
            expect=Path(options["expect"]) if options["expect"] else None,
            status=options["status"],
            about=options["about"],
        )
        added = adding.add(root, family, [vector], source, head=head)
    except VectorFault as fault:
        raise UsageFault(str(fault)) from None
    print(f"added {', '.join(added)} to {FOLDER}/{family}; commit that folder")
    return 0
