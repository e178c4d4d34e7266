"""A list of layers that knows their type."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from torch import nn

Layer = TypeVar("Layer", bound=nn.Module, covariant=True)


class Layers(nn.ModuleList, Generic[Layer]):
    """`nn.ModuleList`, whose members are layers of one kind."""

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[Layer]: ...
        def __getitem__(self, index: int) -> Layer: ...  # type: ignore[override]
