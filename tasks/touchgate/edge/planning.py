"""From options to a planned run: declarations, change, plan, checks with their places, keys and stored results.

Nothing here runs a check, takes a lease or prints. What costs something (probing for a GPU, tool versions, contents) is
done only when at least one lane runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from touchgate.checks import CheckSpec, DeclarationFault
from touchgate.checks.registry import KnownOptions, foreign_code, kind
from touchgate.edge.usage import UsageFault
from touchgate.gate import change as change_of
from touchgate.gate.declared import Declared, read_both
from touchgate.gate.git import Repository
from touchgate.gate.history import Fetch
from touchgate.gate.included import files_of
from touchgate.gate.located import DeclarationError, Problem
from touchgate.gate.meant import called, is_meant, matches
from touchgate.gate.model import Change, Decision, Lane, Plan
from touchgate.gate.plan import in_suites_of_both, runs_in
from touchgate.gate.plan import plan as decide
from touchgate.gate.values import NamedTuple

if TYPE_CHECKING:
    from touchgate.edge.devices import DeviceChoice
    from touchgate.edge.options import RunOptions
    from touchgate.gate.change import Judged
    from touchgate.results.contents import Contents
    from touchgate.results.keys import Key
    from touchgate.results.store import ResultStore, Stored


class PlannedCheck(NamedTuple):
    """A check that is to be answered for.

    place: "gpu", "emulated", "host", or None where it can't be measured here (`why_not` says why). key: None when place is
    None. stored: the result that will be reused, if any. shadow: its lane is skipped, and run all the same to test that; it
    always runs, since an earlier result says nothing about a file that its key does not hold. known: that earlier pass.
    """

    spec: CheckSpec
    place: str | None
    why_not: str = ""
    key: Key | None = None
    stored: Stored | None = None
    shadow: bool = False
    known: Stored | None = None

    @property
    def its_key(self) -> Key:
        """The key of a check that has a place."""
        if self.key is None:
            raise AssertionError(f"{self.spec.name} has no place and so no key")
        return self.key

    @property
    def wants_gpu(self) -> bool:
        """Whether --require-device insists on a GPU for it."""
        return "gpu" in self.spec.places


def declare(
    repo: Repository,
    environ: Mapping[str, str],
    *,
    base: str | None,
    head: str | None,
    reserved: Sequence[str] = (),
    fetch: Fetch = Fetch.NEVER,
    judged: Judged | None = None,
) -> Declared:
    """Judge the change and read both sets of lanes. Raises DeclarationError for a fault in head's.

    reserved: names that a lane can't have (doit's commands). fetch: whether a remote may be asked. judged: the change,
    where that was asked already.
    """
    if judged is None:
        judged = change_of.resolve(repo, base=base, head=head, environ=environ, fetch=fetch)
    return read_both(repo, judged, KnownOptions(), reserved=reserved)


def selected_lanes(lanes: Mapping[str, Lane], names: Iterable[str]) -> tuple[str, ...]:
    """The lanes that names on the command line ask for: a lane or a group, one of their checks, or a wildcard over these."""
    selected: list[str] = []
    for name in names:
        pattern = name.partition(":")[0]
        selected += [lane.name for lane in lanes.values() if is_meant(lane, pattern) and lane.name not in selected]
    return tuple(selected)


def checks_meant(lane: Lane, specs: Iterable[CheckSpec], name: str) -> list[CheckSpec]:
    """The lane's checks that one name asks for: all of them for the lane's, or the group's, else those that it spells."""
    if is_meant(lane, name):
        return list(specs)
    return [spec for spec in specs if any(matches(name, own + spec.name[len(lane.name) :]) for own in called(lane))]


def expand_all(lanes: Mapping[str, Lane], root: Path) -> dict[str, tuple[CheckSpec, ...]]:
    """Every check that each lane's declarations stand for. Raises DeclarationError with all faults of all lanes at once.

    The lane files of the working tree go with it, for the caret; what can't be read goes without.
    """
    problems: list[Problem] = []
    specs = {lane.name: _expand(lane, root, problems) for lane in lanes.values()}
    if problems:
        files = {problem.at.file for problem in problems}
        raise DeclarationError(problems, {name: (root / name).read_bytes() for name in files if (root / name).is_file()})
    return specs


def _expand(lane: Lane, root: Path, problems: list[Problem]) -> tuple[CheckSpec, ...]:
    """The checks of one lane; what is wrong is appended to `problems`."""
    specs: list[CheckSpec] = []
    for declaration in lane.checks:
        found = kind(declaration.kind)
        if found is None:
            problems.append(Problem(declaration.at, f"no installed package brings the check kind '{declaration.kind}'", None))
            continue
        try:
            specs += found.expand(lane, declaration, root)
        except DeclarationFault as fault:
            problems.append(Problem(declaration.at, str(fault), None))
    taken: dict[str, CheckSpec] = {}
    for spec in specs:
        if spec.name in taken:
            message = f"two checks are named '{spec.name}' (the other: {taken[spec.name].where}); give one a `name:`"
            problems.append(Problem(lane.at, message, None))
        taken[spec.name] = spec
    return tuple(specs)


def wanted(lane: Lane, specs: Sequence[CheckSpec], suite: str, names: Sequence[str]) -> tuple[CheckSpec, ...]:
    """The lane's checks that this run is about: those of the suite, or those named, in declaration order."""
    whole = not names or any(is_meant(lane, name) for name in names)
    named = {spec.name for name in names if not is_meant(lane, name) for spec in checks_meant(lane, specs, name)}
    return tuple(spec for spec in specs if (whole and runs_in(suite, spec.suites)) or spec.name in named)


def place_of(spec: CheckSpec, choice: DeviceChoice) -> tuple[str | None, str]:
    """Where a check is measured, and else why not. The device rule in one place.

    "host" checks run anywhere. A check that may run on a GPU does where one was chosen; else emulated where its kind can,
    unless a GPU was asked for; else it is unmeasured.
    """
    if "host" in spec.places:
        return "host", ""
    if choice.gpu is not None and "gpu" in spec.places:
        return "gpu", ""
    if "emulated" in spec.places and (not choice.gpu_only or "gpu" not in spec.places):
        return "emulated", ""
    return None, choice.reason


def plan_lanes(declared: Declared, options: RunOptions) -> Plan:
    """What becomes of every lane, for this run's options."""
    plan = decide(
        declared.head,
        declared.base,
        declared.judged.change,
        suite=options.suite,
        names=selected_lanes(declared.head, options.names),
        everything=options.all_lanes,
        due=declared.judged.due,
        gained=declared.gained,
        included=declared.included,
    )
    if not options.also:
        return plan
    reason = "a task of dodo.py needs it"
    needed = [
        one._replace(decision=Decision.RUN, reason=reason, path=None, pattern=None)
        if one.decision is Decision.SKIP and _also(declared.head.get(one.lane), one.lane, options.also)
        else one
        for one in plan.lanes
    ]
    return plan._replace(lanes=tuple(needed))


def _also(lane: Lane | None, name: str, also: frozenset[str]) -> bool:
    return bool(also.intersection((name,) if lane is None else called(lane)))


def running_lanes(declared: Declared, plan: Plan, shadow: Collection[str] = ()) -> list[tuple[Lane, str]]:
    """The lanes whose checks run, with the suite to run of each. shadow: lanes that run though they are skipped."""
    lanes = in_suites_of_both(declared.head, declared.base)
    running = [one for one in plan.lanes if one.decision is Decision.RUN or one.lane in shadow]
    return [(lanes[one.lane], one.suite) for one in running if one.lane in lanes]


def plan_checks(
    declared: Declared,
    plan: Plan,
    options: RunOptions,
    keyring: Keyring,
    store: ResultStore,
    shadow: Collection[str] = (),
) -> tuple[PlannedCheck, ...]:
    """The checks of the lanes that run, with place, key and stored result.

    The declarations of every lane are looked at, running or not: a mistake in one is not hidden by naming another.
    """
    specs = expand_all(in_suites_of_both(declared.head, declared.base), keyring.root)
    placed = [
        PlannedCheck(
            _configured(spec, options, declared, keyring), *place_of(spec, keyring.choice), shadow=lane.name in shadow
        )
        for lane, suite in running_lanes(declared, plan, shadow)
        for spec in wanted(lane, specs[lane.name], suite, options.names)
    ]
    keyed = keyring.keys(placed)
    return tuple(_known(check, keyed.get(check.spec.name), options, store) for check in placed)


def _known(check: PlannedCheck, key: Key | None, options: RunOptions, store: ResultStore) -> PlannedCheck:
    """The check with its key, and with the earlier result under it where one counts."""
    if key is None or (options.fresh and not check.shadow):
        return check._replace(key=key)
    stored = store.reusable(key.digest)
    return check._replace(key=key, known=stored) if check.shadow else check._replace(key=key, stored=stored)


def _configured(spec: CheckSpec, options: RunOptions, declared: Declared, keyring: Keyring) -> CheckSpec:
    """What a declaration does not say: the repository's setting for `architectures`, never in place of a declared one.

    And for a benchmark that can be measured, the base's version to compare with.
    """
    if spec.kind == "benchmark" and keyring.choice.gpu is not None:
        return keyring.with_base(spec, declared.judged.change)
    if spec.kind == "compile" and options.architectures and not spec.options.get("declared") and "smoke" in spec.suites:
        return replace(spec, options={**spec.options, "architectures": list(options.architectures)})
    return spec


def _that_fire(name: str, head: Mapping[str, Lane], base: Mapping[str, Lane]) -> list[Lane]:
    """The lanes whose files make a lane run: itself and all that it needs, whatever the suite, at head and at the base's tip.

    Those of the base branch's tip only where they differ from head's.
    """
    found: dict[str, None] = {name: None}
    for one in (ahead := [name]):
        needs = [need.lane for lanes in (head, base) if one in lanes for need in lanes[one].needs]
        ahead += [need for need in dict.fromkeys(needs) if need not in found]
        found |= dict.fromkeys(needs)
    lanes = [head[one] for one in found if one in head]
    return lanes + [base[one] for one in found if one in base and _fires_by(base[one]) != _fires_by(head.get(one))]


def _fires_by(lane: Lane | None) -> object:
    """What a lane is touched by, without the places of it."""
    if lane is None:
        return None
    closure = lane.closure and lane.closure._replace(sources=None, at=lane.at)
    sources = lane.closure and lane.closure.sources
    return (
        [pattern.text for pattern in lane.paths],
        [(check.kind, check.target, check.options) for check in lane.checks],
        closure and (closure.include, closure.python, None if sources is None else [source.text for source in sources]),
    )


class Keyring:
    """Makes the keys of checks from what is on disk now; asked again after a check, it tells whether an input changed."""

    def __init__(
        self,
        repo: Repository,
        lanes: Mapping[str, Lane],
        environ: Mapping[str, str],
        choice: DeviceChoice,
        base: Mapping[str, Lane] | None = None,
    ) -> None:
        """base: the lanes of the base branch's tip, where they are known."""
        self._repo = repo
        self._lanes = lanes
        self._base = base or {}
        self._environ = environ
        self.choice = choice
        self.root = repo.root

    def with_base(self, spec: CheckSpec, change: Change) -> CheckSpec:
        """The check with the files that it compares with, as they are in the merge base."""
        from touchgate.checks.against import with_base  # noqa: PLC0415  only a run with benchmarks pays for it

        return with_base(spec, self._repo, change.merge_base, change.open_reason or "")

    def stamps(self, key: Key) -> dict[str, tuple[int, ...] | None]:
        """What the file system says of every file in a key: it changes with each write, even of the same content.

        A file that was changed and changed back while a check ran has the content it had, and another stamp.
        """
        found: dict[str, tuple[int, ...] | None] = {}
        for part in ("lane_files", "input_files"):
            for path in key.parts[part]:
                try:
                    seen = (self.root / path).lstat()
                except OSError:
                    found[path] = None
                else:
                    found[path] = (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        return found

    def keys(self, checks: Sequence[PlannedCheck]) -> dict[str, Key]:
        """For every check that has a place, its key by name. Few git processes, whatever the number of checks."""
        from touchgate.checks.includes import with_reached  # noqa: PLC0415  only a run with checks pays for these
        from touchgate.results.contents import Contents  # noqa: PLC0415
        from touchgate.results.keys import key_environment, result_key  # noqa: PLC0415
        from touchgate.results.tools import RESULT_CODE, package_digest, versions  # noqa: PLC0415

        placed = [check for check in checks if check.place is not None]
        if not placed:
            return {}
        inputs = {}
        for check in placed:
            found = kind(check.spec.kind)
            if found is None or check.place is None:
                raise UsageFault(f"no installed package brings the check kind '{check.spec.kind}'")
            inputs[check.spec.name] = found.inputs(check.spec, self.root, check.place)
        contents = Contents(self._repo)
        lane_files, more = self._of_lanes(dict.fromkeys(check.spec.lane for check in placed), contents)
        for check in placed:
            inputs[check.spec.name] = with_reached(inputs[check.spec.name], *more[check.spec.lane])
        files = contents.of(sorted({name for one in inputs.values() for name in one.files}))
        tools = versions(sorted({name for one in inputs.values() for name in one.tools}), self._environ)
        code = package_digest(RESULT_CODE)
        return {
            check.spec.name: result_key(
                spec=check.spec,
                lane_files=lane_files[check.spec.lane],
                input_files={name: files[name] for name in inputs[check.spec.name].files},
                tools={name: tools[name] for name in inputs[check.spec.name].tools},
                place=str(check.place),
                device_facts=self.choice.facts(str(check.place)),
                environment=key_environment(self._environ, check.spec.env, str(self.root)),
                code=code + foreign_code(check.spec.kind),
                extra=inputs[check.spec.name].extra,
            )
            for check in placed
        }

    def _of_lanes(
        self, names: Iterable[str], contents: Contents
    ) -> tuple[dict[str, dict[str, str]], dict[str, tuple[set[str], str]]]:
        """For each lane the files of all lanes that make it run, with what can't be told of them or "".

        First those that match their paths, with their ids; then those that their checks name, and what these reach.
        The lane's own checks name what they need beside this, so its `inputs` decide about them alone.
        """
        from touchgate.checks.child import files_declared  # noqa: PLC0415  as in `keys`

        firing = {name: _that_fire(name, self._lanes, self._base) for name in names}
        # One of the base branch's tip may have the name of one of head's.
        every = {id(lane): lane._replace(name=str(id(lane))) for lanes in firing.values() for lane in lanes}
        matching = contents.files(every.values())
        reached = files_of(self._repo, every.values())
        lane_files, more = {}, {}
        for name, lanes in firing.items():
            known = [str(id(lane)) for lane in lanes]
            lane_files[name] = {path: one for lane in known for path, one in matching[lane].items()}
            found = [reached[lane] for lane in known if lane in reached]
            files = {path for paths, _ in found for path in paths}
            faults = [fault for _, fault in found if fault]
            for lane in lanes:
                if lane is not self._lanes.get(name):
                    try:
                        files.update(files_declared(lane, self.root))
                    except DeclarationFault as fault:  # of the base's: head's are known to be well
                        faults.append(str(fault))
            more[name] = files, "; ".join(faults)
        return lane_files, more


def verify_head(repo: Repository, change: Change, options: RunOptions) -> None:
    """Refuse to run checks of another tree than the one judged. Raises UsageFault."""
    commit = repo.commit("HEAD")
    at = commit.id if commit is not None else None
    if options.expect_head is not None:
        expected = options.expect_head.lower()
        if len(expected) < MINIMAL_ABBREVIATION or at is None or not at.startswith(expected):
            raise UsageFault(f"--expect-head {options.expect_head}: the checkout is at {at or 'no commit'}; nothing was run")
    if not change.head_is_worktree and change.head is not None and change.head != at:
        # A merge ref is judged as the pull request's head while the checkout is the merge: its second parent.
        if commit is not None and change.head in commit.parents:
            return
        raise UsageFault(
            f"the head to judge is {change.head} ({change.head_from}), but {at or 'no commit'} is checked out; "
            "check that commit out, or ask `touchgate gate` for the decision alone"
        )


MINIMAL_ABBREVIATION = 7
"""Shorter prefixes of a commit id are a typing mistake, not a promise."""
