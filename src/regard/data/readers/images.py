"""Where images lie, by what the recipe names: class folders, a .zip of them, IDX files, or a column of a table."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from regard.data.examples import LabelledPicture, Picture, SourceLocation
from regard.data.findings import Findings
from regard.data.images.folders import folder_pictures, read_image, zip_pictures
from regard.data.images.idx import idx_pictures, is_idx
from regard.data.readers.columns import ColumnError
from regard.data.readers.lines import why_unreadable


def read_pictures(images: Path, labels: Path | None, findings: Findings) -> Iterator[LabelledPicture]:
    """The images of a folder, a .zip, or two IDX files, each with its label."""
    if labels is not None:
        return idx_pictures(images, labels, findings)
    if images.is_dir():
        return folder_pictures(images, findings)
    if images.suffix.lower() == ".zip" and images.is_file():
        return zip_pictures(images, findings)
    findings.add_once("unreadable", images, None, _neither(images))
    return iter(())


def picture_in(value: object, column: str | int, location: SourceLocation) -> Picture:
    """The image in a cell: its bytes, bytes in the `bytes` of a record as Hugging Face has them, or a file's name."""
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return Picture.held(Path(location.file), value, f"row {location.line:,}")
    if not isinstance(value, str) or not value:
        kind = "nothing" if value is None or value == "" else f"a value of type {type(value).__name__}"
        raise ColumnError(f"column '{column}': expected an image's bytes or its file's name, got {kind}")
    file = Path(location.file).parent / Path(value).expanduser()
    if not file.is_file():
        raise ColumnError(f"no such image: {file}; names start at the folder of the table")
    return Picture(file, partial(read_image, file))


def _neither(images: Path) -> str:
    if not images.exists():
        return why_unreadable(images, FileNotFoundError())
    if is_idx(images):
        return "an IDX file of images needs its labels beside it: labels = …"
    return "expected a folder or a .zip that has a folder for each class, or IDX files: images = … and labels = …"
