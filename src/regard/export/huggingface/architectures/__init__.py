"""The architectures of Hugging Face that are exported and imported: one module each, which registers itself."""

from importlib import import_module
from pkgutil import iter_modules

from regard.export.huggingface.architecture import ARCHITECTURES as ARCHITECTURES

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
