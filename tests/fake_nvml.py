"""pynvml as far as a preflight asks it: the real error classes by name and code, the structs' fields, answers by table."""

from __future__ import annotations

import types

CODES = {
    "InvalidArgument": (2, "Invalid Argument"),
    "NotSupported": (3, "Not Supported"),
    "NoPermission": (4, "Insufficient Permissions"),
    "NotFound": (6, "Not Found"),
    "DriverNotLoaded": (9, "Driver Not Loaded"),
    "LibraryNotFound": (12, "NVML Shared Library Not Found"),
    "FunctionNotFound": (13, "Function Not Found"),
    "GpuIsLost": (15, "GPU is lost"),
    "ResetRequired": (16, "GPU requires restart"),
    "LibRmVersionMismatch": (18, "RM has detected an NVML/RM version mismatch."),
    "Unknown": (999, "Unknown Error"),
}
GIB = 1 << 30


class NVMLError(Exception):
    value = 0

    def __str__(self):
        return next(text for code, text in CODES.values() if code == self.value)


class NVMLLibraryMismatchError(Exception):
    pass


ERRORS = {name: type(f"NVMLError_{name}", (NVMLError,), {"value": code}) for name, (code, _) in CODES.items()}


def process(pid, memory=None):
    """A record as nvidia-ml-py hands it out."""
    return types.SimpleNamespace(pid=pid, usedGpuMemory=memory, gpuInstanceId=0xFFFFFFFF, computeInstanceId=0xFFFFFFFF)


def memory(used=0, total=141 * GIB):
    return types.SimpleNamespace(total=total, used=used, free=total - used, reserved=0, version=0x02000028)


def gpu(uuid="GPU-a", **answers):
    """A datacenter GPU on which nothing runs; `answers` by the end of the function's name. An error's name is raised."""
    plain = {
        "Name": "NVIDIA H200",
        "UUID": uuid,
        "MigMode": [0, 0],
        "MaxMigDeviceCount": 0,
        "MemoryInfo": memory(),
        "TotalEccErrors": 0,
        "CurrentClocksEventReasons": 1,
        "ComputeRunningProcesses": [],
        "GraphicsRunningProcesses": [],
        "MPSComputeRunningProcesses": [],
    }
    return {**plain, **answers}


GB10 = {"Name": "NVIDIA GB10", "MemoryInfo": "NotSupported", "TotalEccErrors": "NotSupported", "MigMode": "NotSupported"}


class FakeNvml(types.ModuleType):
    """A handle is the GPU's own table. mig: tables of MIG devices by their place, None where there is none."""

    nvmlMemory_v2 = 0x02000028  # noqa: N815
    NVML_VOLATILE_ECC = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVMLError = NVMLError
    NVMLLibraryMismatchError = NVMLLibraryMismatchError

    def __init__(self, *gpus, init=None, driver=b"580.159.04"):
        super().__init__("pynvml")
        self.gpus, self.init, self.driver = gpus, init, driver
        self.open = 0
        self.asked = []

    def nvmlInit(self):  # noqa: N802
        self._give(self.init)
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return self._give(self.driver)

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        devices = [part for table in self.gpus for part in (table, *(table.get("mig") or ())) if part is not None]
        found = next((device for device in devices if device["UUID"] == uuid), None)
        return found if found is not None else self._give("NotFound")

    def nvmlDeviceGetMigDeviceHandleByIndex(self, table, index):  # noqa: N802
        return table["mig"][index] or self._give("NotFound")

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, part):  # noqa: N802
        return next(table for table in self.gpus if part in (table.get("mig") or ()))

    def _give(self, answer):
        if isinstance(answer, str) and answer in ERRORS:
            raise ERRORS[answer]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def __getattr__(self, name):
        if not name.startswith("nvmlDeviceGet"):
            raise AttributeError(name)
        known = name.removeprefix("nvmlDeviceGet")
        if not any(known in table or known in (part or {}) for table in self.gpus for part in (table, *table.get("mig", ()))):
            raise AttributeError(name)

        def ask(table, *_, **__):
            self.asked.append((table["UUID"], known))
            return self._give(table.get(known, "NotSupported"))

        return ask
