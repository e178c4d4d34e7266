"""Recipes as trees of frozen settings: TOML in and out, `key=value` on top, errors that name the path. No torch."""

from regard.config.explain import Setting as Setting
from regard.config.explain import Unused as Unused
from regard.config.explain import explain as explain
from regard.config.explain import search as search
from regard.config.explain import unused_sentences as unused_sentences
from regard.config.merge import layered as layered
from regard.config.merge import parse_override as parse_override
from regard.config.merge import resolve as resolve
from regard.config.plugins import Plugins as Plugins
from regard.config.registry import Family as Family
from regard.config.registry import import_all as import_all
from regard.config.tree import BARE_KIND as BARE_KIND
from regard.config.tree import BY_KIND as BY_KIND
from regard.config.tree import Config as Config
from regard.config.tree import FileName as FileName
from regard.config.tree import kinds as kinds
from regard.config.tree import refuse as refuse
from regard.config.values import dump_toml as dump_toml
from regard.config.values import read_toml as read_toml
