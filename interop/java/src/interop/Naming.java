package interop;

/** JacORB's name server on the port of the first argument, reachable as corbaloc:...:PORT/NameService. Ends by signal. */
public final class Naming {
    public static void main(String[] args) throws Exception {
        String file = java.nio.file.Files.createTempFile("jacorb-ns", ".ior").toString();
        java.util.Map.of(
            "org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB",
            "org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton",
            "jacorb.log.default.verbosity", "0",
            "jacorb.naming.ior_filename", file,
            "jacorb.naming.db_dir", java.nio.file.Files.createTempDirectory("jacorb-ns").toString(),
            "OAIAddr", "127.0.0.1",
            "OAPort", args[0],
            "jacorb.dns.enable", "off").forEach(System::setProperty);
        org.jacorb.naming.NameServer.main(new String[0]);
    }
}
