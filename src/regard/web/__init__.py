"""Trained runs over HTTP: the page, translation for LibreTranslate's clients, completions for OpenAI's."""

from regard.web.app import make_app as make_app
from regard.web.app import serve as serve
from regard.web.settings import ServeConfig as ServeConfig
