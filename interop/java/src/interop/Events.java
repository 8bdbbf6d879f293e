package interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.omg.CORBA.Any;
import org.omg.CORBA.BooleanHolder;
import org.omg.CORBA.OBJECT_NOT_EXIST;
import org.omg.CORBA.ORB;
import org.omg.CosEventChannelAdmin.AlreadyConnected;
import org.omg.CosEventChannelAdmin.EventChannel;
import org.omg.CosEventChannelAdmin.EventChannelHelper;
import org.omg.CosEventChannelAdmin.ProxyPullConsumer;
import org.omg.CosEventChannelAdmin.ProxyPullSupplier;
import org.omg.CosEventChannelAdmin.ProxyPushConsumer;
import org.omg.CosEventChannelAdmin.ProxyPushSupplier;
import org.omg.CosEventComm.Disconnected;
import org.omg.CosEventComm.PullSupplierPOA;
import org.omg.CosEventComm.PushConsumer;
import org.omg.CosEventComm.PushConsumerHelper;
import org.omg.CosEventComm.PushConsumerPOA;
import org.omg.CosEventComm.PullSupplierHelper;
import org.omg.CosNaming.NameComponent;
import org.omg.CosNaming.NameComponentHelper;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.POAHelper;

/** A client of the OMG's Event Service at --ior: supplier and consumer, push and pull. Prints what Client prints. */
public final class Events {
    private static final long PATIENCE = 60;

    private final ORB orb;
    private final POA root;
    private final EventChannel channel;

    private Events(ORB orb, POA root, EventChannel channel) {
        this.orb = orb;
        this.root = root;
        this.channel = channel;
    }

    /** Keeps what it is pushed. */
    private static final class Consumer extends PushConsumerPOA {
        final BlockingQueue<Any> got = new ArrayBlockingQueue<>(1000);
        final BlockingQueue<Boolean> ended = new ArrayBlockingQueue<>(10);

        @Override public void push(Any data) {
            got.add(data);
        }

        @Override public void disconnect_push_consumer() {
            ended.add(true);
        }

        Any next() throws Exception {
            Any any = got.poll(PATIENCE, TimeUnit.SECONDS);
            Check.expect(any != null, "nothing was pushed");
            return any;
        }
    }

    /** Has the numbers from 1 to a last one. */
    private final class Supplier extends PullSupplierPOA {
        private final int last;
        private int next = 1;

        Supplier(int last) {
            this.last = last;
        }

        @Override public Any pull() throws Disconnected {
            throw new Disconnected();
        }

        @Override public synchronized Any try_pull(BooleanHolder has) {
            has.value = next <= last;
            return number(has.value ? next++ : 0);
        }

        @Override public void disconnect_pull_supplier() {}
    }

    private Any number(int value) {
        Any any = orb.create_any();
        any.insert_long(value);
        return any;
    }

    private ProxyPushSupplier connect(Consumer consumer) throws Exception {
        ProxyPushSupplier proxy = channel.for_consumers().obtain_push_supplier();
        proxy.connect_push_consumer(reference(consumer));
        return proxy;
    }

    private PushConsumer reference(Consumer consumer) throws Exception {
        return PushConsumerHelper.narrow(root.servant_to_reference(consumer));
    }

    private ProxyPushConsumer supplier() throws Exception {
        ProxyPushConsumer proxy = channel.for_suppliers().obtain_push_consumer();
        proxy.connect_push_supplier(null);
        return proxy;
    }

    private void pushToPush() throws Exception {
        Consumer one = new Consumer(), two = new Consumer();
        ProxyPushSupplier first = connect(one), second = connect(two);
        ProxyPushConsumer supplier = supplier();
        for (int i = 1; i <= 20; i++) supplier.push(number(i));
        for (int i = 1; i <= 20; i++) {
            Check.expect(one.next().extract_long() == i, "the first consumer's number " + i);
            Check.expect(two.next().extract_long() == i, "the second consumer's number " + i);
        }
        first.disconnect_push_supplier();
        supplier.push(number(21));
        Check.expect(two.next().extract_long() == 21, "the second one goes on");
        Check.expect(one.got.isEmpty(), "a consumer that left was pushed to");
        second.disconnect_push_supplier();
        supplier.disconnect_push_consumer();
    }

    private void values() throws Exception {
        Consumer consumer = new Consumer();
        ProxyPushSupplier proxy = connect(consumer);
        ProxyPushConsumer supplier = supplier();
        Any text = orb.create_any(), wide = orb.create_any(), structure = orb.create_any(), nested = orb.create_any();
        text.insert_string("grüße");
        wide.insert_wstring("\u6642\u9593");
        NameComponentHelper.insert(structure, new NameComponent("pump", "sensor"));
        nested.insert_any(structure);
        Any object = orb.create_any();
        object.insert_Object(channel);
        List<Any> all = List.of(text, wide, structure, nested, object);
        for (Any any : all) supplier.push(any);
        Check.expect(consumer.next().extract_string().equals("grüße"), "a string");
        Check.expect(consumer.next().extract_wstring().equals("\u6642\u9593"), "a wide string");
        NameComponent name = NameComponentHelper.extract(consumer.next());
        Check.expect(name.id.equals("pump") && name.kind.equals("sensor"), "a structure");
        name = NameComponentHelper.extract(consumer.next().extract_any());
        Check.expect(name.id.equals("pump"), "a structure in an any in an any");
        Check.expect(channel._is_equivalent(consumer.next().extract_Object()), "a reference");
        proxy.disconnect_push_supplier();
        supplier.disconnect_push_consumer();
    }

    private void pushToPull() throws Exception {
        ProxyPullSupplier proxy = channel.for_consumers().obtain_pull_supplier();
        proxy.connect_pull_consumer(null);
        ProxyPushConsumer supplier = supplier();
        BooleanHolder has = new BooleanHolder(true);
        proxy.try_pull(has);
        Check.expect(!has.value, "nothing is there yet");
        for (int i = 1; i <= 10; i++) supplier.push(number(i));
        for (int i = 1; i <= 10; i++) Check.expect(proxy.pull().extract_long() == i, "number " + i);
        supplier.push(number(11));
        Any eleven = proxy.try_pull(has);
        Check.expect(has.value && eleven.extract_long() == 11, "number 11");
        proxy.disconnect_pull_supplier();
        try {
            proxy.pull();
            Check.expect(false, "pulled after the end");
        } catch (Disconnected | OBJECT_NOT_EXIST gone) {
            // One or the other, depending on which is quicker.
        }
        supplier.disconnect_push_consumer();
    }

    private void pullToPushAndPull() throws Exception {
        Consumer consumer = new Consumer();
        ProxyPushSupplier pushed = connect(consumer);
        ProxyPullSupplier pulled = channel.for_consumers().obtain_pull_supplier();
        pulled.connect_pull_consumer(null);
        ProxyPullConsumer asking = channel.for_suppliers().obtain_pull_consumer();
        asking.connect_pull_supplier(PullSupplierHelper.narrow(root.servant_to_reference(new Supplier(5))));
        for (int i = 1; i <= 5; i++) {
            Check.expect(pulled.pull().extract_long() == i, "pulled number " + i);
            Check.expect(consumer.next().extract_long() == i, "pushed number " + i);
        }
        asking.disconnect_pull_consumer();
        pulled.disconnect_pull_supplier();
        pushed.disconnect_push_supplier();
    }

    private void refusals() throws Exception {
        Consumer consumer = new Consumer();
        ProxyPushSupplier proxy = connect(consumer);
        PushConsumer reference = reference(consumer);
        Check.expectThrow(AlreadyConnected.class, () -> proxy.connect_push_consumer(reference));
        ProxyPushConsumer unconnected = channel.for_suppliers().obtain_push_consumer();
        Check.expectThrow(Disconnected.class, () -> unconnected.push(number(1)));
        ProxyPushSupplier unconnectedSupplier = channel.for_consumers().obtain_push_supplier();
        Check.expectThrow(org.omg.CORBA.BAD_PARAM.class, () -> unconnectedSupplier.connect_push_consumer(null));
        ProxyPullConsumer asking = channel.for_suppliers().obtain_pull_consumer();
        Check.expectThrow(org.omg.CORBA.BAD_PARAM.class, () -> asking.connect_pull_supplier(null));
        proxy.disconnect_push_supplier();
    }

    /** The last one, since nothing works after it. */
    private void destroy() throws Exception {
        Consumer consumer = new Consumer();
        connect(consumer);
        channel.destroy();
        Check.expect(consumer.ended.poll(PATIENCE, TimeUnit.SECONDS) != null, "the consumer is told of the end");
    }

    private interface Case {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Options options = Options.parse(args, false);
        ORB orb = options.init(false);
        POA root = POAHelper.narrow(orb.resolve_initial_references("RootPOA"));
        root.the_POAManager().activate();
        EventChannel channel = EventChannelHelper.narrow(orb.string_to_object(options.ior));
        Events events = new Events(orb, root, channel);
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("push_to_push", events::pushToPush);
        cases.put("event_values", events::values);
        cases.put("push_to_pull", events::pushToPull);
        cases.put("pull_to_push_and_pull", events::pullToPushAndPull);
        cases.put("event_refusals", events::refusals);
        cases.put("channel_destroyed", events::destroy);
        List<String> failed = new ArrayList<>();
        for (Map.Entry<String, Case> entry : cases.entrySet()) {
            try {
                entry.getValue().run();
                System.out.println("ok " + entry.getKey());
            } catch (Exception e) {
                failed.add(entry.getKey());
                System.out.println("FAIL " + entry.getKey() + " " + e);
            }
            System.out.flush();
        }
        System.out.println("done " + cases.size() + " ok " + (cases.size() - failed.size()) + " failed " + failed.size() + " skipped 0");
        System.out.flush();
        Runtime.getRuntime().halt(failed.isEmpty() ? 0 : 1);
    }
}
