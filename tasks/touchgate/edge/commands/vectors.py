"""`doit vectors`: lint the golden vectors, and the only way to add one."""

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
    """`check` reads, `add` writes; docs/vectors.md has a whole example."""

    name = "vectors"
    doc_purpose = "lint golden vectors, or add one"
    doc_usage = "check | add FAMILY NAME"
    doc_description = """\
check: every manifest below vectors/: shapes, counts, digests, provenance, files that nothing names; then every vector is
decoded by its family's oracle, without a kernel (exit 1 for any problem).

add: decodes the new vector with the family's oracle, compares, and only then writes. Nothing is overwritten. What the
encoder was given (--expect: the values as the decoder gives them back, little-endian) is needed for status "ok"."""
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
        raise UsageFault("`doit vectors` takes `check`, or `add FAMILY NAME`; see `doit help vectors`")


def _check(root: Path, *, as_json: bool) -> int:
    from touchgate import golden, pinned  # noqa: PLC0415
    from touchgate.checks import conformance  # noqa: PLC0415  numpy

    problems = golden.check(root)
    folders = sorted(place.parent for place in (root / golden.FOLDER).glob(f"*/{golden.MANIFEST}"))
    targets = [f"{golden.FOLDER}/{folder.name}" for folder in folders]
    faulty = {problem.file for problem in problems}
    for target in targets:
        if not faulty & {f"{target}/{golden.MANIFEST}", golden.FOLDER}:
            problems += pinned.problems(root, target) or conformance.lint(root, target)
    counts = {folder.name: _count(root, target) for folder, target in zip(folders, targets, strict=True)}
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
