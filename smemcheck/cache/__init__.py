"""Reports kept between runs: when nothing that a report rests on has changed, it is read back and nothing is done again.

    settings, versions, our own files ──▶ key ──▶ reports/KEY: manifest (files, folders) + report
                                                      │ each file and folder as it was?
                                                 yes ─┴─▶ Report          no, or any doubt ─▶ the whole pipeline

The compiler's answers have a store of their own (:mod:`smemcheck.lower.store`): a report that is made anew asks the compiler
only for what it never answered. This package imports the model and nothing of the stages that do the work.
"""

from smemcheck.cache.reports import ReportStore

__all__ = ["ReportStore"]
