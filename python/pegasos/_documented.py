"""Links from the HTML representation of estimators to their documentation."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata


@cache
def documentation() -> str:
    """The address that the installed package gives for its documentation; nothing where it gives none."""
    try:
        addresses = metadata("pegasos").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    for label, _, address in (entry.partition(",") for entry in addresses):
        if label.strip().lower() == "documentation":
            return address.strip()
    return ""


class Documented:
    """An estimator with such a link."""

    def _get_doc_link(self) -> str:
        # By this method scikit-learn asks; without an address it draws no link.
        return documentation()
