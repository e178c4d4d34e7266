"""The field's words: identifiers and texts for users name things as papers, PyTorch and Hugging Face do.

python tests/test_glossary.py [FOLDER …] prints what is left, with file and line.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"

PARTS = {
    "sight": "context", "blind": "may_mask_all_keys", "heard": "source_kv", "listen": "attend", "listens": "attends",
    "told": "stated", "asked": "q, query, requested", "slope": "gradient", "slopes": "gradients", "bend": "activation",
    "bends": "activations", "laid": "prepacked", "lean": "CPU decoding step", "graphed": "cuda_graph",
    "newest": "decode", "room": "static cache, capacity", "rooms": "static caches", "oddities": "anomalies",
    "lexicon": "vocabularies", "numbering": "id_mapping", "rival": "baseline", "rivals": "baselines",
    "tiling": "block_layout", "meeting": "rendezvous", "heartbeat": "watchdog", "judge": "classify", "judged": "scored",
    "learnt": "learned", "shelf": "registry", "pulse": "step statistics", "beat": "pending statistics",
}  # fmt: skip
"""Words that are no part of an identifier (between underscores or humps), and the field's word."""
NAMES = {
    "found": "what it is", "own": "what it is", "given": "what it is", "place": "position, source location",
    "places": "positions", "each": "row, item", "known": "k, key", "feed": "prefetcher", "maps": "projections",
    "carried": "residual", "clock": "cache lengths", "draws": "sampling", "wanted": "what it is",
    "said": "output, message", "kept": "what it is", "done": "finished", "taken": "elapsed, selected",
}  # fmt: skip
"""Whole names that say nothing of what they hold."""
OLD_NAMES = ("config/shipped.py",)
"""Files that name what is still found by its old name."""
ALLOWED: dict[str, set[str]] = {
    "nn/position": {"slope", "slopes"},  # of ALiBi, as its paper calls them
    "data/street": {"lexicon", "place", "places", "clock", "room"},  # a grammar: its lexicon, nouns and prepositions
}
"""Names that are right where they stand, by folder."""
PHRASES = (
    r"the budget is spent", r"\bgoes on\b", r"learnt from", r"\bnumbers that are learnt", r"\bwhole numbers\b",
    r"\brivals?\b", r"\basks? (?:all )?keys\b", r"\blistens? to\b", r"\bnumber formats?\b",
)  # fmt: skip
"""What texts for users do not say."""


def words_of(identifier: str) -> list[str]:
    """The words between underscores and humps: `KVCache` has key and values."""
    return re.findall(r"[a-z]+", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", identifier).lower())


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """All names that a module binds, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname


def problems(file: Path) -> Iterator[str]:
    """What a source file still calls otherwise than the field."""
    allowed = {name for folder, names in ALLOWED.items() if folder in file.as_posix() for name in names}
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for word in set(words_of(file.stem)) & (PARTS.keys() | NAMES.keys()) - allowed:
        yield f"{file}: file name: {word}"
    for line, name in sorted(set(identifiers(tree))):
        if name.lower().strip("_") in NAMES.keys() - allowed:
            yield f"{file}:{line}: {name} -> {NAMES[name.lower().strip('_')]}"
        for word in set(words_of(name)) & PARTS.keys() - allowed:
            yield f"{file}:{line}: {name} -> {PARTS[word]}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for phrase in PHRASES if not file.as_posix().endswith(OLD_NAMES) else ():
                if re.search(phrase, node.value):
                    yield f"{file}:{node.lineno}: text: {re.search(phrase, node.value)[0]!r}"  # type: ignore[index]


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", sources(), ids=lambda file: file.relative_to(SOURCE).as_posix())
def test_names_are_the_fields(file: Path):
    assert not list(problems(file))


def documents() -> list[Path]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [*pages, *sorted((ROOT / "page" / "src").rglob("*.ts"))]


@pytest.mark.parametrize("file", documents(), ids=lambda file: file.relative_to(ROOT).as_posix())
def test_documents_and_the_page_use_the_fields_words(file: Path):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)  # names and commands
    assert not [match[0] for phrase in PHRASES for match in re.finditer(phrase, text)]


if __name__ == "__main__":
    folders = [Path(name) for name in sys.argv[1:]] or [SOURCE]
    files = sorted(file for folder in folders for file in (folder.rglob("*.py") if folder.is_dir() else [folder]))
    left = [problem for file in files for problem in problems(file)]
    sys.stdout.write("\n".join([*left, f"{len(left)} names", ""]))
