package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.omg.CORBA.ORB;
import org.omg.CORBA.Any;
import org.omg.CORBA.Policy;
import org.omg.CosNaming.NameComponent;
import org.omg.PortableServer.POA;

/** The command line of the contract (interop/README.md) and its translation to JacORB. */
final class Options {
    static final List<String> CASES = List.of((
            "scalars floats long_doubles strings utf8_strings wides bounded_wides wide_chars enums structs unions "
            + "union_labels sequences arrays fixeds fixed_zeros "
            + "recursive typedefs anys typecodes references factories inheritance objects user_exceptions system_exceptions "
            + "attributes attribute_exceptions oneways callbacks bidirectional forwards timeouts large parallel interleaving contexts "
            + "naming").split(" "));

    String iorFile = "", ns = "", name = "", ior = "", only = "", giop = "", port = "", tls = "";
    boolean utf8, bidir, interleave;
    final List<String> orbArgs = new ArrayList<>();

    static Options parse(String[] args, boolean server) {
        Options o = new Options();
        for (int i = 0; i < args.length; i++) {
            String arg = args[i];
            switch (arg) {
                case "--utf8" -> o.utf8 = true;
                case "--bidir" -> o.bidir = true;
                case "--interleave" -> o.interleave = true;
                case "--ior-file", "--ns", "--name", "--ior", "--only", "--giop", "--port", "--tls" -> {
                    if (++i >= args.length) usage(server);
                    String value = args[i];
                    switch (arg) {
                        case "--ior-file" -> o.iorFile = value;
                        case "--ns" -> o.ns = value;
                        case "--name" -> o.name = value;
                        case "--ior" -> o.ior = value;
                        case "--only" -> o.only = value;
                        case "--giop" -> o.giop = value;
                        case "--tls" -> o.tls = value;
                        default -> o.port = value;
                    }
                }
                default -> {
                    if (arg.startsWith("--")) usage(server);
                    o.orbArgs.add(arg);
                }
            }
        }
        if (server ? o.iorFile.isEmpty() : o.ior.isEmpty() && o.ns.isEmpty()) usage(server);
        return o;
    }

    private static void usage(boolean server) {
        System.err.println(server
                ? "usage: server --ior-file FILE [--ns URL --name a/b] [--port N] [--tls DIR] [--giop 1.x] [--utf8] [--bidir] [ORB args]"
                : "usage: client --ior IOR|URL [--ns URL] [--only CASE[,CASE]] [--tls DIR] [--giop 1.x] [--utf8] [--bidir] [--interleave] [ORB args]");
        System.exit(2);
    }

    /** ORB args: -Dkey=value or key=value sets a JacORB property, -ORB... goes to ORB.init. */
    ORB init(boolean server) {
        Properties p = new Properties();
        p.put("org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB");
        p.put("org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton");
        p.put("jacorb.log.default.verbosity", "0");
        p.put("jacorb.implname", "interop");
        p.put("OAIAddr", "127.0.0.1");
        p.put("jacorb.native_char_codeset", utf8 ? "UTF8" : "ISO8859_1");
        p.put("jacorb.dns.enable", "off");
        // A burst of oneways waits instead of being refused.
        p.put("jacorb.poa.queue_max", "10000");
        p.put("jacorb.poa.queue_wait", "on");
        // Answers as long as requests: 32 MiB.
        p.put("jacorb.maxManagedBufSize", "25");
        if (!port.isEmpty()) p.put("OAPort", port);
        if (!giop.isEmpty()) p.put("jacorb.giop_minor_version", giop.substring(2));
        if (!tls.isEmpty()) Tls.configure(p, tls, server);
        if (bidir)
            p.put("org.omg.PortableInterceptor.ORBInitializerClass.bidir_init",
                  "org.jacorb.orb.giop.BiDirConnectionInitializer");
        List<String> rest = new ArrayList<>();
        for (String arg : orbArgs) {
            int equals = arg.indexOf('=');
            if (equals > 0 && !arg.startsWith("-ORB")) {
                p.put(arg.substring(arg.startsWith("-D") ? 2 : 0, equals), arg.substring(equals + 1));
            } else {
                rest.add(arg);
            }
        }
        return ORB.init(rest.toArray(new String[0]), p);
    }

    static POA bidirectionalPoa(ORB orb, POA root) throws Exception {
        Any both = orb.create_any();
        org.omg.BiDirPolicy.BidirectionalPolicyValueHelper.insert(both, org.omg.BiDirPolicy.BOTH.value);
        Policy[] policies = {orb.create_policy(org.omg.BiDirPolicy.BIDIRECTIONAL_POLICY_TYPE.value, both)};
        return root.create_POA("bidirectional", root.the_POAManager(), policies);
    }

    static NameComponent[] toName(String path) {
        String[] parts = path.split("/");
        NameComponent[] name = new NameComponent[parts.length];
        for (int i = 0; i < parts.length; i++) name[i] = new NameComponent(parts[i], "");
        return name;
    }
}
