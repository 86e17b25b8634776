"""Environment: the bundle, libtorch, the device, and the environment variables of programs."""

import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import threading
from pathlib import Path

from child import Failed

TORCH = "2.11."
BUNDLE = Path(__file__).resolve().parent.parent


class Machine:
    """Paths and environment for the programs of the bundle."""

    def __init__(self, options):
        self.work = options.work
        self.work.mkdir(parents=True, exist_ok=True)
        self.tiny = options.tiny
        self.python = options.python or sys.executable
        brought = BUNDLE / "rivals" / "train.py"
        self.rivals = options.rivals or (brought if brought.exists() else None)
        self.torch = find_torch(options.torch, self.python)
        self.lib = self.torch / "lib"
        self.pretend = options.pretend
        self.kind = options.device or ("pretend" if self.pretend else "cuda")
        if self.kind == "cuda" and not Path("/dev/nvidiactl").exists():
            sys.exit("gpu-day: error: this machine has no NVIDIA device (/dev/nvidiactl); `--device cpu` runs all items that need no device")
        self.cloze = BUNDLE / "bin" / "cloze"

    @property
    def device(self) -> str:
        """`train.device` of runs on the device."""
        return "cpu" if self.kind == "cpu" else "cuda"

    @property
    def is_real(self) -> bool:
        return self.kind == "cuda"

    @property
    def precision(self) -> str:
        return "f32" if self.kind == "cpu" else "bf16"

    def env(self, device: str = "device", **more: str) -> dict[str, str]:
        """Environment of a program on the device or the `cpu`, or of a test that sets that of its children."""
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("CLOZE_", "PRETEND_CUDA", "RUST_", "LD_PRELOAD"))}
        env |= {"LD_LIBRARY_PATH": self.libraries(), "NO_COLOR": "1", "RUST_BACKTRACE": "0"}
        env |= {"CLOZE_TEST_ROOT": str(BUNDLE), "CLOZE_TEST_PROGRAM": str(self.cloze)}
        env["PRETEND_CUDA"] = "0" if self.is_real else "1"
        if self.pretend:
            env |= {"PRETEND_CUDA_LIBRARY": str(self.pretend), "PRETEND_CUDA_CPU_DRAWS": "1"}
            if device == "device":
                env["LD_PRELOAD"] = str(self.pretend)
        if device == "cpu":
            env["CUDA_VISIBLE_DEVICES"] = ""
        return env | more

    def libraries(self) -> str:
        """Library search path: libtorch, the CUDA libraries next to it, and the path of this machine for the driver."""
        folders = [self.lib, *sorted(self.torch.parent.glob("nvidia/*/lib"))]
        return ":".join([*map(str, folders), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])

    def marks(self) -> dict:
        """Properties that all results of a folder must share."""
        return {
            "pack": json.loads((BUNDLE / "pack.json").read_text(encoding="utf-8")),
            "device": self.kind,
            "gpu": _nvidia("name,memory.total,driver_version,clocks.max.sm,power.limit"),
        }

    def facts(self) -> dict:
        """Description of this machine for the results."""
        version = subprocess.run([self.cloze, "--version"], env=self.env("cpu"), capture_output=True, text=True, check=False)
        if version.returncode != 0:
            raise Failed(f"the program does not start with the libraries in {self.lib}:\n{version.stderr.strip()}")
        return {
            "program": version.stdout.strip(),
            **self.marks(),
            "torch": torch_version(self.torch),
            "transformers": _version("transformers"),
            "cpu": _cpu(),
            "cores": len(os.sched_getaffinity(0)),
            "system": f"{platform.system()} {platform.release()}, glibc {platform.libc_ver()[1]}, Python {platform.python_version()}",
        }

    def memory_bytes(self) -> float:
        """Memory of the device; 80 GB if it is unknown."""
        said = _nvidia("memory.total")
        number = re.match(r"\d+", said or "")
        return float(number[0]) * 2**20 if number else 80e9


def find_torch(given: Path | None, python: str) -> Path:
    """Folder of libtorch: the given one, or that of the Python package, which is located without an import."""
    if given is None:
        look = "import importlib.util as u; print(*u.find_spec('torch').submodule_search_locations)"
        found = subprocess.run([python, "-c", look], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            sys.exit(f"gpu-day: error: {python} has no package torch; set another Python with --python, or a folder with --torch")
        given = Path(found.stdout.strip())
    if not (given / "lib" / "libtorch_cpu.so").exists():
        sys.exit(f"gpu-day: error: {given} has no lib/libtorch_cpu.so")
    version = torch_version(given)
    if not version.startswith(TORCH):
        sys.exit(f"gpu-day: error: {given} is version {version}; the program was built for {TORCH}x")
    return given.absolute()


def torch_version(torch: Path) -> str:
    path = torch / "version.py"
    found = re.search(r"__version__ = '([^']+)'", path.read_text(encoding="utf-8")) if path.exists() else None
    return found[1] if found else "unknown"


class Memory:
    """Peak memory of the device within a `with` block, as reported by the driver; `None` if it is unknown."""

    def __enter__(self):
        self.bytes = None
        try:
            command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "500"]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self.process = None
            return self
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        return self

    def _read(self):
        for line in self.process.stdout:
            if line.strip().isdigit():
                self.bytes = max(self.bytes or 0, int(line) * 2**20)

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.thread.join(timeout=2)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _nvidia(query: str) -> str | None:
    try:
        command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip().splitlines()[0] if said.returncode == 0 and said.stdout.strip() else None


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
