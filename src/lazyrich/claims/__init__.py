"""The ledger: what the sources state, each statement with a check that can fail.

    ledger      what a claim is, and the list of all of them
    run         tries claims on random problems, and compares what is found with the verdict on record
    draws       random problems within given conditions, in plain NumPy
    oracles     the truth by brute force: derivatives of the loss itself, integration; no formula of a source
    searches    critical points and least losses, found by search
    braun2022 post kunin2024 notes saxe2014     the entries, source by source, with what was judged not checkable; the
                slips that several entries of a source share stand in its `slips`

`lazyrich claims` is the command.
"""

from lazyrich.claims.ledger import Claim, NotChecked, Slip, Verdict, ledger, not_checked, slips
from lazyrich.claims.run import Finding, run

__all__ = ["Claim", "Finding", "NotChecked", "Slip", "Verdict", "ledger", "not_checked", "run", "slips"]
