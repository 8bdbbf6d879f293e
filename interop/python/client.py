"""The omniORBpy client of the interoperability tests. Contract: interop/README.md."""

import sys
import traceback

from omniORB import CORBA
import Interop

import cases_naming
import cases_objects
import cases_values
import common
from check import Failure, Run, Skip


def why_not(options, name, server_lacks):
    if name == "long_doubles":
        return "omniORBpy has no long double"
    if name == "wide_chars":
        return "omniORBpy 4.3.3 breaks a wchar in GIOP 1.2"
    if name == "attribute_exceptions":
        return "omniidl has no getraises"
    if name in server_lacks:
        return "the server does not support it"
    if name == "naming":
        return "" if options.ns else "needs --ns"
    if not options.ior:
        return "needs --ior"
    if name == "utf8_strings" and not options.utf8:
        return "needs --utf8"
    if name == "bidirectional" and not options.bidir:
        return "needs --bidir"
    if name == "interleaving" and not options.interleave:
        return "needs --interleave"
    if name == "bidirectional" and options.giop not in ("", "1.2"):
        return "GIOP 1.2 only"
    if "wides" in name and options.giop == "1.0":
        return "GIOP 1.0 has no wide characters"
    if options.giop == "1.1" and (name in ("large", "parallel") or "wide" in name):
        return "the peers differ in fragments and wide characters of GIOP 1.1"
    return ""


def main():
    options = common.parse(server=False)
    orb = common.init(options, server=False)
    root = orb.resolve_initial_references("RootPOA")
    root._get_the_POAManager().activate()
    suite, lacks = None, set()
    if options.ior:
        suite = orb.string_to_object(options.ior)._narrow(Interop.Suite)
        if suite is None:
            sys.exit("client: the reference is no Interop::Suite")
        lacks = set(suite.unsupported())
    only = [name for name in options.only.split(",") if name]
    for name in only:
        if name not in common.CASES:
            print("client: no case", name, file=sys.stderr)
            sys.exit(2)
    cases = {**cases_values.CASES, **cases_objects.CASES, **cases_naming.CASES}
    passed = failed = skipped = 0
    for name in common.CASES:
        if only and name not in only:
            continue
        reason, outcome = why_not(options, name, lacks), "skip"
        if not reason:
            try:
                cases[name](Run(orb, root, options, suite, name))
                outcome = "ok"
            except Skip as skip:
                reason = str(skip)
            except CORBA.INV_OBJREF as e:
                wide = "wides" in name and e.minor == 0x4F4D0001
                outcome, reason = ("skip", "the reference names no wide codeset") if wide else ("FAIL", repr(e))
            except (Failure, CORBA.Exception) as e:
                outcome, reason = "FAIL", str(e) if isinstance(e, Failure) else repr(e)
            except Exception as e:  # a mistake of this client: say where
                where = traceback.extract_tb(e.__traceback__)[-1]
                outcome, reason = "FAIL", "%r at %s:%d" % (e, where.filename.rsplit("/", 1)[-1], where.lineno)
        passed += outcome == "ok"
        failed += outcome == "FAIL"
        skipped += outcome == "skip"
        print(" ".join([outcome, name, reason.replace("\n", " ")]).rstrip(), flush=True)
    print("done %d ok %d failed %d skipped" % (passed, failed, skipped), flush=True)
    orb.destroy()
    sys.exit(1 if failed else 0)


main()
