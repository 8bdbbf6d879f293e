"""Calls Radar::Sensor by omniORBpy: omni_client.py STUBS IOR. Prints one line for each check that holds."""

import os
import sys

sys.path[:0] = [sys.argv[1], os.path.dirname(__file__)]
from omniORB import CORBA, PortableServer  # noqa: E402, F401
import Radar  # noqa: E402
import Radar__POA  # noqa: E402


class Listener(Radar__POA.Listener):
    seen_by = []

    def seen(self, it):
        self.seen_by.append(it.name)

    def depth(self, other, left):
        return 0 if left == 0 else 1 + other.depth(self._this(), left - 1)


orb = CORBA.ORB_init(["peer", "-ORBendPoint", "giop:tcp:127.0.0.1:"], CORBA.ORB_ID)
poa = orb.resolve_initial_references("RootPOA")
poa._get_the_POAManager().activate()
it = orb.string_to_object(sys.argv[2])._narrow(Radar.Sensor)


def check(name, holds):
    print(name if holds else f"FAILED {name}")


plot = Radar.Plot(1, "bogey", Radar.Point(3.5, -1.0), Radar.search, b"\x01\x02")
check("add", it.add(2, 3) == 5)
check("name", it._get_name() == "front")
it._set_gain(4.25)
check("gain", it._get_gain() == 4.25)
back = it.echo_plot(plot)
check("plot", (back.id, back.name, back.at.x, back.state, bytes(back.raw)) == (1, "bogey", 3.5, Radar.search, b"\x01\x02"))
check("split", it.split("radar", "!") == (5, "r", "adar!"))
value = it.echo_value(Radar.Value(text="x"))
check("union", (value._d, value._v) == (2, "x"))
tree = it.echo_tree(Radar.Tree("a", [Radar.Tree("b", [])]))
check("tree", tree.branches[0].label == "b")
check("any", it.echo_any(CORBA.Any(CORBA.TC_short, 7)).value() == 7)
check("wide", it.echo_wide("wei\u00df \u4e16") == "wei\u00df \u4e16")
check("price", str(it.echo_price(CORBA.fixed("12.50"))) in ("12.5", "12.50"))
try:
    it.add(-1, 0)
except Radar.Refused as error:
    check("refused", (error.why, error.code) == ("below zero", -1))
try:
    it.fail()
except CORBA.UNKNOWN as error:
    check("unknown", error.completed == CORBA.COMPLETED_MAYBE)
listener = Listener()
it.subscribe(listener._this())
check("listener", Listener.seen_by == ["seen"])
# Its threads end before the interpreter does, which otherwise ends some runs by an abort.
orb.destroy()
print("done")
