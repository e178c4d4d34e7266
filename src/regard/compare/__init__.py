"""Fair comparisons: equal budgets, several seeds, significance, scores beside FLOPs; and scaling laws."""

import sys

from regard import CallablePackage
from regard.compare.comparison import Comparison as Comparison
from regard.compare.comparison import compare_sweep as compare_sweep
from regard.compare.ladder import LadderConfig as LadderConfig
from regard.compare.ladder import Scaling as Scaling
from regard.compare.ladder import read_ladder as read_ladder
from regard.compare.ladder import train_ladder as train_ladder
from regard.compare.sweep import Sweep as Sweep
from regard.compare.sweep import SweepConfig as SweepConfig
from regard.compare.sweep import read_sweep as read_sweep

sys.modules[__name__].__class__ = CallablePackage
