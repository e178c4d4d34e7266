"""What is installed: a bill of materials, and whether any of it has a known weakness. `make audit` runs it.

Writes build/sbom.json (CycloneDX) and build/audit.json (pip-audit). The bill needs no network. Where the advisory
service knows none of the packages, as behind a mirror that serves files only, that is said and is no pass: exit code 3.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

BUILD = Path("build")
NOTHING_ASKED = 3


def main() -> int:
    tools = Path(sys.argv[1])
    BUILD.mkdir(exist_ok=True)
    print(bill(tools))
    return audit(tools)


def bill(tools: Path) -> str:
    """Writes the bill of materials of this environment; says how many parts it has."""
    file = BUILD / "sbom.json"
    options = ["--pyproject", "pyproject.toml", "--output-reproducible", "--of", "JSON", "-o", str(file)]
    subprocess.run([str(tools / "cyclonedx-py"), "environment", *options, sys.executable], check=True)
    return f"{file}: {len(json.loads(file.read_text(encoding='utf-8'))['components'])} components"


def audit(tools: Path) -> int:
    """Asks the advisory service about every package of this environment; says what it answered."""
    file = BUILD / "audit.json"
    file.unlink(missing_ok=True)  # an earlier answer is none to this question
    where = ["--path", sysconfig.get_paths()["purelib"], "--skip-editable"]
    options = ["--format", "json", "--output", str(file), "--progress-spinner", "off"]
    done = subprocess.run([str(tools / "pip-audit"), *where, *options], capture_output=True, text=True)
    if not file.exists():
        print(f"the advisory service cannot be reached: {done.stderr.strip().splitlines()[-1]}")
        return NOTHING_ASKED
    packages = json.loads(file.read_text(encoding="utf-8"))["dependencies"]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    weak = [package for package in packages if package.get("vulns")]
    asked = len(packages) - len(unknown)
    if not asked:
        print("nothing could be asked: the index in use has no advisories; run it where the public one can be reached")
        return NOTHING_ASKED
    print(f"{asked} packages asked about, {len(unknown)} unknown to the advisory service, {len(weak)} with weaknesses")
    for package in weak:
        known = ", ".join(
            f"{one['id']} (mended in {', '.join(one['fix_versions']) or 'no version'})" for one in package["vulns"]
        )
        print(f"  {package['name']} {package['version']}: {known}")
    return 1 if weak else 0


if __name__ == "__main__":
    sys.exit(main())
