"""What `cbr pretrain` prints."""

from __future__ import annotations

from cbr_pretrain.pairs import PretrainReport
from cbrcore.tables import markdown, number


def pretraining_table(report: PretrainReport) -> str:
    """Similarities of pairs before and after pretraining."""
    names = {
        "same": "rewarded, same template",
        "different": "rewarded, different templates",
        "failed": "rewarded and not, same template",
    }
    rows = [
        [label, number(getattr(report.before, kind), 2), number(getattr(report.after, kind), 2)]
        for kind, label in names.items()
    ]
    return markdown([["mean similarity of pairs", "before", "after"], *rows])
