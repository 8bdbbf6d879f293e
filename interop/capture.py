#!/usr/bin/env python3
"""Records what real ORBs send to each other: a TCP proxy between client and server that cuts the stream into GIOP messages.

    interop/capture.py            # rewrites interop/golden/*.hex and interop/golden/iors.txt

Needs the peers that setup.sh builds. golden/README.md describes the format and what is kept.
"""

import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("ISORB_INTEROP_BUILD", os.path.join(HERE, ".build"))
GOLDEN = os.path.join(HERE, "golden")
NAMES = {"omniorb": "omniORB 4.2.5 C++", "omniorbpy": "omniORBpy 4.3.3", "jacorb": "JacORB 3.9"}
TYPES = ["Request", "Reply", "CancelRequest", "LocateRequest", "LocateReply", "CloseConnection", "MessageError", "Fragment"]
REPLIES = ["NO_EXCEPTION", "USER_EXCEPTION", "SYSTEM_EXCEPTION", "LOCATION_FORWARD", "LOCATION_FORWARD_PERM", "NEEDS_ADDRESSING_MODE"]
LOCATES = ["UNKNOWN_OBJECT", "OBJECT_HERE", "OBJECT_FORWARD", "OBJECT_FORWARD_PERM", "LOC_SYSTEM_EXCEPTION", "LOC_NEEDS_ADDRESSING_MODE"]
SMALL, EACH, CHAINS = 3000, 2, 2  # octets of a message that is kept; messages of one kind; fragmented messages of one file


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cursor:
    """As much CDR as message headers and references need."""

    def __init__(self, data, little, at=0):
        self.data, self.order, self.at = data, "<" if little else ">", at

    def number(self, code, size):
        self.at += -self.at % size
        value = struct.unpack_from(self.order + code, self.data, self.at)[0]
        self.at += size
        return value

    def octet(self):
        return self.number("B", 1)

    def short(self):
        return self.number("H", 2)

    def long(self):
        return self.number("I", 4)

    def octets(self):
        length = self.long()
        self.at += length
        return self.data[self.at - length:self.at]

    def string(self):
        return self.octets().rstrip(b"\0").decode("latin-1")

    def contexts(self):
        return [(self.long(), self.octets()) for _ in range(self.long())]


class Message:
    def __init__(self, sender, data):
        self.sender, self.data = sender, data
        self.minor, self.flags, self.type = data[5], data[6], data[7]
        self.little, self.more = bool(self.flags & 1), bool(self.flags & 2) and self.minor > 0
        self.id = self.status = None
        self.operation, self.flags_text, self.context_ids = "", "", []
        kind = TYPES[self.type]
        try:
            getattr(self, kind, lambda c: None)(Cursor(data, self.little, 12))
        except (struct.error, IndexError):
            self.flags_text = " (header cut)"

    def Request(self, c):
        if self.minor < 2:
            self.context_ids = [i for i, _ in c.contexts()]
            self.id, respond = c.long(), c.octet()
            if self.minor == 1:
                c.at += 3
            c.octets()
            self.operation = c.string()
            self.flags_text = " response_expected %d" % respond
        else:
            self.id, flags = c.long(), c.octet()
            c.at += 3
            self.target(c)
            self.operation = c.string()
            self.context_ids = [i for i, _ in c.contexts()]
            self.flags_text = " response_flags %d" % flags

    def target(self, c):
        addressing = c.short()
        if addressing == 0:
            c.octets()
        elif addressing == 1:
            c.long(), c.octets()
        else:
            raise IndexError

    def Reply(self, c):
        if self.minor < 2:
            self.context_ids = [i for i, _ in c.contexts()]
            self.id, self.status = c.long(), REPLIES[c.long()]
        else:
            self.id, self.status = c.long(), REPLIES[c.long()]
            self.context_ids = [i for i, _ in c.contexts()]

    def LocateRequest(self, c):
        self.id = c.long()

    def LocateReply(self, c):
        self.id, self.status = c.long(), LOCATES[c.long()]

    def CancelRequest(self, c):
        self.id = c.long()

    def Fragment(self, c):
        if self.minor == 2:
            self.id = c.long()


class Proxy:
    """Passes bytes on and keeps the messages of both directions, in the order in which they went through."""

    def __init__(self, target):
        self.target, self.messages, self.lock = target, [], threading.Lock()
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(16)
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.sockets += [client, server]
            threading.Thread(target=self.pump, args=(client, server, "client"), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, "server"), daemon=True).start()

    def pump(self, source, sink, sender):
        pending = b""
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                return
            if not data:
                # The other side stays open: a server that ends says goodbye on it.
                return
            pending += data
            while len(pending) >= 12:
                size = 12 + struct.unpack("<I" if pending[6] & 1 else ">I", pending[8:12])[0]
                if len(pending) < size:
                    break
                with self.lock:
                    self.messages.append(Message(sender, pending[:size]))
                pending = pending[size:]
            try:
                sink.sendall(data)
            except OSError:
                pass

    def close(self):
        for s in [self.listener] + self.sockets:
            s.close()


def publish(server, port):
    """ORB args that make a server's references lead to the proxy."""
    if server == "jacorb":
        return ["jacorb.ior_proxy_host=127.0.0.1", "jacorb.ior_proxy_port=%d" % port]
    return ["-ORBendPointPublish", "giop:tcp:127.0.0.1:%d" % port]


def record(client, server, args, cases):
    port = free_port()
    proxy = Proxy(port)
    with tempfile.NamedTemporaryFile() as ior:
        command = [os.path.join(BUILD, server, "server"), "--ior-file", ior.name, "--port", str(port)]
        running = subprocess.Popen(command + args + publish(server, proxy.port), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        try:
            if running.stdout.readline() != b"READY\n":
                sys.exit("capture.py: %s does not start" % server)
            reference = ior.read().decode().strip()
            done = subprocess.run([os.path.join(BUILD, client, "client"), "--ior", reference, "--only", cases] + args, timeout=60,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if b"done 1 ok" not in done.stdout:
                sys.exit("capture.py: %s -> %s %s: %s" % (client, server, args, done.stdout.decode()))
        finally:
            running.stdin.close()
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
            time.sleep(0.1)
            proxy.close()
    return reference, proxy.messages


def kept(messages):
    """The first of each kind: (sender, type, operation, status); and a few fragmented messages as a whole."""
    seen, names, chain, chains = {}, {}, None, 0
    for m in messages:
        if m.type in (0, 3):
            names[(m.sender, m.id)] = m.operation
        asker = "server" if m.sender == "client" else "client"
        operation = m.operation or names.get((asker, m.id), "")
        m.operation = operation
        if m.more and m.type in (0, 1) and chains < CHAINS and len(m.data) < 20000:
            chain, chains = (m.sender, m.id), chains + 1
            yield m
        elif m.type == 7:
            if chain and m.sender == chain[0] and (m.id is None or m.id == chain[1]):
                yield m
                if not m.more:
                    chain = None
        elif not m.more and len(m.data) <= SMALL:
            kind = (m.sender, m.type, operation, m.status)
            seen[kind] = seen.get(kind, 0) + 1
            if seen[kind] <= EACH:
                yield m


def write(name, head, messages):
    count = 0
    with open(os.path.join(GOLDEN, name + ".hex"), "w") as out:
        for line in head:
            out.write("# %s\n" % line)
        for m in kept(messages):
            count += 1
            words = [TYPES[m.type]]
            words += ["id %d" % m.id] if m.id is not None else []
            words += [m.operation] if m.operation else []
            words += [m.status] if m.status else []
            words += ["contexts " + ",".join(map(str, m.context_ids))] if m.context_ids else []
            words += ["more fragments"] if m.more else []
            out.write("\n# from %s: GIOP 1.%d, %s endian, %s%s\n" % (m.sender, m.minor, "little" if m.little else "big",
                                                                    ", ".join(words), m.flags_text))
            for i in range(0, len(m.data), 32):
                out.write(m.data[i:i + 32].hex(" ") + "\n")
    print("%-50s %4d messages" % (name, count))


def explain(ior):
    """The fields of a stringified IOR that a test can compare."""
    data = bytes.fromhex(ior[4:])
    c = Cursor(data, data[0] == 1, 1)
    fields = ["type_id " + c.string()]
    for _ in range(c.long()):
        tag, body = c.long(), c.octets()
        if tag != 0:
            fields.append("profile %d %s" % (tag, body.hex()))
            continue
        p = Cursor(body, body[0] == 1, 1)
        fields.append("iiop %d.%d" % (p.octet(), p.octet()))
        fields.append("host " + p.string())
        fields.append("port %d" % p.short())
        fields.append("key " + p.octets().hex())
        if p.at < len(body):
            fields += ["component %d %s" % (p.long(), p.octets().hex()) for _ in range(p.long())]
    return fields


VALUES = ["scalars", "floats", "long_doubles", "strings", "wides", "wide_chars", "enums", "structs", "unions", "sequences", "arrays",
          "fixeds", "recursive", "typedefs", "anys", "typecodes"]
OBJECTS = ["references", "inheritance", "objects", "user_exceptions", "system_exceptions", "attributes", "oneways", "forwards",
           "timeouts", "contexts", "large"]


def main():
    os.makedirs(GOLDEN, exist_ok=True)
    for name in os.listdir(GOLDEN):
        if name.endswith(".hex") and name != "by-hand.hex":
            os.remove(os.path.join(GOLDEN, name))
    both = ["omniorb", "jacorb"]
    no = {"jacorb": ["long_doubles", "contexts", "forwards"]}
    jobs = [(c, s, "1.2", case) for c in both for s in both for case in VALUES + OBJECTS if c == s or case in
            ("strings", "wides", "anys", "user_exceptions", "system_exceptions", "references", "forwards", "large")]
    jobs = [job for job in jobs if job[3] not in no.get(job[0], []) + no.get(job[1], []) or job[:2] == ("jacorb", "omniorb")]
    jobs += [(p, p, giop, case) for p in both for giop in ("1.0", "1.1") for case in
             ("scalars", "strings", "structs", "references", "user_exceptions", "system_exceptions", "oneways", "objects")]
    jobs += [("omniorb", "omniorb", giop, "forwards") for giop in ("1.0", "1.1")]
    jobs += [("omniorbpy", "omniorb", "1.2", case) for case in ("strings", "wides", "anys", "contexts")]
    iors = {}
    for client, server, giop, case in jobs:
        reference, messages = record(client, server, ["--giop", giop], case)
        iors[(server, giop)] = reference
        head = ["client %s, server %s" % (NAMES[client], NAMES[server]), "GIOP %s, case %s of idl/interop.idl" % (giop, case)]
        write("%s-%s-giop%s-%s" % (client, server, giop.replace(".", ""), case), head, messages)
    for client, server, extra, case in [(c, s, x, k) for c in both for s in both for x, k in
                                        (("--bidir", "bidirectional"), ("--utf8", "utf8_strings"))]:
        _, messages = record(client, server, [extra], case)
        head = ["client %s, server %s" % (NAMES[client], NAMES[server]), "GIOP 1.2, %s, case %s of idl/interop.idl" % (extra, case)]
        write("%s-%s-giop12-%s" % (client, server, case), head, messages)
    with open(os.path.join(GOLDEN, "iors.txt"), "w") as out:
        out.write("# Stringified references and the fields that they hold; see README.md.\n")
        for (server, giop), reference in iors.items():
            out.write("\n# %s, GIOP %s\n%s\n" % (NAMES[server], giop, reference))
            out.writelines("  %s\n" % field for field in explain(reference))


main()
