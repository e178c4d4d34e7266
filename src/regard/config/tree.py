"""The base of every config, families of kinds, and pydantic's errors turned into one sentence each.

A *family* is a union of configs told apart by `kind`:

    class RotaryConfig(Config):
        kind: Literal["rotary"] = "rotary"
        theta: float = 1e4
        "Base period; larger reaches further."

    PositionConfig = Annotated[NoPositionConfig | RotaryConfig, BY_KIND, BARE_KIND]
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic._internal._model_construction import ModelMetaclass
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError

from regard.config.synonyms import meant_setting, meant_value
from regard.config.values import Tree, is_table
from regard.errors import ConfigError, nearest

BY_KIND = Field(discriminator="kind")
BARE_KIND = BeforeValidator(lambda value: {"kind": value} if isinstance(value, str) else value)
"""Lets a recipe say `position = "rotary"` for `position = { kind = "rotary" }`."""
LONGEST_NAME = 255  # bytes between two slashes, on all common file systems
LONGEST_VALUE = 200  # characters of a value that an error repeats
SIZED = re.compile(r"\w+ should have (at (?:least|most) \d+ items?) after validation")


def _file_name(value: str) -> str:
    """What no system takes for a file's name is refused here, before anything asks a system for it."""
    if "\0" in value or any(len(part.encode(errors="replace")) > LONGEST_NAME for part in value.split("/")):
        raise ValueError(f"the name of a file or folder (no NUL, at most {LONGEST_NAME} bytes between slashes)")
    return value


FileName = Annotated[str, AfterValidator(_file_name)]
"""The type of settings that name a file or a folder."""


Made = TypeVar("Made")


class _Sentences(ModelMetaclass):
    """Makes `SomeConfig(...)` raise ConfigError; pydantic's own nested validation does not pass through here."""

    def __call__(self: type[Made], *args: object, **settings: object) -> Made:
        try:
            return type.__call__(self, *args, **settings)
        except ValidationError as error:
            assert issubclass(self, Config)
            raise first_problem(self, error) from None


class Config(BaseModel, metaclass=_Sentences):
    """Settings of one part: frozen, unknown names refused, the text under a field is its help."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
    renamed: ClassVar[Mapping[str, str]] = {}
    """Deprecated names of its settings, with the present ones: recipes with an old name load as before."""

    @model_validator(mode="before")
    @classmethod
    def _with_present_names(cls, tree: object) -> object:
        return with_present_names(cls.renamed, tree) if is_table(tree) else tree

    @classmethod
    def from_tree(cls, tree: object) -> Self:
        """The config that a tree of plain values describes."""
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise first_problem(cls, error) from None

    def tree(self) -> Tree:
        """Plain values that `from_tree` reads back; settings that are None are left out, as TOML has no null."""
        return self.model_dump(mode="json", exclude_none=True)

    @classmethod
    def alternatives(cls) -> "Sequence[type[Config]]":
        """The classes that a setting of this type takes: the class itself, or the members of a registered family."""
        return [cls]

    def but(self, **changes: object) -> Self:
        """The same config with some settings changed, checked again."""
        return type(self)(**{**dict(self), **changes})

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler(schema)
        properties = handler.resolve_ref_schema(json_schema)["properties"]
        for name, text in help_texts(cls).items():
            properties[cls.model_fields[name].alias or name]["description"] = text
        return json_schema


def with_present_names(renamed: Mapping[str, str], tree: Mapping[str, object]) -> Mapping[str, object]:
    """A tree whose deprecated keys have their present names; where both are given, the present one decides."""
    present = {renamed[key]: value for key, value in tree.items() if key in renamed}
    return {**present, **{key: value for key, value in tree.items() if key not in renamed}} if present else tree


def help_texts(config: type[BaseModel]) -> dict[str, str]:
    """The text under each setting, also of those that a class has from its bases.

    Read from the source when somebody asks: pydantic would read it while classes are made, half a second for every
    command.
    """
    texts: dict[str, str] = {}
    for owner in reversed(config.__mro__[: config.__mro__.index(BaseModel)]):
        texts |= _texts_of(owner.__module__).get(owner.__qualname__, {})
    return {name: text for name, text in texts.items() if name in config.model_fields}


@cache
def _texts_of(module: str) -> dict[str, dict[str, str]]:
    """The texts under the fields of a module's classes, by qualified name; none where there is no source."""
    try:
        return {name: _under_fields(node) for name, node in _classes(ast.parse(inspect.getsource(sys.modules[module])))}
    except (OSError, TypeError):  # built in, or typed into a prompt
        return {}


def _classes(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield f"{prefix}{child.name}", child
            yield from _classes(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            yield from _classes(child, f"{prefix}{child.name}.<locals>.")
        else:
            yield from _classes(child, prefix)


def _under_fields(node: ast.ClassDef) -> dict[str, str]:
    texts: dict[str, str] = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = inspect.cleandoc(text)
            case _:
                pass
    return texts


def refuse(setting: str, problem: str) -> PydanticCustomError:
    """What a validator raises about one of its own settings: the path then ends in that setting's name."""
    escaped = problem.replace("{", "(").replace("}", ")")
    return PydanticCustomError("refused", "{problem}", {"setting": setting, "problem": escaped})


def kinds(annotation: object) -> dict[str, type[Config]]:
    """The members of a family by kind; empty where the annotation is no family."""
    with_kind = [member for member in members(annotation) if "kind" in member.model_fields]
    return {str(member.model_fields["kind"].default): member for member in with_kind}


def allows_none(annotation: object) -> bool:
    """Whether a setting may be left unset, so that the word none can only mean that."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return allows_none(parts[0])
    if origin not in (Union, UnionType) or type(None) not in parts:
        return False
    choices = [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]
    return "none" not in (*choices, *kinds(annotation))


def default_of(field: FieldInfo) -> object:
    """The default of a setting, made anew where a factory makes it."""
    return field.get_default(call_default_factory=True, validated_data={})


def sub_config(annotation: object) -> type[Config] | None:
    """The config class that stands under an annotation which is no family, if any."""
    return next((member for member in members(annotation) if "kind" not in member.model_fields), None)


def members(annotation: object) -> Sequence[type[Config]]:
    """The configs that a setting takes: those of a family, or one."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return members(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [member for part in get_args(annotation) for member in members(part)]
    return annotation.alternatives() if isinstance(annotation, type) and issubclass(annotation, Config) else []


def first_problem(root: type[Config], error: ValidationError) -> ConfigError:
    """The first complaint of pydantic as a sentence that starts with the setting's path."""
    details = error.errors(include_url=False)[0]
    context = details.get("ctx", {})
    path, owner, annotation = _walk(root, details["loc"])
    if details["type"] == "extra_forbidden":
        return ConfigError(path, _unknown(path, owner, root))
    if details["type"] == "union_tag_invalid":
        tag = str(context["tag"])
        meant = meant_value(tag, kinds(annotation))
        hint = f"that is '{meant}' here" if meant else nearest(tag, kinds(annotation))
        return ConfigError(path, f"unknown kind '{tag}'; {hint}")
    if details["type"] == "union_tag_not_found":
        return ConfigError(path, f"say which kind: {', '.join(sorted(kinds(annotation)))}")
    if details["type"] == "refused":
        setting = context["setting"]
        return ConfigError(f"{path}.{setting}" if path else setting, details["msg"])
    if details["type"] == "missing":
        return ConfigError(path, "this setting is required")
    return ConfigError(path, _complaint(details))


def _unknown(path: str, owner: type[Config], root: type[Config]) -> str:
    """A sentence about a name that a config has not: what it is called here, or what is spelt alike."""
    name, paths = path.rpartition(".")[2], all_paths(root)
    if path not in paths and (hint := meant_setting(name, paths)):  # a setting of another kind has its right name
        return f"unknown setting; {hint}"
    of_kind = f" of kind '{owner.model_fields['kind'].default}'" if "kind" in owner.model_fields else ""
    return f"unknown setting{of_kind}; {nearest(name, owner.model_fields)}"


def all_paths(root: type[Config]) -> set[str]:
    """The paths of all settings, of all kinds."""
    return {path for path, _, _ in walk(root)}


def walk(
    root: type[Config], prefix: str = "", above: tuple[type[Config], ...] = ()
) -> Iterator[tuple[str, type[Config], str]]:
    """Path, owner and name of every setting, of all kinds; a config that holds itself is entered once."""
    for name, field in root.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        yield path, root, name
        for below in members(field.annotation):
            if below not in above:
                yield from walk(below, path, (*above, below))


EXPECTED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    "int_parsing_size": "a whole number of fewer digits",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("string_type", "string_unicode"), "text"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a table"),
}
"""What a setting of a type takes, by pydantic's name of the error: its own messages name classes of the program."""


def _complaint(details: ErrorDetails) -> str:
    message = EXPECTED.get(details["type"]) or details["msg"].removeprefix("Value error, ")
    message = message.removeprefix("Input should be ").replace("String should have", "a text of", 1)
    if sized := SIZED.match(message):
        message = f"a list of {sized[1]}"
    is_choice = details["type"] == "literal_error"
    meant = meant_value(details["input"], re.findall(r"'([^']*)'", message)) if is_choice else ""
    hint = f"; that is '{meant}' here" if meant else ""
    return f"expected {message}, got {_shown(details['input'])}{hint}"


def _shown(value: object) -> str:
    """A value as a person gave it; of one that is long or deep, the beginning is enough."""
    try:
        text = repr(value)
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deeply"
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _walk(root: type[Config], location: tuple[int | str, ...]) -> tuple[str, type[Config], object]:
    """The path a person would write for pydantic's location, the config that owns its end, and the end's annotation."""
    path, owner, annotation = "", root, root
    for step in location:
        family = kinds(annotation)
        if step in family and family[str(step)] is not annotation:  # pydantic's location names the chosen kind
            owner = annotation = family[str(step)]
        elif isinstance(step, int):
            path, annotation = f"{path}[{step}]", (get_args(annotation) or (None,))[0]
        else:
            owner = sub_config(annotation) or owner
            path = f"{path}.{step}" if path else step
            annotation = owner.model_fields[step].annotation if step in owner.model_fields else None
    return path, owner, annotation
