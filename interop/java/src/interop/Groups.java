package interop;

import Interop.*;
import java.util.Properties;
import org.omg.PortableGroup.GOA;
import org.omg.PortableGroup.GOAHelper;

/** Groups by multicast: a member that says what it hears, or a client that sends.
 *
 *  Groups serve URL          prints "ready", then a line for each request; ends with the end of input
 *  Groups send URL NUMBER... calls add with each number, then send with so many octets, then ping
 */
public final class Groups {
    private static final class Member extends OnewaysPOA {
        private static synchronized void say(String line) {
            System.out.println(line);
            System.out.flush();
        }

        public void add(int amount) {
            say("add " + amount);
        }

        public void send(byte[] data) {
            int sum = 0;
            for (byte octet : data) sum += octet & 0xff;
            say("send " + data.length + " " + sum);
        }

        public void ping() {
            say("ping");
        }

        public long total() {
            return 0;
        }

        public void reset() {}
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB");
        properties.put("org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton");
        properties.put("jacorb.transport.factories",
                "org.jacorb.orb.iiop.IIOPFactories,org.jacorb.orb.miop.MIOPFactories");
        properties.put("jacorb.transport.client.selector", "org.jacorb.orb.miop.MIOPProfileSelector");
        org.omg.CORBA.ORB orb = org.omg.CORBA.ORB.init(new String[0], properties);
        org.omg.CORBA.Object group = orb.string_to_object(args[1]);
        if (args[0].equals("serve")) {
            GOA goa = GOAHelper.narrow(orb.resolve_initial_references("RootPOA"));
            byte[] id = goa.create_id_for_reference(group);
            goa.activate_object_with_id(id, new Member());
            goa.the_POAManager().activate();
            Member.say("ready");
            while (System.in.read() >= 0) {}
        } else {
            Oneways far = OnewaysHelper.unchecked_narrow(group);
            for (int i = 2; i < args.length; i++) {
                int number = Integer.parseInt(args[i]);
                far.add(number);
                byte[] data = new byte[number];
                for (int at = 0; at < number; at++) data[at] = (byte) at;
                far.send(data);
            }
            far.ping();
        }
        orb.shutdown(true);
        System.exit(0);
    }
}
