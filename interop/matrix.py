#!/usr/bin/env python3
"""Runs pairs of peers against each other and closes with a table of the cases per peer and direction.

    interop/matrix.py [--server PEER]... [--client PEER]... [--mode MODE]... [--only CASE,CASE] [--naming SERVICE]...

Peers: omniorb, omniorbpy, jacorb, isorb. Without --server or --client: all that are built. A server runs once for each
client, on a free port, and is stopped by end of input, then by its process id. Exit code 1 when a case failed, a peer
did not start, or a peer ended otherwise than it should.
"""

import argparse
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("ISORB_INTEROP_BUILD", os.path.join(HERE, ".build"))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(os.path.dirname(HERE), "target"))


def built(peer):
    return {role: [os.path.join(BUILD, peer, role)] for role in ("server", "client")}


def isorb():
    for profile in ("release", "debug"):
        binary = os.path.join(TARGET, profile, "isorb-peer")
        if os.path.exists(binary):
            return {"server": [binary, "server"], "client": [binary, "client"]}
    return {"server": ["isorb-peer"], "client": ["isorb-peer"]}


# A peer is two commands with the contract of README.md.
PEERS = {"omniorb": built("omniorb"), "omniorbpy": built("omniorbpy"), "jacorb": built("jacorb"), "isorb": isorb()}

# What both sides get in addition.
MODES = {
    "plain": [],
    "giop10": ["--giop", "1.0"],
    "giop11": ["--giop", "1.1"],
    "utf8": ["--utf8"],
    "bidir": ["--bidir"],
}

SERVER_START, CLIENT_TIME, SERVER_END = 30, 180, 10  # seconds


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Process:
    """A child process; its standard output is read by lines with a time limit. Ended by its own id."""

    def __init__(self, command, **kwargs):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **kwargs)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.child.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def line(self, end):
        """The next line, or None at the end of output; raises queue.Empty at the time `end`."""
        return self.lines.get(timeout=max(0.001, end - time.monotonic()))

    def stop(self, seconds):
        """Closes stdin and waits; kills when that does not help. True when the process ended by itself with 0."""
        try:
            self.child.stdin.close()
        except BrokenPipeError:
            pass
        try:
            return self.child.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
            return False


class NameService:
    """omniNames, JacORB's or isorb's naming on a free port, as a context manager that gives the URL."""

    def __init__(self, kind, folder, log):
        self.kind, self.folder, self.log, self.port = kind, folder, log, free_port()

    def command(self):
        if self.kind == "omninames":
            logs = tempfile.mkdtemp(dir=self.folder)
            return ["omniNames", "-start", str(self.port), "-logdir", logs, "-errlog", os.path.join(logs, "errors"),
                    "-ORBendPoint", "giop:tcp:127.0.0.1:%d" % self.port]
        if self.kind == "jacorb":
            return [os.path.join(BUILD, "jacorb", "naming"), str(self.port)]
        return [PEERS["isorb"]["server"][0].replace("isorb-peer", "isorb"), "naming", "--port", str(self.port), "--memory"]

    def __enter__(self):
        self.child = subprocess.Popen(self.command(), stdin=subprocess.PIPE, stdout=self.log, stderr=self.log)
        end = time.monotonic() + SERVER_START
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return "corbaloc:iiop:1.2@127.0.0.1:%d/NameService" % self.port
            except OSError:
                if time.monotonic() > end or self.child.poll() is not None:
                    self.__exit__()
                    raise RuntimeError("name service %s does not start" % self.kind) from None
                time.sleep(0.05)

    def __exit__(self, *_):
        self.child.terminate()
        try:
            self.child.wait(SERVER_END)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Matrix:
    def __init__(self, options, log):
        self.options, self.log = options, log
        self.cells = {}  # (server, client, what) -> [passed, failed, skipped]

    def count(self, key, outcome):
        self.cells.setdefault(key, [0, 0, 0])[("ok", "FAIL", "skip").index(outcome)] += 1

    def problem(self, key, text):
        self.count(key, "FAIL")
        print("%s -> %s, %s: FAIL %s" % (key[1], key[0], key[2], text), flush=True)

    def pair(self, server, client, what, server_args, client_args, url=None):
        """One server, one client. `url` replaces the reference of the --ior-file."""
        key = (server, client, what)
        with tempfile.NamedTemporaryFile(suffix=".ior") as ior_file:
            command = PEERS[server]["server"] + ["--ior-file", ior_file.name] + server_args + self.options.server_arg
            running = Process(command, stderr=self.log)
            try:
                try:
                    ready = running.line(time.monotonic() + SERVER_START)
                except queue.Empty:
                    ready = "nothing"
                if ready != "READY":
                    return self.problem(key, "the server said %r instead of READY" % ready)
                reference = url or ior_file.read().decode().strip()
                self.client(key, PEERS[client]["client"] + ["--ior", reference] + client_args + self.options.client_arg)
            finally:
                if not running.stop(SERVER_END):
                    self.problem(key, "the server did not end by itself with 0 (it ended with %s)" % running.child.returncode)

    def client(self, key, command):
        running = Process(command, stderr=self.log)
        end, done = time.monotonic() + CLIENT_TIME, False
        try:
            while (line := running.line(end)) is not None:
                outcome, _, rest = line.partition(" ")
                if outcome in ("ok", "FAIL", "skip"):
                    self.count(key, outcome)
                    if outcome == "FAIL" or self.options.verbose:
                        print("%s -> %s, %s: %s %s" % (key[1], key[0], key[2], outcome, rest), flush=True)
                done = done or outcome == "done"
            if not done:
                self.problem(key, "the client ended early")
        except queue.Empty:
            self.problem(key, "the client took more than %d s" % CLIENT_TIME)
        finally:
            running.stop(SERVER_END if done else 0)

    def table(self):
        print("\n%-14s %-14s %-18s %6s %6s %7s" % ("server", "client", "mode", "ok", "FAIL", "skip"))
        for (server, client, what), counts in self.cells.items():
            print("%-14s %-14s %-18s %6d %6d %7d" % (server, client, what, *counts))
        passed, failed, skipped = (sum(c[i] for c in self.cells.values()) for i in range(3))
        print("\n%d passed, %d failed, %d skipped" % (passed, failed, skipped))
        return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", action="append", choices=PEERS)
    parser.add_argument("--client", action="append", choices=PEERS)
    parser.add_argument("--mode", action="append", choices=MODES, help="default: all")
    parser.add_argument("--naming", action="append", choices=["omninames", "jacorb", "isorb", "none"], help="default: omninames")
    parser.add_argument("--only", default="", help="cases, separated by commas")
    parser.add_argument("--server-arg", action="append", default=[], help="goes to each server as it is")
    parser.add_argument("--client-arg", action="append", default=[], help="goes to each client as it is")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    there = [peer for peer in PEERS if os.path.exists(PEERS[peer]["server"][0])]
    servers, clients = options.server or there, options.client or there
    for peer in set(servers + clients) - set(there):
        sys.exit("matrix.py: peer %s is not built (interop/setup.sh, cargo build)" % peer)
    only = ["--only", options.only] if options.only else []
    # A case that only one mode can run is all that this mode adds.
    mode_only = {"utf8": ["--only", "utf8_strings,strings,sequences"], "bidir": ["--only", "bidirectional,oneways,large"]}

    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "wb") as log:
        matrix = Matrix(options, log if not options.verbose else None)
        for server in servers:
            for client in clients:
                for mode in options.mode or MODES:
                    extra = only or mode_only.get(mode, [])
                    matrix.pair(server, client, mode, MODES[mode], MODES[mode] + extra)
        for service in options.naming or ["omninames"]:
            if service == "none":
                continue
            with NameService(service, folder, log) as url:
                # The server binds itself, the client resolves; then the client uses the whole service.
                for server in servers:
                    for client in clients:
                        path = "interop/%s" % server
                        # JacORB's service differs in to_url and changes references; binding and resolving work.
                        cases = "scalars" if service == "jacorb" else "scalars,naming"
                        name = url.replace("corbaloc:", "corbaname:").rsplit("/", 1)[0] + "#" + path
                        matrix.pair(server, client, service, ["--ns", url, "--name", path],
                                    ["--ns", url, "--only", cases], url=name)
        sys.exit(1 if matrix.table() else 0)


main()
