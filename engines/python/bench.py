"""A call by isorb beside a call by omniORBpy, to the same server, in turns.

    bench.py OMNIORBPY_BIN [CALLS]

OMNIORBPY_BIN is the folder with omniORBpy's python and omniidl (interop/.build/omniorbpy/venv/bin).
Prints the median time of a call of each, and their ratio, with the name of the processor.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parent / "tests"
ROUNDS = 9

# The client is the same program for both: only the reference differs.
CLIENT = """
import sys, time
radar, reference, calls = None, None, int(sys.argv[3])
if sys.argv[1] == "isorb":
    import isorb
    radar = isorb.idl(sys.argv[4] + "/radar.idl").Radar
    orb = isorb.Orb()
    reference = orb.object(sys.argv[2], radar.Sensor)
else:
    sys.path.insert(0, sys.argv[1])
    from omniORB import CORBA
    import Radar as radar
    reference = CORBA.ORB_init(["client"], CORBA.ORB_ID).string_to_object(sys.argv[2])._narrow(radar.Sensor)
plot = radar.Plot(1, "bogey", radar.Point(3.5, -1.0), radar.search, b"12345678")
cases = {"add": lambda: reference.add(1, 2), "plot": lambda: reference.echo_plot(plot)}
for line in sys.stdin:
    call = cases[line.strip()]
    for _ in range(calls // 10):
        call()
    begun = time.perf_counter()
    for _ in range(calls):
        call()
    print((time.perf_counter() - begun) / calls * 1e6, flush=True)
"""


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return "unknown processor"


def main():
    omni, calls = pathlib.Path(sys.argv[1]).absolute(), sys.argv[2] if len(sys.argv) > 2 else "2000"
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, PATH=f"{omni}:{os.environ['PATH']}")
        subprocess.run([omni / "omniidl", "-bpython", f"-C{folder}", TESTS / "radar.idl"], check=True, env=env)
        file = pathlib.Path(folder) / "sensor.ior"
        server = subprocess.Popen([omni / "python", TESTS / "omni_server.py", folder, file])
        clients = {}
        try:
            while not file.exists():
                if server.poll() is not None:
                    sys.exit("bench: the server ended")
                time.sleep(0.05)
            for name, program, side in (("isorb", sys.executable, "isorb"), ("omniORBpy", omni / "python", folder)):
                command = [program, "-c", CLIENT, side, file.read_text(), calls, TESTS]
                # In another folder, so that the folder `isorb` beside this file does not hide the wheel.
                pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                clients[name] = subprocess.Popen(command, cwd=folder, **pipes)
            print(f"{processor()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {calls} calls a round")
            for case in ("add", "plot"):
                times = {name: [] for name in clients}
                for _ in range(ROUNDS):
                    for name, client in clients.items():
                        client.stdin.write(case + "\n")
                        client.stdin.flush()
                        times[name].append(float(client.stdout.readline()))
                isorb, other = (statistics.median(times[name]) for name in ("isorb", "omniORBpy"))
                ratio = statistics.median(a / b for a, b in zip(times["isorb"], times["omniORBpy"]))
                print(f"{case}: isorb {isorb:.1f} us, omniORBpy {other:.1f} us, ratio {ratio:.2f}")
        finally:
            for process in (*clients.values(), server):
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
