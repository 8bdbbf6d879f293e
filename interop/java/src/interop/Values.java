package interop;

import InteropValues.*;
import java.util.IdentityHashMap;
import java.util.Properties;
import java.util.Set;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.POAHelper;

/** Values of ../idl/values.idl, as cpp/values.cc has them.
 *
 *  Values server               prints READY with the references of Boxes and of Values; ends with its input
 *  Values client BOXES VALUES  calls them and prints a line for each case, and the counts
 */
public final class Values {
    private static int lengthOf(Node head) {
        Set<Node> seen = java.util.Collections.newSetFromMap(new IdentityHashMap<>());
        for (Node at = head; at != null && seen.add(at);) at = at.next;
        return seen.size();
    }

    private static final class Boxed extends BoxesPOA {
        public String echo_text(String a, TextHolder b, TextHolder c) {
            c.value = b.value;
            b.value = a;
            return a;
        }

        public InteropValues.Number echo_number(InteropValues.Number a, NumberHolder b, NumberHolder c) {
            c.value = b.value;
            b.value = a;
            return a;
        }

        public byte[] echo_blob(byte[] a, BlobHolder b, BlobHolder c) {
            c.value = b.value;
            b.value = a;
            return a;
        }
    }

    private static final class Valued extends ValuesPOA {
        public Money echo_money(Money a, MoneyHolder b, MoneyHolder c) {
            c.value = b.value;
            b.value = a;
            return a;
        }

        public Node echo_node(Node a, NodeHolder b, NodeHolder c) {
            c.value = b.value;
            b.value = a;
            return a;
        }

        public boolean same(Node a, Node b) {
            return a == b;
        }

        public int length(Node head) {
            return lengthOf(head);
        }

        public Money priced(boolean known) {
            return PricedImpl.of("EUR", 199, "tea");
        }
    }

    private static final class Failure extends Exception {
        Failure(String what) {
            super(what);
        }
    }

    private interface Case {
        void run() throws Failure;
    }

    private static void require(boolean so, String what) throws Failure {
        if (!so) throw new Failure(what);
    }

    private static int failures = 0;

    private static void run(String name, Case test) {
        try {
            test.run();
            System.out.println("ok " + name);
        } catch (Failure | RuntimeException failure) {
            failures++;
            System.out.println("FAIL " + name + " " + failure);
        }
    }

    private static void boxedValues(Boxes boxes) throws Failure {
        TextHolder b = new TextHolder("b"), c = new TextHolder();
        require(boxes.echo_text("a", b, c).equals("a") && c.value.equals("b") && b.value.equals("a"), "texts");
        NumberHolder none = new NumberHolder(), old = new NumberHolder();
        InteropValues.Number seven = boxes.echo_number(new InteropValues.Number(7), none, old);
        require(seven.value == 7 && old.value == null && none.value.value == 7, "numbers");
        byte[] data = new byte[5000];
        for (int i = 0; i < data.length; i++) data[i] = (byte) (i % 251);
        byte[] result = boxes.echo_blob(data, new BlobHolder(), new BlobHolder());
        require(java.util.Arrays.equals(data, result), "octets");
    }

    private static void values(InteropValues.Values values) throws Failure {
        MoneyHolder b = new MoneyHolder(PricedImpl.of("USD", -1, "cup")), c = new MoneyHolder();
        Money result = values.echo_money(MoneyImpl.of("EUR", 250), b, c);
        require(result.currency.equals("EUR") && ((MoneyImpl) result).amount() == 250, "money");
        require(c.value instanceof Priced && ((Priced) c.value).item.equals("cup"), "a derived value");

        Node ring = new NodeImpl(), second = new NodeImpl();
        LeafImpl third = new LeafImpl();
        ring.value = 1;
        second.value = 2;
        third.value = 3;
        third.label = "leaf";
        second.next = ring;
        third.next = second;
        ring.next = third;
        require(values.length(ring) == 3, "a ring has three nodes");
        require(values.same(ring, ring) && !values.same(ring, second), "one node and two");
        NodeHolder none = new NodeHolder(), old = new NodeHolder();
        Node got = values.echo_node(ring, none, old);
        require(old.value == null && lengthOf(got) == 3 && got.next.next.next == got, "a ring comes back");
        require(got.next instanceof Leaf && ((Leaf) got.next).label.equals("leaf"), "with its leaf");

        require(values.priced(true) instanceof Priced, "a known type");
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("org.omg.CORBA.ORBClass", "org.jacorb.orb.ORB");
        properties.put("org.omg.CORBA.ORBSingletonClass", "org.jacorb.orb.ORBSingleton");
        properties.put("OAAddress", "iiop://127.0.0.1:0");
        org.omg.CORBA.ORB orb = org.omg.CORBA.ORB.init(new String[0], properties);
        if (args[0].equals("server")) {
            POA poa = POAHelper.narrow(orb.resolve_initial_references("RootPOA"));
            poa.the_POAManager().activate();
            String boxes = orb.object_to_string(poa.servant_to_reference(new Boxed()));
            System.out.println("READY " + boxes + " " + orb.object_to_string(poa.servant_to_reference(new Valued())));
            System.out.flush();
            while (System.in.read() >= 0) {}
            System.exit(0);
        }
        Boxes boxes = BoxesHelper.narrow(orb.string_to_object(args[1]));
        InteropValues.Values them = ValuesHelper.narrow(orb.string_to_object(args[2]));
        run("boxed_values", () -> boxedValues(boxes));
        run("values", () -> values(them));
        System.out.printf("done %d ok %d failed 0 skipped%n", 2 - failures, failures);
        System.out.flush();
        System.exit(failures == 0 ? 0 : 1);
    }
}
