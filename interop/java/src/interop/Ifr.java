package interop;

import java.util.Properties;
import org.omg.CORBA.*;
import org.omg.CORBA.InterfaceDefPackage.FullInterfaceDescription;
import org.omg.CORBA.ValueDefPackage.FullValueDescription;

/** A client of an interface repository that has the definitions of crates/ifr/tests/plant.idl.
 *
 *  Ifr REPOSITORY OBJECT     prints what it learns, as python/ifr.py does; OBJECT is a Plant::Valve
 */
public final class Ifr {
    private static Repository repository;

    private static org.omg.CORBA.Object find(String id) {
        return repository.lookup_id(id);
    }

    private static String operation(OperationDescription it) {
        StringBuilder line = new StringBuilder("operation " + it.name + " " + it.result.kind().value());
        line.append(" ").append(it.mode.value()).append(" [");
        for (ParameterDescription parameter : it.parameters) {
            line.append(parameter.name).append(":").append(parameter.type.kind().value());
            line.append(":").append(parameter.mode.value()).append(",");
        }
        line.append("]");
        for (ExceptionDescription exception : it.exceptions) line.append(" raises ").append(exception.id);
        return line.toString();
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB");
        properties.put("org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton");
        org.omg.CORBA.ORB orb = org.omg.CORBA.ORB.init(new String[0], properties);
        repository = RepositoryHelper.narrow(orb.string_to_object(args[0]));
        org.omg.CORBA.Object object = orb.string_to_object(args[1]);

        InterfaceDef valve = InterfaceDefHelper.narrow(object._get_interface_def());
        FullInterfaceDescription described = valve.describe_interface();
        System.out.println("interface " + described.id + " " + described.name + " " + valve.absolute_name());
        for (String base : described.base_interfaces) System.out.println("base " + base);
        for (OperationDescription it : described.operations) System.out.println(operation(it));
        for (AttributeDescription it : described.attributes) {
            System.out.println("attribute " + it.name + " " + it.type.kind().value() + " " + it.mode.value());
        }
        StringBuilder line = new StringBuilder("struct");
        for (StructMember it : StructDefHelper.narrow(find("IDL:Plant/Point:1.0")).members()) {
            line.append(" ").append(it.name).append(":").append(it.type.kind().value());
        }
        System.out.println(line);
        line = new StringBuilder("union");
        for (UnionMember it : UnionDefHelper.narrow(find("IDL:Plant/Measure:1.0")).members()) {
            line.append(" ").append(it.name).append(":").append(it.label.type().kind().value());
        }
        System.out.println(line);
        Any limit = ConstantDefHelper.narrow(find("IDL:Plant/LIMIT:1.0")).value();
        System.out.println("constant " + limit.extract_long());
        ArrayDef outer = ArrayDefHelper.narrow(AliasDefHelper.narrow(find("IDL:Plant/Matrix:1.0")).original_type_def());
        ArrayDef inner = ArrayDefHelper.narrow(outer.element_type_def());
        System.out.println("array " + outer.length() + " " + inner.length());
        FullValueDescription node = ValueDefHelper.narrow(find("IDL:Plant/Node:1.0")).describe_value();
        System.out.println("value " + node.name + " " + node.members.length + " " + node.initializers[0].name);
        line = new StringBuilder("interfaces");
        ModuleDef plant = ModuleDefHelper.narrow(repository.lookup("::Plant"));
        for (Contained it : plant.contents(DefinitionKind.dk_Interface, true)) line.append(" ").append(it.name());
        System.out.println(line);
        line = new StringBuilder("exceptions");
        for (org.omg.CORBA.ContainerPackage.Description it : plant.describe_contents(DefinitionKind.dk_Exception, true, -1)) {
            line.append(" ").append(ExceptionDescriptionHelper.extract(it.value).name);
        }
        System.out.println(line);
        try {
            plant.create_module("IDL:New:1.0", "New", "1.0");
        } catch (NO_PERMISSION refused) {
            System.out.println("refused " + refused.minor);
        }
        System.out.flush();
        orb.shutdown(true);
    }
}
