"""Puts the recipes and examples into the wheel, as regard/shipped; everything else stands in pyproject.toml."""

import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
FOLDERS = ("recipes", "examples")


def shipped_files() -> Iterator[Path]:
    """The files of both folders, relative to the repository; what their .gitignore names was made by their programs."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.is_file() and not _is_ignored(file):
                yield file.relative_to(ROOT)


def _is_ignored(file: Path) -> bool:
    if "__pycache__" in file.parts or file.name.startswith("."):
        return True
    for folder in file.relative_to(ROOT).parents:
        rules = ROOT / folder / ".gitignore"
        if folder != Path() and rules.is_file():
            parts = file.relative_to(ROOT / folder).parts
            names = [rule.strip("/") for rule in rules.read_text(encoding="utf-8").split()]
            if any(fnmatch(part, name) for part in parts for name in names):
                return True
    return False


class BuildWithShipped(build_py):
    """Copies them beside the package's modules; an editable install reads them where they lie."""

    def run(self) -> None:
        """Builds the package, then adds the files."""
        super().run()
        if not self.editable_mode:
            shipped = Path(self.build_lib) / "regard" / "shipped"
            shutil.rmtree(shipped, ignore_errors=True)  # what an earlier build left there
            for file in shipped_files():
                target = shipped / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, target)


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithShipped})
