"""Positions: where each kind acts (inputs, queries and keys, scores) and what it computes there."""

from regard.config import import_all
from regard.nn.position.absolute import Learned as Learned
from regard.nn.position.absolute import LearnedConfig as LearnedConfig
from regard.nn.position.absolute import NoPositionConfig as NoPositionConfig
from regard.nn.position.absolute import Sinusoidal as Sinusoidal
from regard.nn.position.absolute import SinusoidalConfig as SinusoidalConfig
from regard.nn.position.base import Bias as Bias
from regard.nn.position.base import Position as Position
from regard.nn.position.base import PositionConfig as PositionConfig
from regard.nn.position.relative import Alibi as Alibi
from regard.nn.position.relative import AlibiConfig as AlibiConfig
from regard.nn.position.relative import Relative as Relative
from regard.nn.position.relative import RelativeConfig as RelativeConfig
from regard.nn.position.relative import T5Bias as T5Bias
from regard.nn.position.relative import T5Config as T5Config
from regard.nn.position.rotary import Rotary as Rotary
from regard.nn.position.rotary import RotaryConfig as RotaryConfig
from regard.nn.position.tree import TreeConfig as TreeConfig
from regard.nn.position.tree import TreePosition as TreePosition

import_all(__name__, __path__)  # a new kind of position is a file in this folder
