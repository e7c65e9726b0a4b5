"""This module reads the surveys of a lake that were stored. It imports no chore, so that a page which shows
one needs little memory.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lakecore.jobs.runner.lake import Lake
from lakecore.jobs.runner.rights import grants_of
from lakecore.maintain.survey.record import State
from lakecore.maintain.survey.store import StoredSurvey, Survey, SurveyStore

__all__ = ["SurveyReader", "counts", "latest_survey", "survey_of_day"]


def latest_survey(lake: Lake) -> Survey | None:
    """Return the newest survey of a lake; None without one. Tables that the user may neither read nor change
    are left out. Raises UnavailableError.
    """
    return SurveyReader().latest(lake)


class SurveyReader:
    """It reads the newest survey of one lake again and again, and decodes it when there is a newer one."""

    def __init__(self) -> None:
        self._stored: StoredSurvey | None = None

    def latest(self, lake: Lake) -> Survey | None:
        """Return the newest survey as `latest_survey` does. It costs one read of storage."""
        stored = self._stored = SurveyStore(lake.file_io, lake.warehouse).latest_after(self._stored)
        return _visible(lake, stored.survey) if stored is not None else None


def survey_of_day(lake: Lake, day: str) -> Survey | None:
    """Return the last survey of a day, `2026-11-22` (UTC), as `latest_survey` does; None without one."""
    return _visible(lake, SurveyStore(lake.file_io, lake.warehouse).of_day(day))


def _visible(lake: Lake, survey: Survey | None) -> Survey | None:
    if survey is None:
        return None
    grants = grants_of(lake)
    return replace(survey, tables=tuple(one for one in survey.tables if grants.may_see(one.table)))


def counts(survey: Survey) -> dict[str, int]:
    """Return the number of tables in each state, without the states of none."""
    states = Counter(record.state for record in survey.tables)
    return {state.value: states[state] for state in State if states[state]}
