"""A client of an interface repository that has the definitions of crates/ifr/tests/plant.idl.

    ifr REPOSITORY OBJECT     prints what it learns, as java/src/interop/Ifr.java does; OBJECT is a Plant::Valve
"""

import sys

from omniORB import CORBA
import omniORB.ir_idl  # noqa: F401


def operation(it):
    parameters = "".join("%s:%d:%d," % (p.name, p.type.kind()._v, p.mode._v) for p in it.parameters)
    raises = "".join(" raises " + exception.id for exception in it.exceptions)
    return "operation %s %d %d [%s]%s" % (it.name, it.result.kind()._v, it.mode._v, parameters, raises)


def main():
    orb = CORBA.ORB_init(sys.argv[:1], CORBA.ORB_ID)
    repository = orb.string_to_object(sys.argv[1])._narrow(CORBA.Repository)
    thing = orb.string_to_object(sys.argv[2])

    def find(identity, interface):
        return repository.lookup_id(identity)._narrow(interface)

    valve = thing._get_interface()._narrow(CORBA.InterfaceDef)
    described = valve.describe_interface()
    print("interface", described.id, described.name, valve._get_absolute_name())
    for base in described.base_interfaces:
        print("base", base)
    for it in described.operations:
        print(operation(it))
    for it in described.attributes:
        print("attribute", it.name, it.type.kind()._v, it.mode._v)
    members = find("IDL:Plant/Point:1.0", CORBA.StructDef)._get_members()
    print("struct", *("%s:%d" % (it.name, it.type.kind()._v) for it in members))
    members = find("IDL:Plant/Measure:1.0", CORBA.UnionDef)._get_members()
    print("union", *("%s:%d" % (it.name, it.label.typecode().kind()._v) for it in members))
    print("constant", find("IDL:Plant/LIMIT:1.0", CORBA.ConstantDef)._get_value().value())
    outer = find("IDL:Plant/Matrix:1.0", CORBA.AliasDef)._get_original_type_def()._narrow(CORBA.ArrayDef)
    inner = outer._get_element_type_def()._narrow(CORBA.ArrayDef)
    print("array", outer._get_length(), inner._get_length())
    node = find("IDL:Plant/Node:1.0", CORBA.ValueDef).describe_value()
    print("value", node.name, len(node.members), node.initializers[0].name)
    plant = repository.lookup("::Plant")._narrow(CORBA.ModuleDef)
    print("interfaces", *(it._get_name() for it in plant.contents(CORBA.dk_Interface, True)))
    exceptions = plant.describe_contents(CORBA.dk_Exception, True, -1)
    print("exceptions", *(it.value.value().name for it in exceptions))
    try:
        plant.create_module("IDL:New:1.0", "New", "1.0")
    except CORBA.NO_PERMISSION as refused:
        print("refused", refused.minor)
    sys.stdout.flush()
    orb.destroy()


main()
