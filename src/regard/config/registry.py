"""Families of kinds that register themselves: a new kind is one class, in regard or in a user's own file.

    class PositionConfig(Family):
        "What all positions answer."

    class RotaryConfig(PositionConfig):
        kind: Literal["rotary"] = "rotary"

A setting of type `PositionConfig` then takes every kind that is registered when a recipe is validated.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from typing_extensions import override

from regard.config.tree import BARE_KIND, BY_KIND, Config
from regard.errors import RegardError


def _is_family(cls: type) -> bool:
    """Whether a class stands directly below `Family`, by name, as pydantic asks before `Family` itself is bound."""
    return any((base.__module__, base.__name__) == (__name__, "Family") for base in cls.__bases__)


class Family(Config):
    """Base of a family: its direct subclass is the family, and each class below that has a `kind` is a member."""

    if TYPE_CHECKING:
        kind: Any
    _members: ClassVar[dict[str, type[Config]]]
    _adapter: ClassVar[TypeAdapter[object] | None]
    _in_schema: ClassVar[bool] = False

    @classmethod
    @override
    def __pydantic_init_subclass__(cls, **settings: object) -> None:
        super().__pydantic_init_subclass__(**settings)
        if _is_family(cls):
            cls._members, cls._adapter = {}, None
        elif "kind" in cls.model_fields:
            cls._register()

    @classmethod
    def _register(cls) -> None:
        family = next(base for base in cls.__mro__ if issubclass(base, Family) and _is_family(base))
        kind = str(cls.model_fields["kind"].default)
        other = family._members.get(kind)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise RegardError(f"{cls.__module__}: {family.__name__} has a kind '{kind}' already, in {other.__module__}")
        family._members[kind] = cls
        family._adapter = None

    @classmethod
    @override
    def alternatives(cls) -> Sequence[type[Config]]:
        return list(cls._members.values()) if _is_family(cls) else [cls]

    @classmethod
    @override
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        if not _is_family(cls):
            return handler(source)
        return core_schema.no_info_plain_validator_function(cls._validate)

    @classmethod
    def _validate(cls, value: object) -> object:
        if cls._adapter is None:
            first, *others = cls._members.values()
            union: type[Config] | UnionType = first
            for member in others:
                union |= member
            cls._adapter = TypeAdapter(Annotated.__class_getitem__((union, BY_KIND, BARE_KIND)))  # type: ignore[attr-defined]
        return cls._adapter.validate_python(value)

    @classmethod
    @override
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        if not _is_family(cls):
            return super().__get_pydantic_json_schema__(schema, handler)
        if cls._in_schema:  # a member that holds members of its own family, which the schema has above it
            return {"type": "object", "properties": {"kind": {"enum": list(cls._members)}}}
        cls._in_schema = True
        try:
            members = cls._members.values()
            schemas = [one.__get_pydantic_json_schema__(one.__pydantic_core_schema__, handler) for one in members]
        finally:
            cls._in_schema = False
        return {"oneOf": schemas, "discriminator": {"propertyName": "kind"}}


def import_all(package: str, path: Iterable[str]) -> None:
    """Imports every module of a package, so that the kinds in them register; called in its `__init__`."""
    for module in sorted(iter_modules(path), key=lambda module: module.name):
        import_module(f"{package}.{module.name}")
