"""torch, whose own types a strict checker knows only in part.

Above: the modules of this package that compute. Below: torch, imported when this module is: whoever only reads settings
does not import it.
"""

from __future__ import annotations

from typing import Any

import torch as library

torch: Any = library
Tensor = Any
"""A `torch.Tensor`; docstrings give its shape."""
