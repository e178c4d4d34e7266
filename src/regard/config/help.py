"""What settings mean: the text under a field is its help, read from the source when somebody asks for it.

pydantic would read it while classes are made, which costs every command half a second for what few of them show.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache

from pydantic import BaseModel


def help_texts(config: type[BaseModel]) -> dict[str, str]:
    """The help of each setting that has one, also of those that a class has from its bases."""
    texts: dict[str, str] = {}
    for owner in reversed(config.__mro__[: config.__mro__.index(BaseModel)]):
        node = _classes_of(owner.__module__).get(owner.__qualname__)
        texts |= _under_fields(node) if node else {}
    return {name: text for name, text in texts.items() if name in config.model_fields}


def _under_fields(node: ast.ClassDef) -> dict[str, str]:
    """Each text that stands directly under a field."""
    texts: dict[str, str] = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(text, str):
                texts[field.target.id] = inspect.cleandoc(text)
    return texts


@cache
def _classes_of(module: str) -> Mapping[str, ast.ClassDef]:
    """The classes of a module in its source, by their qualified names; none where there is no source."""
    try:
        return dict(_classes(ast.parse(inspect.getsource(sys.modules[module])), ""))
    except (OSError, TypeError):  # built in, or typed into a prompt
        return {}


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield f"{prefix}{child.name}", child
            yield from _classes(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            yield from _classes(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from _classes(child, prefix)
