import pytest

import isorb

FILE = """
policy = "rms"
[[operation]]
name = "imu"
cost = "2 ms"
period = "33 ms"
[[operation]]
name = "navigate"
cost = "{cost}"
deadline = "30 ms"
after = ["imu"]
"""


@pytest.fixture
def schedule(tmp_path):
    file = tmp_path / "plane.toml"
    file.write_text(FILE.format(cost="3 ms"))
    return isorb.Schedule(file)


def test_tasks_are_objects(schedule):
    assert schedule.schedulable and schedule.policy == "rms"
    tasks = {task.name: task for task in schedule.tasks}
    imu = tasks["imu"]
    assert (imu.cost_ns, imu.period_ns, imu.met) == (2_000_000, 33_000_000, True)
    assert imu.slack_ns == imu.deadline_ns - imu.response_ns
    assert "imu" in str(schedule) and "2 tasks" in repr(schedule)


def test_a_plot_is_a_page(schedule, tmp_path):
    plot = schedule.plot("100 ms")
    assert plot.html.startswith("<!") and "navigate" in plot.html and "<svg" in plot.html
    plot.save(tmp_path / "plane.html")
    assert (tmp_path / "plane.html").read_text(encoding="utf-8") == plot.html
    assert schedule._repr_html_().startswith("<iframe srcdoc=")
    with pytest.raises(ValueError, match="span"):
        schedule.plot("soon")


def test_a_missed_deadline_is_no_error(tmp_path):
    file = tmp_path / "late.toml"
    file.write_text(FILE.format(cost="29 ms"))
    late = isorb.Schedule(file, policy="dm")
    assert not late.schedulable and not all(task.met for task in late.tasks)
    assert any(task.slack_ns is None for task in late.tasks)


def test_a_wrong_file_is_named_with_its_line(tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text('policy = "rms"\n[[operation]]\nname = "imu"\ncost = "fast"\n')
    with pytest.raises(isorb.Error, match=r"wrong\.toml:4"):
        isorb.Schedule(file)
    with pytest.raises(isorb.Error, match="none.toml"):
        isorb.Schedule(tmp_path / "none.toml")
    file.write_text(FILE.format(cost="3 ms"))
    with pytest.raises(ValueError, match="policy"):
        isorb.Schedule(file, policy="luck")
