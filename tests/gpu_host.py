"""A host with GPUs, as far as touchgate asks: programs and an empty package that say so. Nothing can be measured on it."""

from __future__ import annotations

import os
from pathlib import Path

NVIDIA_SMI = """\
#!/bin/sh
cat <<'ROWS'
{rows}
ROWS
"""
NVCC = '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\n'


def gpu_host(folder: Path, uuids: tuple[str, ...], environ: dict[str, str]) -> dict[str, str]:
    """The variables of a host with these GPUs, made in `folder`."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    rows = [f"{uuid}, NVIDIA H200, 580.65.06, 9.0, Enabled, Disabled, 143771, {n}" for n, uuid in enumerate(uuids)]
    for name, text in (("nvidia-smi", NVIDIA_SMI.format(rows="\n".join(rows))), ("nvcc", NVCC)):
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    (folder / "modules" / "pycuda").mkdir(parents=True)
    (folder / "modules" / "pycuda" / "__init__.py").write_text("", encoding="utf-8")
    leases = folder / "leases"
    leases.mkdir(mode=0o700)
    return {
        "PATH": f"{programs}{os.pathsep}{environ['PATH']}",
        "PYTHONPATH": str(folder / "modules"),
        "TOUCHGATE_LEASE_DIR": str(leases),
        "TOUCHGATE_HOST": "here",
        "TOUCHGATE_HOST_SETTINGS": str(_settings(folder)),
    }


def _settings(folder: Path) -> Path:
    """Nothing set: the machine's own file does not count."""
    path = folder / "host.yml"
    path.write_text("", encoding="utf-8")
    return path
