"""The manifest of a checkpoint: size and SHA-256 of each file, written last, and read before anything else is.

    {"format": 1, "files": {"model.safetensors": {"size": 4096, "sha256": "…"}, …}, "sha256": "…"}

The last entry is the SHA-256 of the entries before it: no byte can change anywhere, here or in a file, unnoticed.
"""

from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import Any

from regard.errors import RunError
from regard.files.atomic import sha256_of, sync_file
from regard.files.run_folder import MANIFEST_FILE
from regard.files.strict_json import from_json, to_json

FORMAT = 1
JSON_LIMIT = 64 * 2**20  # bytes: a larger JSON file is not one of ours, and is not read


def write_manifest(folder: Path) -> None:
    """Waits until every file of the folder is on the disk, then writes down what they hold."""
    files: dict[str, Any] = {}
    for file in sorted(folder.iterdir()):
        files[file.name] = {"size": file.stat().st_size, "sha256": sha256_of(file)}
        sync_file(file)
    (folder / MANIFEST_FILE).write_text(_sealed(files), encoding="utf-8")
    sync_file(folder / MANIFEST_FILE)


def problem_in(folder: Path, required: Collection[str] = ()) -> str | None:
    """What is wrong with a checkpoint, beginning with the file it is about; None where all is as it was written."""
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
        raise RunError(f"{error.filename}: must not be read (permission denied); give yourself the right to") from None
    except OSError as error:
        return f"{error.filename or folder}: cannot be read ({error.strerror})"
    except ValueError as error:
        return f"{folder / MANIFEST_FILE}: {error}"
    return None


def _difference(file: Path, described: dict[str, Any]) -> str | None:
    found = file.stat()
    if not S_ISREG(found.st_mode):
        return "is not a file"
    if found.st_size != described["size"]:
        return f"has {found.st_size:,} bytes, the manifest says {described['size']:,}"
    return None if sha256_of(file) == described["sha256"] else "SHA-256 differs from the manifest"


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    """The files and what the manifest says of them; ValueError unless it is, byte for byte, what we would write."""
    text = read_small(folder / MANIFEST_FILE).decode(errors="replace")
    try:
        found = from_json(text)
    except ValueError as error:
        raise ValueError(f"is damaged ({error})") from None
    if not isinstance(found, dict) or not isinstance(found.get("files"), dict):
        raise ValueError("is no manifest")
    if found.get("format") != FORMAT:
        raise ValueError(f"has format {found.get('format')!r}, this version of regard reads {FORMAT}")
    if text != _sealed(found["files"]):
        raise ValueError("is damaged (its own SHA-256 differs)")
    if not all(_is_described(file) for file in found["files"].values()):
        raise ValueError("does not give size and SHA-256 of each file")
    return found["files"]


def _is_described(file: object) -> bool:
    return isinstance(file, dict) and isinstance(file.get("size"), int) and isinstance(file.get("sha256"), str)


def _sealed(files: dict[str, Any]) -> str:
    body = {"format": FORMAT, "files": files}
    return to_json({**body, "sha256": sha256(to_json(body).encode()).hexdigest()}, indent=1) + "\n"


def read_small(file: Path) -> bytes:
    """The contents of a JSON file; ValueError where it is none of ours, before anything of it is read."""
    found = file.stat()
    if not S_ISREG(found.st_mode) or found.st_size > JSON_LIMIT:
        raise ValueError(f"is no file of at most {JSON_LIMIT:,} bytes")
    return file.read_bytes()
