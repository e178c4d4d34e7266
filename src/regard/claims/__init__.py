"""The lectures' claims as measurements; verdicts follow from the numbers, never from the text."""

import importlib
import pkgutil
import re

from regard.claims.claim import CLAIMS as CLAIMS
from regard.claims.claim import Claim as Claim
from regard.claims.claim import Finding as Finding
from regard.claims.claim import Verdict as Verdict
from regard.claims.claim import select_claims as select_claims
from regard.claims.result import Result as Result
from regard.claims.result import run_claim as run_claim
from regard.claims.result import stored_results as stored_results
from regard.claims.result import write_page as write_page
from regard.claims.setup import Setup as Setup

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    if re.match(r"f\d", _module):
        importlib.import_module(f"{__name__}.{_module}")
for _name in sorted(CLAIMS, key=lambda name: int(name[1:])):
    CLAIMS[_name] = CLAIMS.pop(_name)
