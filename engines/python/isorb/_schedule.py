"""The page of a schedule, for files and notebooks."""

import html as _html
import pathlib as _pathlib

from ._isorb import Schedule as _Schedule


class Plot:
    """The page of `isorb sched plot`. A notebook shows it."""

    def __init__(self, page):
        self.html = page

    def save(self, path):
        """Writes the page, which needs no other file."""
        _pathlib.Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self):
        # In a frame: the page has its own style and script.
        page = _html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:30em;border:0" title="schedule"></iframe>'


class Schedule:
    """A schedule file, analysed. `str` gives the table of `isorb sched check`."""

    def __init__(self, file, policy=None):
        self._schedule = _Schedule(file, policy)

    schedulable = property(lambda self: self._schedule.schedulable, doc="Whether every deadline is met.")
    utilisation = property(lambda self: self._schedule.utilisation, doc="Of the processor, as text.")
    policy = property(lambda self: self._schedule.policy, doc="The policy.")
    warnings = property(lambda self: self._schedule.warnings, doc="Findings, as sentences.")
    tasks = property(lambda self: self._schedule.tasks, doc="The tasks with their verdicts.")

    def plot(self, span=None):
        """The timeline as a page; `span` is the time to draw, such as '200 ms'."""
        return Plot(self._schedule.page(span))

    def __str__(self):
        return str(self._schedule)

    def __repr__(self):
        return repr(self._schedule)

    def _repr_html_(self):
        return self.plot()._repr_html_()
