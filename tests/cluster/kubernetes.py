"""Test of deploy/kubernetes with the schema of Kubernetes (kubernetes-validate from PyPI) and `check_jobs.py`."""

import subprocess
import sys
from pathlib import Path

from cluster import Skip, check, run

ROOT = Path(__file__).resolve().parent.parent.parent
# First version of Kubernetes with all features of the Job.
OLDEST = "1.31"


def tested_jobs(scratch: Path) -> list[tuple[str, str]]:
    """Validates the files, and shows that wrong ones are refused. Returns the rows of the page."""
    venv = scratch / "venv"
    validate, check_jobs = venv / "bin/kubernetes-validate", [venv / "bin/python", ROOT / "tests/cluster/check_jobs.py"]
    if not validate.exists():
        try:
            run([sys.executable, "-m", "venv", venv])
            run([venv / "bin/python", "-m", "pip", "install", "--quiet", "kubernetes-validate"])
        except AssertionError as error:
            raise Skip(f"kubernetes-validate cannot be installed: {error}") from error
    files, rows = sorted((ROOT / "deploy/kubernetes").glob("*.yaml")), []
    newest = run([validate, "--version"]).split()[-1].rsplit(".", 1)[0]
    names = ", ".join(f"`{file.name}`" for file in files)
    for version in (OLDEST, newest):
        run([validate, "--strict", "--kubernetes-version", version, *files])
        rows.append((f"{names} against the strict schema of {version} (`kubernetes-validate`)", "valid"))
    rows.append((f"Jobs of {names}: rules of the API server that are not in the schema", run([*check_jobs, *files])))
    schema, whole = [validate, "--strict"], {file.name: file.read_text() for file in files}
    for name, checker, old, new in [
        ("job.yaml", schema, "backoffLimit:", "backofLimit:"),
        ("prepare.yaml", schema, "backoffLimitPerIndex:", "backoffLimitPerIndx:"),
        ("prepare.yaml", schema, "operator: In, values: [42]", "operator: In, values: ['42']"),
        ("prepare.yaml", check_jobs, "completionMode: Indexed", "completionMode: NonIndexed"),
        ("prepare.yaml", check_jobs, "operator: In, values: [42]", "operator: In, values: [43]"),
        ("prepare.yaml", check_jobs, "--count=16", "--count=8"),
    ]:
        broken = scratch / "broken.yaml"
        check(old in whole[name], f"{name}: no `{old}`")
        broken.write_text(whole[name].replace(old, new))
        done = subprocess.run([*checker, broken], capture_output=True, check=False)
        check(done.returncode == 1 and b"Traceback" not in done.stderr, f"{name} with `{new}` was accepted")
        rows.append((f"`{name}` with `{new}` in place of `{old}`", "refused"))
    return rows
