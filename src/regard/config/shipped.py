"""The recipes, sweeps and example data that come with the program, and how their names are resolved.

regard train pairs                    examples/pairs.toml, unless a file called pairs lies here
[data]
folder = "regard:examples"            the folder of the example data, wherever the program is installed
"""

import re
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from os.path import expanduser  # pathlib's raises where there is no such user
from pathlib import Path

from regard.config.values import table_of, task_of
from regard.errors import ConfigError, DataError

SCHEME = "regard:"
FOLDERS = ("examples", "recipes")
RENAMED_FOLDERS = {"rivals": "baselines"}
"""Folders of recipes that older commands and sweeps still name."""
OWN_FILES = "# the example files that come with regard; take this line away for your own, beside this recipe"


@dataclass(frozen=True)
class Shipped:
    """A recipe or a sweep that comes with the program."""

    name: str
    file: Path
    group: str
    """The folder it lies in, such as recipes/sweeps."""

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8")

    @property
    def task(self) -> str:
        """What it trains: the task; of sweeps, that they are some."""
        tree = tomllib.loads(self.text)
        if "variants" in tree or "sizes" in tree:
            return "sweep" if "variants" in tree else "scaling"
        return task_of(tree)

    @property
    def description(self) -> str:
        """The first sentence of the comment that it begins with."""
        comment = re.match(r"(?:#.*\n)*", self.text)
        words = " ".join(line.removeprefix("#").strip() for line in (comment[0] if comment else "").splitlines())
        return re.split(r"(?<=[.?])\s", words, maxsplit=1)[0].rstrip(".")

    def to_copy(self) -> str:
        """The file for another folder: names of what is shipped in place of names that start at its own."""
        text = re.sub(r'"([^"\n]+\.toml)"', self._by_name, self.text)
        data = table_of(tomllib.loads(self.text), "data")
        sources = [table_of(data, split) for split in ("train", "valid", "test")]
        if "folder" in data or not any({"file", "images", "source"} & {*source} for source in sources):
            return text
        return text.replace("[data]\n", f'[data]\nfolder = "{SCHEME}{self.group}"  {OWN_FILES}\n', 1)

    def _by_name(self, match: re.Match[str]) -> str:
        other = (self.file.parent / match[1]).resolve()
        return next((f'"{one.name}"' for one in shipped().values() if one.file.resolve() == other), match[0])


def root() -> Path:
    """Where examples and recipes lie: in the installed package; in a checkout, beside the source."""
    installed = Path(str(files("regard"))) / "shipped"
    return installed if installed.is_dir() else Path(__file__).parents[3]


@cache
def shipped() -> dict[str, Shipped]:
    """All recipes and sweeps by their names, which are those of the files."""
    toml_files = [file for folder in FOLDERS for file in sorted((root() / folder).rglob("*.toml"))]
    recipes = [Shipped(file.stem, file, file.parent.relative_to(root()).as_posix()) for file in toml_files]
    recipes.sort(key=lambda one: (FOLDERS.index(one.group.partition("/")[0]), one.group, one.name))
    return {one.name: one for one in recipes}


def recipe_file(name: Path | str, folder: Path = Path()) -> Path:
    """The file that a name stands for: a file below `folder` if there is one, else the shipped one of that name."""
    file = folder / name
    if file.is_file():
        return file
    if file.parent.name in RENAMED_FOLDERS:
        renamed = file.parent.with_name(RENAMED_FOLDERS[file.parent.name]) / file.name
        if renamed.is_file():
            return renamed
    recipes = shipped()
    word = Path(name)
    if str(name) in recipes:
        return recipes[str(name)].file
    if file.exists():
        return file
    if word.stem in recipes and word.suffix == ".toml":
        raise DataError(file, f"no such file; the one that comes with regard is called '{word.stem}', without .toml")
    if len(word.parts) == 1 and not word.suffix:
        raise DataError(name, f"no such file, and no recipe of this name comes with regard; {_nearest(str(name))}")
    return file


def _nearest(name: str) -> str:
    close = get_close_matches(name, shipped(), n=3)
    return f"did you mean {' or '.join(repr(one) for one in close)}?" if close else "list them: regard recipes"


def data_folder(name: str) -> Path:
    """A folder that a recipe names; `regard:examples` is the one that comes with the program."""
    if not name.startswith(SCHEME):
        return Path(expanduser(name))
    folder = (root() / name.removeprefix(SCHEME)).resolve()
    if not folder.is_dir() or not folder.is_relative_to(root().resolve()):
        raise ConfigError(
            "data.folder", f"no folder '{name}' comes with regard; known: regard:examples, regard:recipes"
        )
    return folder
