"""regard: train a Transformer on your own data, see which of its parts matter, look inside it, ship it.

    import regard

    run = regard.train("pairs", out="runs/pairs")          # a recipe, files, or data from memory
    run = regard.load("runs/pairs")
    run.translate("The dog sleeps because it is tired.")

Everything is loaded when it is first used, so that `import regard` takes milliseconds.
"""

import os
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False  # what typing calls so; typing itself takes longer to load than all of this
if TYPE_CHECKING:
    from collections.abc import Callable

    from regard.api.inside import Attention as Attention
    from regard.api.inside import AttentionWeights as AttentionWeights
    from regard.api.inside import Hidden as Hidden
    from regard.api.inside import Logits as Logits
    from regard.api.inside import Look as Look
    from regard.api.runs import Run as Run
    from regard.api.runs import load as load
    from regard.api.training import compare as compare
    from regard.api.training import train as train
    from regard.errors import RegardError as RegardError

__version__ = "0.1.0"

HOMES = {
    "Attention": "regard.api.inside",
    "AttentionWeights": "regard.api.inside",
    "Hidden": "regard.api.inside",
    "Logits": "regard.api.inside",
    "Look": "regard.api.inside",
    "RegardError": "regard.errors",
    "Run": "regard.api.runs",
    "compare": "regard.api.training",
    "load": "regard.api.runs",
    "train": "regard.api.training",
}
"""The module of each public name."""
__all__ = [
    "Attention",
    "AttentionWeights",
    "Hidden",
    "Logits",
    "Look",
    "RegardError",
    "Run",
    "compare",
    "load",
    "train",
]

# torch's CPU threads wait for one another by spinning. The usual long spin makes every step of a small model tens of
# times slower as soon as another program wants a core; a short one costs nothing measurable on an idle machine.
os.environ.setdefault("GOMP_SPINCOUNT", "5000")


def __getattr__(name: str) -> object:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = getattr(import_module(HOMES[name]), name)
    return globals().get(name, function)  # the package of that name, if there is one, is loaded by now


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class CallablePackage(ModuleType):
    """A package of the same name as a public function, such as `regard.train`: called and explained as the function."""

    def __call__(self, *arguments: object, **options: object) -> object:
        return self._function(*arguments, **options)

    @property
    def _function(self) -> "Callable[..., object]":
        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(HOMES[name]), name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self._function.__doc__

    @property
    def __signature__(self) -> object:
        from inspect import signature  # here, as few programs need it

        return signature(self._function)
