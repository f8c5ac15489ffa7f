"""Answers of `ipsq path` against the independent oracle on `ipsq graph`."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

import path_oracle  # noqa: E402
