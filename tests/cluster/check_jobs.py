"""Checks Kubernetes Jobs for rules of the API server that its schema does not contain, and for exit codes of `cloze prepare`.

Arguments: YAML files. Prints the reactions of the Indexed Jobs to exit codes; exits with 1 and the offences otherwise.
"""

import sys
from pathlib import Path

import yaml

# Exit codes that no retry mends: the configuration, the corpus.
FINAL = (2, 42)


def action(spec: dict, code: int) -> str:
    """Reaction of a Job to an exit code: the first rule that has it."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", []):
        codes = rule.get("onExitCodes")
        if codes and (code in codes["values"]) == (codes["operator"] == "In"):
            return rule["action"]
    return "Count"


def policy_offences(spec: dict, containers: dict) -> list[str]:
    """Offences of `podFailurePolicy` against the validation of `batch/v1`."""
    offences = []
    if spec["template"]["spec"].get("restartPolicy") != "Never":
        offences.append("podFailurePolicy needs `restartPolicy: Never`")
    if spec.get("podReplacementPolicy", "Failed") != "Failed":
        offences.append("podFailurePolicy needs `podReplacementPolicy: Failed`")
    rules = spec["podFailurePolicy"]["rules"]
    if not 1 <= len(rules) <= 20:
        offences.append(f"{len(rules)} rules")
    for rule in rules:
        codes = rule.get("onExitCodes")
        if (codes is None) == ("onPodConditions" not in rule):
            offences.append(f"{rule}: needs either onExitCodes or onPodConditions")
        if rule["action"] == "FailIndex" and "backoffLimitPerIndex" not in spec:
            offences.append("FailIndex needs backoffLimitPerIndex")
        if codes and codes["values"] != sorted(set(codes["values"])):
            offences.append(f"{codes['values']}: not ascending")
        if codes and codes["operator"] == "In" and 0 in codes["values"]:
            offences.append("0 is not a failure")
        if codes and codes.get("containerName") not in containers:
            offences.append(f"no container {codes.get('containerName')}")
    return offences


def index_offences(spec: dict, args: list[str]) -> list[str]:
    """Offences of the keys of an Indexed Job, and differences from the shares of the program."""
    offences = []
    is_indexed, per_index = spec.get("completionMode") == "Indexed", "backoffLimitPerIndex" in spec
    if per_index and not is_indexed:
        offences.append("backoffLimitPerIndex needs `completionMode: Indexed`")
    if "maxFailedIndexes" in spec and not (per_index and spec["maxFailedIndexes"] <= spec["completions"]):
        offences.append("maxFailedIndexes needs backoffLimitPerIndex, and is at most completions")
    if args[:2] != ["prepare", "run"]:
        return offences
    if not (is_indexed and per_index):
        offences.append("`prepare run` needs an Indexed Job with backoffLimitPerIndex")
    if f"--count={spec.get('completions')}" not in args:
        offences.append("`--count` differs from completions")
    return offences


def code_offences(spec: dict, args: list[str]) -> list[str]:
    """Differences of the reactions from the exit codes of `cloze prepare`."""
    if args[0] != "prepare":
        return []
    # Another share may have no unusable file.
    expected = {2: "FailJob", 42: "FailIndex" if args[1] == "run" else "FailJob"}
    return [f"exit code {code}: {action(spec, code)}, not {expected[code]}"
            for code in FINAL if action(spec, code) != expected[code]]


def volume_offences(pod: dict) -> list[str]:
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    mounts = [mount["name"] for container in pod["containers"] for mount in container.get("volumeMounts", [])]
    return [f"no volume {name}" for name in mounts if name not in volumes]


def main(paths: list[str]) -> None:
    offences, reactions = [], []
    for path in map(Path, paths):
        for job in filter(lambda item: item and item["kind"] == "Job", yaml.safe_load_all(path.read_text())):
            spec, name = job["spec"], f"{path.name}, {job['metadata']['name']}"
            pod = spec["template"]["spec"]
            containers = {container["name"]: container for container in pod["containers"]}
            args = pod["containers"][0]["args"]
            found = index_offences(spec, args) + code_offences(spec, args) + volume_offences(pod)
            found += policy_offences(spec, containers) if "podFailurePolicy" in spec else []
            offences += [f"{name}: {offence}" for offence in found]
            if spec.get("completionMode") == "Indexed":
                told = ", ".join(f"exit code {code} {action(spec, code)}" for code in (*FINAL, 1))
                reactions.append(f"`{job['metadata']['name']}`: {spec['completions']} indexes, "
                                 f"`backoffLimitPerIndex: {spec.get('backoffLimitPerIndex')}`, {told}")
    if offences:
        sys.exit("\n".join(offences))
    print("; ".join(reactions))


main(sys.argv[1:])
