"""Trained runs over HTTP: the page, a translator as LibreTranslate's clients know it, completions as OpenAI's do."""

from regard.web.app import make_app as make_app
from regard.web.server import serve as serve
from regard.web.settings import ServeConfig as ServeConfig
