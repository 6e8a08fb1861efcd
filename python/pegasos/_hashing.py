"""Features of texts and words by scikit-learn's hashers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.feature_extraction.text import HashingVectorizer

#: What names a hasher: a number of features, or one of scikit-learn's.
Hashing: TypeAlias = "int | FeatureHasher | HashingVectorizer"


class Hasher:
    """Makes sparse rows of records, whose columns have names.

    With a FeatureHasher of dicts, or a number of features for one of its defaults, a record is the dict of its columns:
    a string becomes the feature "column=string" of value 1, a number the feature "column" of this value. With a
    HashingVectorizer a record must be one text.
    """

    def __init__(self, hashing: Hashing, dtype: Any) -> None:
        from sklearn.feature_extraction import FeatureHasher
        from sklearn.feature_extraction.text import HashingVectorizer

        self._dtype = np.dtype(dtype)
        if isinstance(hashing, int | np.integer) and not isinstance(hashing, bool):
            if not 0 < hashing < 2**31:
                raise ValueError(f"hashing must be at least 1 and less than 2**31, got {hashing}")
            hashing = FeatureHasher(int(hashing), dtype=self._dtype.type)
        if not isinstance(hashing, FeatureHasher | HashingVectorizer):
            raise TypeError(
                f"hashing must be a number of features, a FeatureHasher or a HashingVectorizer, got {hashing!r}"
            )
        #: Whether numbers stay numbers.
        self.takes_numbers = isinstance(hashing, FeatureHasher)
        if isinstance(hashing, FeatureHasher) and hashing.input_type != "dict":
            raise ValueError(f"hashing must be a FeatureHasher of input_type 'dict', got {hashing.input_type!r}")
        self._hasher = hashing
        self.n_features = int(hashing.n_features)

    def describe(self) -> str:
        """What the features depend on; refused where that is a function, of which another may stand at the same place."""
        found = sorted(self._hasher.get_params().items())
        for name, value in found:
            if callable(value) and not isinstance(value, type):
                raise ValueError(f"cache must be None where {name} of hashing is a function, got {value!r}: none tells what it does")
        params = ", ".join(f"{name}={value!r}" for name, value in found)
        return f"{type(self._hasher).__name__}({params})"

    def check(self, names: list[str]) -> None:
        """Refuses columns of which it makes no features."""
        if not self.takes_numbers and len(names) != 1:
            raise ValueError(
                f"a HashingVectorizer takes one column of texts beside the label, got {len(names)}: {', '.join(names)}"
            )

    def rows(self, names: list[str], records: list[list[Any]]) -> Any:
        """A CSR matrix of these records."""
        self.check(names)
        if self.takes_numbers:
            X = self._hasher.transform([dict(zip(names, record, strict=True)) for record in records])
        else:
            X = self._hasher.transform([str(record[0]) for record in records])
        return X.astype(self._dtype, copy=False)
