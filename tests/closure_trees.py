"""A tree of files in memory, for the readers of the closure."""

from __future__ import annotations

from collections.abc import Mapping

from touchgate.gate.closure.tree import Entry, _Walked


class Memory(_Walked):
    """files: path -> content, or ("link", target) or ("gitlink",)."""

    def __init__(self, files: Mapping[str, object]) -> None:
        super().__init__()
        self.files = {path: content.encode() if isinstance(content, str) else content for path, content in files.items()}
        self.asked: list[list[str]] = []

    def _entries(self, folder: str) -> dict[str, Entry] | None:
        start = f"{folder}/" if folder else ""
        found = {}
        for path, content in self.files.items():
            if path.startswith(start):
                name, _, below = path[len(start) :].partition("/")
                kind = content[0] if isinstance(content, tuple) else "file"
                found[name] = Entry("folder" if below else kind)
        return found or None

    def _target(self, link: str, entry: Entry) -> str:
        return self.files[link][1]

    def read(self, paths):
        self.asked.append(list(paths))
        return {path: self.files[self._file(path).real] if self._file(path) else None for path in paths}

    def blob_id(self, path):
        import hashlib

        place = self._file(path)
        return hashlib.sha1(self.files[place.real]).hexdigest() if place else None

    def below(self, folder):
        return [path for path in self.files if not folder or path.startswith(f"{folder}/")]
