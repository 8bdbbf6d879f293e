"""What server and client share: the command line of the contract (interop/README.md) and its translation to omniORBpy."""

import argparse
import sys

from omniORB import BiDirPolicy, CORBA, PortableServer  # noqa: F401
import CosNaming

CASES = """scalars floats long_doubles strings utf8_strings wides bounded_wides wide_chars enums structs unions
union_labels sequences arrays fixeds fixed_zeros recursive
typedefs anys typecodes references factories inheritance objects user_exceptions system_exceptions attributes
attribute_exceptions oneways callbacks bidirectional forwards timeouts large parallel interleaving contexts naming""".split()


def parse(server):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    if server:
        parser.add_argument("--ior-file", required=True)
        parser.add_argument("--name")
        parser.add_argument("--port", default="")
    else:
        parser.add_argument("--ior", default="")
        parser.add_argument("--only", default="")
        parser.add_argument("--interleave", action="store_true")
    parser.add_argument("--ns", default="")
    parser.add_argument("--giop", default="")
    parser.add_argument("--utf8", action="store_true")
    parser.add_argument("--bidir", action="store_true")
    # ORB arguments have one dash and a value; argparse must not see them.
    own, rest, words = [], [], iter(sys.argv[1:])
    for word in words:
        if word.startswith("-ORB"):
            rest += [word, next(words, "")]
        else:
            own.append(word)
    options = parser.parse_args(own)
    options.orb_args = rest
    if not server and not options.ior and not options.ns:
        parser.error("--ior or --ns is needed")
    return options


def init(options, server):
    # Large messages are part of the contract; omniORB's own limit is 2 MiB.
    args = ["peer", "-ORBgiopMaxMsgSize", "33554432"]
    if server or options.bidir:
        args += ["-ORBendPoint", "giop:tcp:127.0.0.1:" + (options.port if server else "")]
    if options.giop:
        args += ["-ORBmaxGIOPVersion", options.giop]
    if options.utf8:
        args += ["-ORBnativeCharCodeSet", "UTF-8"]
    if not server and options.interleave:
        args += ["-ORBoneCallPerConnection", "0", "-ORBmaxGIOPConnectionPerServer", "1"]
    if options.bidir and server:
        args += ["-ORBacceptBiDirectionalGIOP", "1", "-ORBserverTransportRule", "* tcp,bidir"]
    if options.bidir and not server:
        args += ["-ORBofferBiDirectionalGIOP", "1", "-ORBclientTransportRule", "* tcp,bidir"]
    return CORBA.ORB_init(args + options.orb_args, CORBA.ORB_ID)


def bidirectional_poa(orb, root):
    both = CORBA.Any(CORBA.TC_ushort, BiDirPolicy.BOTH)  # omniORBpy has no TypeCode for the alias
    policy = orb.create_policy(BiDirPolicy.BIDIRECTIONAL_POLICY_TYPE, both)
    return root.create_POA("bidirectional", root._get_the_POAManager(), [policy])


def to_name(path):
    return [CosNaming.NameComponent(part, "") for part in path.split("/")]
