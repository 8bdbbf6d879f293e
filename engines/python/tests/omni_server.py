"""Serves Radar::Sensor by omniORBpy: omni_server.py STUBS IOR_FILE."""

import os
import sys

sys.path[:0] = [sys.argv[1], os.path.dirname(__file__)]
from omniORB import CORBA, PortableServer  # noqa: E402, F401
import Radar  # noqa: E402
import Radar__POA  # noqa: E402
import sensor  # noqa: E402

orb = CORBA.ORB_init(["peer", "-ORBendPoint", "giop:tcp:127.0.0.1:"], CORBA.ORB_ID)
poa = orb.resolve_initial_references("RootPOA")
servant = sensor.make(Radar, Radar__POA.Sensor)()
reference = servant._this()
poa._get_the_POAManager().activate()
with open(sys.argv[2] + ".new", "w") as file:
    file.write(orb.object_to_string(reference))
os.rename(sys.argv[2] + ".new", sys.argv[2])
orb.run()
