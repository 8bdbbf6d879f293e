import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import isorb
import sensor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def until(condition, what, limit=60.0):
    """Waits until a condition holds; the limit is for a hung machine alone."""
    end = time.monotonic() + limit
    while not (got := condition()):
        assert time.monotonic() < end, f"{what} did not come within {limit} s"
        time.sleep(0.01)
    return got


@pytest.fixture(scope="session")
def radar():
    return isorb.idl(HERE / "radar.idl").Radar


@pytest.fixture(scope="session")
def orb():
    with isorb.Orb(endpoints=["127.0.0.1:0"]) as orb:
        yield orb


@pytest.fixture(scope="session")
def own(orb, radar):
    """A reference to a sensor of another ORB of this process: calls go over TCP."""
    with isorb.Orb(endpoints=["127.0.0.1:0"]) as server:
        reference = server.serve(radar.Sensor, sensor.make(radar)())
        yield orb.object(reference.ior, radar.Sensor)


def omni():
    """The folder of omniORBpy's programs, built by interop/setup.sh."""
    build = os.environ.get("ISORB_INTEROP_BUILD", ROOT / "interop/.build")
    bin = pathlib.Path(build) / "omniorbpy/venv/bin"
    if not (bin / "omniidl").exists():
        if os.environ.get("ISORB_INTEROP_ALLOW_MISSING"):
            pytest.skip("omniORBpy is missing; run interop/setup.sh omniorbpy")
        pytest.fail("omniORBpy is missing; run interop/setup.sh omniorbpy")
    return bin


@pytest.fixture(scope="session")
def omni_stubs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("omni")
    env = dict(os.environ, PATH=f"{omni()}:{os.environ['PATH']}")
    command = [omni() / "omniidl", "-bpython", f"-C{folder}", HERE / "radar.idl"]
    subprocess.run(command, check=True, env=env)
    return folder


@pytest.fixture(scope="session")
def peer(orb, radar, omni_stubs, tmp_path_factory):
    """A reference to a sensor that omniORBpy serves."""
    file = tmp_path_factory.mktemp("peer") / "sensor.ior"
    process = subprocess.Popen([omni() / "python", HERE / "omni_server.py", omni_stubs, file])
    try:
        until(lambda: file.exists() or process.poll() is not None, "the server of omniORBpy")
        yield orb.object(file.read_text(), radar.Sensor)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["own", "peer"])
def remote(request):
    """A sensor of isorb, then one of omniORBpy."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def program():
    """The program `isorb`, built by the engine's script."""
    path = pathlib.Path(os.environ.get("ISORB_PROGRAM", ROOT / "target/debug/isorb"))
    if not path.exists():
        pytest.fail(f"{path} is missing: cargo build -p isorb-cli, or set ISORB_PROGRAM")
    return path


@pytest.fixture
def run_python(tmp_path):
    """Runs a program of Python and gives its output; it must end by itself."""

    def run(text, code=0, limit=120):
        file = tmp_path / "program.py"
        file.write_text(text)
        env = dict(os.environ, PYTHONPATH=str(HERE))
        done = subprocess.run([sys.executable, file], env=env, capture_output=True, text=True, timeout=limit)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def interrupted():
    """Calls a function, presses Ctrl-C meanwhile, and expects that it ends by that."""

    def call(function):
        # A shell's background job ignores the signal.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
        try:
            with pytest.raises(KeyboardInterrupt):
                timer.start()
                function()
        finally:
            timer.join()
            signal.signal(signal.SIGINT, before)

    return call
