"""Follows docs/tutorials/python.md: writes its files, runs its commands, compares what they print."""

import os
import re
import subprocess
import sys

from conftest import ROOT, until


def blocks(text):
    """(file name or None, language, content) of each block."""
    name = None
    for match in re.finditer(r"File `([^`]+)`|```(\w+)\n(.*?)```", text, re.S):
        if match.group(1):
            name = match.group(1)
        else:
            yield name, match.group(2), match.group(3)
            name = None


def test_the_tutorial_runs_word_for_word(tmp_path):
    page = (ROOT / "docs/tutorials/python.md").read_text(encoding="utf-8")
    env = dict(os.environ, PATH=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    ran, compared, printed, server = [], 0, "", None
    try:
        for name, language, content in blocks(page):
            if name:
                (tmp_path / name).write_text(content, encoding="utf-8")
            elif language == "text":
                assert printed == content
                compared += 1
            elif language == "sh" and content.startswith("python "):
                command = content.split()
                ran.append(command[1])
                if command[-1] == "&":
                    log = tmp_path / "log"
                    server = subprocess.Popen(command[:-1], cwd=tmp_path, env=env, stdout=log.open("w"))
                    until(lambda: log.read_text() or server.poll() is not None, "the plant")
                    continue
                done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
                assert done.returncode == 0, done.stdout + done.stderr
                printed = done.stdout
        assert ran == ["plant.py", "look.py", "listen.py", "load.py", "schedule.py"] and compared == 3
        assert "<svg" in (tmp_path / "plant.html").read_text(encoding="utf-8")
    finally:
        if server:
            server.kill()
            server.wait()
