"""The manifest of a checkpoint: size and SHA-256 of each file, written last, and read before anything else is.

    {"format": 1, "files": {"model.safetensors": {"size": 4096, "sha256": "…"}, …}, "sha256": "…"}

The last entry is the SHA-256 of the entries before it: no byte can change anywhere, here or in a file, unnoticed.
"""

from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import TypedDict

from regard.config.values import is_table
from regard.errors import RunError
from regard.files.atomic import sha256_of, sync_file
from regard.files.run_folder import MANIFEST_FILE
from regard.files.strict_json import from_json, to_json

FORMAT = 1
JSON_LIMIT = 64 * 2**20  # bytes: a larger JSON file is not one of ours, and is not read


class Entry(TypedDict):
    size: int
    sha256: str


def write_manifest(folder: Path) -> None:
    """Writes sizes and SHA-256 of all files of a folder, once they are on the disk."""
    files: dict[str, Entry] = {}
    for file in sorted(folder.iterdir()):
        files[file.name] = {"size": file.stat().st_size, "sha256": sha256_of(file)}
        sync_file(file)
    (folder / MANIFEST_FILE).write_text(_sealed(files), encoding="utf-8")
    sync_file(folder / MANIFEST_FILE)


def problem_in(folder: Path, required: Collection[str] = ()) -> str | None:
    """What is wrong with a checkpoint, beginning with the file; None where all is as it was written."""
    try:
        described = _read(folder)
        present = {file.name for file in folder.iterdir() if not file.name.startswith(".")} - {MANIFEST_FILE}
        for name in sorted({*described, *present, *required}):
            if name not in present:
                return f"{folder / name}: is missing"
            if name not in described:
                return f"{folder / name}: is not in the manifest, so it does not belong here"
            if problem := _difference(folder / name, described[name]):
                return f"{folder / name}: {problem}"
    except PermissionError as error:
        raise RunError(f"{error.filename}: cannot be read (permission denied); change its permissions") from None
    except OSError as error:
        return f"{error.filename or folder}: cannot be read ({error.strerror})"
    except ValueError as error:
        return f"{folder / MANIFEST_FILE}: {error}"
    return None


def _difference(file: Path, described: Entry) -> str | None:
    status = file.stat()
    if not S_ISREG(status.st_mode):
        return "is not a file"
    if status.st_size != described["size"]:
        return f"has {status.st_size:,} bytes, the manifest says {described['size']:,}"
    return None if sha256_of(file) == described["sha256"] else "SHA-256 differs from the manifest"


def _read(folder: Path) -> dict[str, Entry]:
    """Entries of the files; ValueError unless the manifest is, byte for byte, what `write_manifest` writes."""
    text = read_small(folder / MANIFEST_FILE).decode(errors="replace")
    try:
        manifest = from_json(text)
    except ValueError as error:
        raise ValueError(f"is damaged ({error})") from None
    if not is_table(manifest) or not is_table(files := manifest.get("files")):
        raise ValueError("is no manifest")
    if manifest.get("format") != FORMAT:
        raise ValueError(f"has format {manifest.get('format')!r}, this version of regard reads {FORMAT}")
    if text != _sealed(files):
        raise ValueError("is damaged (its own SHA-256 differs)")
    return {name: _entry(file) for name, file in files.items()}


def _entry(file: object) -> Entry:
    match file:
        case {"size": int(size), "sha256": str(digest)}:
            return {"size": size, "sha256": digest}
        case _:
            raise ValueError("does not give size and SHA-256 of each file")


def _sealed(files: Mapping[str, object]) -> str:
    body = {"format": FORMAT, "files": files}
    return to_json({**body, "sha256": sha256(to_json(body).encode()).hexdigest()}, indent=1) + "\n"


def read_small(file: Path) -> bytes:
    """The contents of a small JSON file; ValueError, before it is read, where it is too large or no file."""
    status = file.stat()
    if not S_ISREG(status.st_mode) or status.st_size > JSON_LIMIT:
        raise ValueError(f"is no file of at most {JSON_LIMIT:,} bytes")
    return file.read_bytes()
