"""What a file's name tells about it: its format, and how it is compressed."""

from pathlib import PurePath
from typing import Literal

Format = Literal["text", "tsv", "csv", "jsonl", "parquet", "conllu"]
Compression = Literal["gzip", "zstd"]

COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
FORMATS: dict[str, Format] = {
    ".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet",
    ".conllu": "conllu",
}  # fmt: skip
NOT_READ = {
    ".7z", ".arrow", ".bin", ".bz2", ".ckpt", ".docx", ".feather", ".joblib", ".json", ".npy", ".npz", ".pdf",
    ".pickle", ".pkl", ".pt", ".pth", ".rar", ".safetensors", ".tar", ".tgz", ".xls", ".xlsx", ".xz", ".zip",
}  # fmt: skip


def compression_of(file: str | PurePath) -> Compression | None:
    """How a file is compressed, by the end of its name."""
    return COMPRESSIONS.get(PurePath(file).suffix.lower())


def uncompressed_name(file: str | PurePath) -> PurePath:
    """`train.en` for `train.en.gz`."""
    file = PurePath(file)
    return file.with_suffix("") if compression_of(file) else file


def format_of(file: str | PurePath) -> Format:
    """The format of a file by its name; any name that tells nothing is text. ValueError for what cannot be read."""
    suffix = uncompressed_name(file).suffix.lower()
    if suffix in NOT_READ:
        raise ValueError(
            f"'{suffix}' files are not read; convert it to text, .tsv, .csv, .jsonl (one object a line) or .parquet, "
            "each also as .gz or .zst"
        )
    return FORMATS.get(suffix, "text")
