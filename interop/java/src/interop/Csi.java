package interop;

import Interop.Thing;
import Interop.ThingHelper;
import Interop.ThingPOA;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.jacorb.sasPolicy.SASPolicyValues;
import org.jacorb.sasPolicy.SASPolicyValuesHelper;
import org.jacorb.sasPolicy.SAS_POLICY_TYPE;
import org.jacorb.security.sas.GssUpContext;
import org.jacorb.security.sas.SASInitializer;
import org.omg.CORBA.Any;
import org.omg.CORBA.ORB;
import org.omg.CORBA.Policy;
import org.omg.CSIIOP.EstablishTrustInClient;
import org.omg.GSSUP.InitialContextToken;
import org.omg.IOP.Codec;
import org.omg.PortableInterceptor.Current;
import org.omg.PortableInterceptor.CurrentHelper;
import org.omg.PortableInterceptor.InvalidSlot;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.POAHelper;

/** User names and passwords over TLS (CSIv2, GSSUP).
 *
 *  Csi server CERTIFICATES IOR-FILE            a Thing for user ada with password engine; its id is
 *                                              the user that the servant sees
 *  Csi client CERTIFICATES IOR USER PASSWORD   prints the id of a Thing, or the exception, twice
 */
public final class Csi {
    /** JacORB's own context takes any password. */
    public static final class Checked extends GssUpContext {
        @Override
        public boolean validateContext(ORB orb, Codec codec, byte[] token) {
            if (!super.validateContext(orb, codec, token)) return false;
            InitialContextToken read = decode(orb, codec, token);
            return "ada:engine".equals(text(read.username) + ":" + text(read.password));
        }

        private static String text(byte[] octets) {
            return new String(octets, StandardCharsets.UTF_8);
        }
    }

    /** Its id is the user. */
    private static final class Named extends ThingPOA {
        private final Current current;

        Named(ORB orb) throws Exception {
            current = CurrentHelper.narrow(orb.resolve_initial_references("PICurrent"));
        }

        @Override
        public String id() {
            try {
                return current.get_slot(SASInitializer.sasPrincipalNamePIC).extract_string();
            } catch (InvalidSlot e) {
                return "no slot";
            }
        }

        @Override
        public long add(int amount) {
            return amount;
        }

        @Override
        public void destroy() {}
    }

    private static ORB orb(String certificates, boolean server) {
        Properties p = new Properties();
        p.put("org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB");
        p.put("org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton");
        // The certificate is for this address.
        p.put("OAIAddr", "127.0.0.1");
        Tls.configure(p, certificates, server);
        p.put("jacorb.security.sas.contextClass", Checked.class.getName());
        p.put("org.omg.PortableInterceptor.ORBInitializerClass.SAS", "org.jacorb.security.sas.SASInitializer");
        p.put("jacorb.security.sas.tss.requires_sas", server ? "true" : "false");
        p.put("jacorb.log.default.verbosity", "0");
        return ORB.init(new String[0], p);
    }

    public static void main(String[] args) throws Exception {
        ORB orb = orb(args[1], args[0].equals("server"));
        if (args[0].equals("server")) serve(orb, Path.of(args[2]));
        else call(orb, args[2], args[3], args[4]);
        System.exit(0);
    }

    private static void serve(ORB orb, Path file) throws Exception {
        POA root = POAHelper.narrow(orb.resolve_initial_references("RootPOA"));
        Any values = orb.create_any();
        short trust = EstablishTrustInClient.value;
        SASPolicyValuesHelper.insert(values, new SASPolicyValues(trust, trust, false));
        Policy[] policies = {orb.create_policy(SAS_POLICY_TYPE.value, values)};
        POA poa = root.create_POA("secured", root.the_POAManager(), policies);
        org.omg.CORBA.Object object = poa.id_to_reference(poa.activate_object(new Named(orb)));
        root.the_POAManager().activate();
        Path draft = Path.of(file + ".draft");
        Files.writeString(draft, orb.object_to_string(object));
        Files.move(draft, file);
        orb.run();
    }

    private static void call(ORB orb, String reference, String user, String password) {
        GssUpContext.setUsernamePassword(user, password);
        Thing thing = ThingHelper.unchecked_narrow(orb.string_to_object(reference));
        for (int i = 0; i < 2; i++) {
            try {
                System.out.println("user " + thing.id());
            } catch (org.omg.CORBA.SystemException e) {
                System.out.println(e.getClass().getSimpleName() + " " + e.completed.value());
            }
        }
    }
}
