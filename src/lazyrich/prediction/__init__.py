"""What `predict` knows, and how: one file for each way, and the result.

by_flow  by_gram  by_modes     integrated, twice; or estimated from each mode by itself and what couples them
looking                        when to look, and until when
closed_form                    every mode by itself, beside what was integrated
modes  error                   what is followed, and how far two runs are apart
result  told                   `Prediction`, and its print
"""

from lazyrich.prediction.result import Prediction

__all__ = ["Prediction"]
