"""This module runs units that came to a process as pickles, and pickles what they return or raise."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Sequence

from lakecore.errors import LakeError
from lakecore.executor import UnitWork, watch_units
from lakecore.processes.unit_messages import UnitMessages

__all__ = ["run_unit"]


def run_unit(payload: bytes, send: Callable[[Sequence[UnitWork]], None] | None = None) -> bytes:
    """Run the unit, a function and its task, and return its result; that of a failed unit is its
    exception. `send` sends how far it is, at most once a second, and nothing after the result.
    """
    sender = None if send is None else UnitMessages(send)
    try:
        with watch_units(sender):
            function, task = pickle.loads(payload)
            return pickle.dumps(function(task))
    except Exception as err:  # noqa: BLE001 - the border of a unit: its failure is a result
        return _pickled_error(err)
    finally:
        if sender is not None:
            sender.close()


def _pickled_error(err: Exception) -> bytes:
    """Pickle the exception with its traceback as a note; one that does not survive pickling becomes a
    LakeError.
    """
    err.add_note("".join(traceback.format_exception(err)))
    try:
        data = pickle.dumps(err)
        pickle.loads(data)
    except Exception:  # noqa: BLE001 - any class may break on its way through pickle
        plain = LakeError(f"{type(err).__name__}: {err}")
        for note in err.__notes__:
            plain.add_note(note)
        return pickle.dumps(plain)
    return data
