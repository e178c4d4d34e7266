"""The lectures' claims as measurements: one file a claim; the verdict follows from the numbers, never from the text."""

from regard.claims.claim import Claim as Claim
from regard.claims.claim import Finding as Finding
from regard.claims.claim import Verdict as Verdict
from regard.claims.page import write_page as write_page
from regard.claims.registry import CLAIMS as CLAIMS
from regard.claims.registry import chosen as chosen
from regard.claims.result import Result as Result
from regard.claims.result import run_claim as run_claim
from regard.claims.result import stored_results as stored_results
from regard.claims.setup import Setup as Setup
