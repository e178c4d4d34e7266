"""Documents: files of which only the texts are translated. One module for each format, which registers itself."""

from regard.config import import_all

import_all(__name__, __path__)
