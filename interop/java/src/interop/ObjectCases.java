package interop;

import static interop.Check.echo;
import static interop.Check.expect;
import static interop.Check.expectThrow;
import static interop.Check.plain;

import Interop.*;
import interop.Check.Failure;
import interop.Check.Run;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.omg.CORBA.Any;
import org.omg.CORBA.BAD_OPERATION;
import org.omg.CORBA.BAD_PARAM;
import org.omg.CORBA.OBJECT_NOT_EXIST;
import org.omg.CORBA.Policy;
import org.omg.CORBA.SetOverrideType;
import org.omg.CORBA.StringHolder;
import org.omg.CORBA.SystemException;
import org.omg.CORBA.TIMEOUT;
import org.omg.CORBA.UNKNOWN;
import org.omg.PortableServer.POA;

/** Cases of the groups about objects. */
final class ObjectCases {
    private ObjectCases() {}

    static Map<String, Check.Case> cases() {
        Map<String, Check.Case> all = new LinkedHashMap<>();
        all.put("references", ObjectCases::references);
        all.put("factories", ObjectCases::factories);
        all.put("inheritance", ObjectCases::inheritance);
        all.put("objects", ObjectCases::objects);
        all.put("user_exceptions", ObjectCases::userExceptions);
        all.put("system_exceptions", ObjectCases::systemExceptions);
        all.put("attributes", ObjectCases::attributes);
        all.put("oneways", ObjectCases::oneways);
        all.put("callbacks", run -> {
            if (run.options().bidir) throw new Check.Skip("under --bidir the same is case bidirectional");
            callBackThrough(run, run.root());
        });
        all.put("bidirectional", run -> callBackThrough(run, Options.bidirectionalPoa(run.orb(), run.root())));
        all.put("forwards", ObjectCases::forwards);
        all.put("timeouts", ObjectCases::timeouts);
        all.put("large", ObjectCases::large);
        all.put("parallel", ObjectCases::parallel);
        all.put("interleaving", ObjectCases::interleaving);
        return all;
    }

    private static Factories otherFactories(Run run) throws Exception {
        return FactoriesHelper.narrow(run.suite().group("factories"));
    }

    private static void references(Run run) throws Exception {
        References o = ReferencesHelper.narrow(run.group());
        Thing first = otherFactories(run).create("first"), second = otherFactories(run).create("second");
        echo(o, "echo_thing", first, second, null);
        echo(o, "echo_object", first, second, null);
        echo(o, "echo_things", new Thing[0], new Thing[] {first, second, null});
        echo(o, "echo_link", new Link("label", first), new Link("", second), new Link("nil", null));
        ThingHolder b = new ThingHolder(second), c = new ThingHolder();
        expect(o.echo_thing(first, b, c).id().equals("first") && b.value.id().equals("first") && c.value.id().equals("second"), "ids");
        expect(o.id_of(first).equals("first") && o.id_of(null).equals("nil"), "id_of");
    }

    private static void factories(Run run) throws Exception {
        Factories o = FactoriesHelper.narrow(run.group());
        Thing one = o.create("same"), two = o.create("same");
        expect(o.nobody() == null, "the reference is nil");
        expect(!one._is_equivalent(two), "two objects");
        expect(one.add(5) == 5 && one.add(-7) == -2 && two.add(1) == 1, "totals");
        long most = Integer.MAX_VALUE;
        expect(one.add((int) most) == most - 2 && one.add((int) most) == 2 * most - 2, "64 bits");
        one.destroy();
        expectThrow(OBJECT_NOT_EXIST.class, () -> one.add(1));
        expect(two.add(1) == 2, "the other lives");
        String[] names = new String[50];
        for (int i = 0; i < names.length; i++) names[i] = "" + i;
        Thing[] many = o.create_many(names);
        for (int i = 0; i < names.length; i++) expect(many[i].id().equals(names[i]), "create_many");
    }

    private static void inheritance(Run run) throws Exception {
        Inheritance o = InheritanceHelper.narrow(run.group());
        Base plain = o.plain(), base = o.as_base();
        expect(plain.base_name().equals("base"), "base_name");
        expectThrow(BAD_PARAM.class, () -> BottomHelper.narrow(plain));
        Bottom bottom = BottomHelper.narrow(base);
        expect(bottom.left_name().equals("left") && bottom.right_name().equals("right") && bottom.bottom_name().equals("bottom"), "names");
        Left left = o.as_left();
        expect(left.base_name().equals("base") && RightHelper.narrow(left).right_name().equals("right"), "sideways");
        o.as_bottom().level(41);
        expect(left.level() == 41 && o.as_right().level() == 41 && base.level() == 41, "level");
        plain.level(7);
        expect(bottom.level() == 41 && plain.level() == 7, "two levels");
    }

    private static void objects(Run run) throws Exception {
        Thing one = otherFactories(run).create("one"), two = otherFactories(run).create("two");
        expect(one._is_a("IDL:Interop/Thing:1.0"), "_is_a Thing");
        expect(one._is_a("IDL:omg.org/CORBA/Object:1.0"), "_is_a Object");
        expect(!one._is_a("IDL:Interop/Factories:1.0"), "_is_a Factories");
        expect(!one._non_existent(), "_non_existent");
        expect(one._is_equivalent(one) && !one._is_equivalent(two), "_is_equivalent");
        one.destroy();
        expect(one._non_existent(), "_non_existent after destroy");
        Thing wrong = ThingHelper.unchecked_narrow(run.suite().group("scalars"));
        expectThrow(BAD_OPERATION.class, wrong::destroy);
        String text = run.orb().object_to_string(two);
        expect(ThingHelper.narrow(run.orb().string_to_object(text)).id().equals("two"), "through a string");
        expect(expectThrow(NoSuchGroup.class, () -> run.suite().group("no such group")).name.equals("no such group"), "NoSuchGroup");
    }

    private static void userExceptions(Run run) throws Exception {
        UserExceptions o = UserExceptionsHelper.narrow(run.group());
        expectThrow(Empty.class, o::raise_empty);
        StringHolder b = new StringHolder();
        expect(o.raise_plain(0, "fine", b) == 1 && b.value.equals("fine"), "no exception");
        for (int code : new int[] {-5, Integer.MIN_VALUE}) {
            Plain e = expectThrow(Plain.class, () -> o.raise_plain(code, "reason", b));
            expect(e.code == code && e.why.equals("reason"), "members of Plain");
        }
        Mixed detail = new Mixed("detail", Colour.green, new Point(1, 2), (byte) 3);
        OverLong choice = new OverLong();
        choice.text(2, "choice");
        double[] samples = {0, 0.25, 0.5};
        Rich e = expectThrow(Rich.class, () -> o.raise_rich(Colour.blue, detail, samples, choice));
        expect(e.paint == Colour.blue && plain(e.detail).equals(plain(detail)) && plain(e.samples).equals(plain(samples))
               && plain(e.choice).equals(plain(choice)), "members of Rich");
        expectThrow(Empty.class, o::raise_empty);
    }

    /** Those that an ORB takes as a sign to try again are sent as maybe only. omniORB lacks three of the standard's. */
    private static final String[] SYSTEM = ("UNKNOWN BAD_PARAM NO_MEMORY IMP_LIMIT COMM_FAILURE INV_OBJREF NO_PERMISSION INTERNAL "
        + "MARSHAL INITIALIZE NO_IMPLEMENT BAD_TYPECODE BAD_OPERATION NO_RESOURCES NO_RESPONSE PERSIST_STORE BAD_INV_ORDER "
        + "TRANSIENT FREE_MEM INV_IDENT INV_FLAG INTF_REPOS BAD_CONTEXT OBJ_ADAPTER DATA_CONVERSION OBJECT_NOT_EXIST "
        + "TRANSACTION_REQUIRED TRANSACTION_ROLLEDBACK INVALID_TRANSACTION INV_POLICY CODESET_INCOMPATIBLE REBIND TIMEOUT "
        + "TRANSACTION_UNAVAILABLE TRANSACTION_MODE BAD_QOS").split(" ");

    private static void systemExceptions(Run run) throws Exception {
        SystemExceptions o = SystemExceptionsHelper.narrow(run.group());
        int[] minors = {0, 1, 0x4f4d0002, 0xfffffffe};
        int count = 0;
        for (String name : SYSTEM) {
            boolean retried = name.matches("COMM_FAILURE|TRANSIENT|OBJECT_NOT_EXIST|NO_RESPONSE");
            for (int completed = retried ? 2 : 0; completed < 3; completed++) {
                int minor = minors[count++ % 4], status = completed;
                SystemException e = expectThrow(SystemException.class, () -> o.raise_system(name, minor, status));
                if (!e.getClass().getSimpleName().equals(name) || e.minor != minor || e.completed.value() != status) {
                    throw new Failure(name + " " + minor + " " + status + " came as " + e);
                }
            }
        }
        expect(expectThrow(BAD_PARAM.class, () -> o.raise_system("NONSENSE", 5, 0)).minor == 0, "minor of BAD_PARAM");
        expectThrow(UNKNOWN.class, o::raise_native);
    }

    private static void attributes(Run run) throws Exception {
        Attributes o = AttributesHelper.narrow(run.group());
        int before = o.changes();
        for (String label : new String[] {"new label", ""}) {
            o.label(label);
            expect(o.label().equals(label), "label");
        }
        expect(o.changes() == before + 2, "changes");
        Mixed detail = new Mixed("attribute", Colour.blue, new Point(-1, 1), (byte) 255);
        o.detail(detail);
        expect(plain(o.detail()).equals(plain(detail)), "detail");
        o.paint(Colour.green);
        expect(o.paint() == Colour.green, "paint");
    }

    private static void oneways(Run run) throws Exception {
        Oneways o = OnewaysHelper.narrow(run.group());
        o.reset();
        for (int i = 0; i < 100; i++) {
            o.ping();
            o.add(i);
            o.send(new byte[1000]);
        }
        for (int i = 0; i < 1000 && o.total() != 100 + 4950 + 100000; i++) Thread.sleep(10);
        expect(o.total() == 100 + 4950 + 100000, "total is " + o.total());
    }

    private static final class ReceiverImpl extends ReceiverPOA {
        volatile int poked;

        public String receive(String text, int number) {
            return text + ":" + number;
        }

        public void poke(int number) {
            poked = number;
        }
    }

    private static void callBackThrough(Run run, POA poa) throws Exception {
        Callbacks o = CallbacksHelper.narrow(run.group());
        ReceiverImpl servant = new ReceiverImpl();
        byte[] oid = poa.activate_object(servant);
        Receiver receiver = ReceiverHelper.narrow(poa.id_to_reference(oid));
        expect(o.call_back(receiver, "hello", 10) == 10, "ten call-backs");
        expect(o.call_back(receiver, "z".repeat(run.options().giop.equals("1.1") ? 2000 : 20000), 2) == 2, "large call-backs");
        o.poke_back(receiver, 4711);
        for (int i = 0; i < 1000 && servant.poked != 4711; i++) Thread.sleep(10);
        expect(servant.poked == 4711, "oneway call-back");
        poa.deactivate_object(oid);
    }

    private static void forwards(Run run) throws Exception {
        Forwards o = ForwardsHelper.narrow(run.group());
        int before = o.made();
        Thing moved = o.create("moved thing");
        expect(moved.add(40) == 40, "first call");
        expect(moved.add(2) == 42, "second call");
        expect(moved.id().equals("moved thing"), "id");
        expect(o.made() > before, "a forward was made");
        Thing other = o.create("another");
        expect(other.id().equals("another") && other.add(1) == 1 && moved.add(0) == 42, "another");
        Thing checked = o.create("checked");
        expect(!checked._non_existent(), "_non_existent");
        expect(checked._is_a("IDL:Interop/Thing:1.0"), "_is_a");
    }

    private static void timeouts(Run run) throws Exception {
        Slow o = SlowHelper.narrow(run.group());
        expect(o.sleep_ms(0) == 0, "no sleep");
        Any limit = run.orb().create_any();
        limit.insert_ulonglong(300 * 10_000L); // units of 100 ns
        Policy policy = run.orb().create_policy(org.omg.Messaging.RELATIVE_RT_TIMEOUT_POLICY_TYPE.value, limit);
        Slow limited = SlowHelper.unchecked_narrow(o._set_policy_override(new Policy[] {policy}, SetOverrideType.ADD_OVERRIDE));
        long start = System.nanoTime();
        expectThrow(TIMEOUT.class, () -> limited.sleep_ms(3000));
        expect(System.nanoTime() - start >= 290_000_000L, "not before the time");
        expect(o.sleep_ms(20) == 20, "without limit");
    }

    private static byte[] pattern(int length) {
        byte[] data = new byte[length];
        for (int i = 0; i < length; i++) data[i] = (byte) (i % 251);
        return data;
    }

    private static long sum(byte[] data) {
        long sum = 0;
        for (byte b : data) sum += b & 0xff;
        return sum;
    }

    private static void large(Run run) throws Exception {
        Large o = LargeHelper.narrow(run.group());
        // Around the sizes where ORBs cut fragments, and the 12 MiB of the contract.
        for (int length : new int[] {0, 1, 7, 8100, 8191, 8192, 8193, 65535, 65536, 1 << 20, 12 << 20}) {
            byte[] a = pattern(length);
            OctetsHolder b = new OctetsHolder(pattern(3)), c = new OctetsHolder();
            byte[] r = o.echo_octets(a, b, c);
            expect(java.util.Arrays.equals(r, a) && java.util.Arrays.equals(b.value, a) && c.value.length == 3, "echo of " + length);
            expect(java.util.Arrays.equals(o.pattern(length), a), "pattern of " + length);
            expect(o.sum(a) == sum(a), "sum of " + length);
        }
        echo(o, "echo_string", "a".repeat(8185), "b".repeat(1 << 20), "");
        double[] doubles = new double[131072];
        for (int i = 0; i < doubles.length; i++) doubles[i] = i * 0.5;
        echo(o, "echo_doubles", doubles, new double[0]);
        Mixed[] mixeds = new Mixed[20000];
        Colour[] colours = {Colour.red, Colour.green, Colour.blue};
        for (int i = 0; i < mixeds.length; i++) {
            mixeds[i] = new Mixed("n".repeat(i % 40), colours[i % 3], new Point(i, -i), (byte) i);
        }
        echo(o, "echo_mixeds", mixeds, new Mixed[0]);
    }

    private static void parallel(Run run) throws Exception {
        Large o = LargeHelper.narrow(run.group());
        AtomicReference<String> problem = new AtomicReference<>();
        Thread[] threads = new Thread[4];
        for (int t = 0; t < 4; t++) {
            int index = t;
            threads[t] = new Thread(() -> {
                try {
                    for (int i = 0; i < 40; i++) {
                        int length = i % 2 == 1 ? 16 + index : 60000 + 1000 * index + i;
                        byte[] data = o.pattern(length);
                        if (data.length != length || o.sum(data) != sum(pattern(length))) problem.set("an answer belongs to another call");
                    }
                } catch (RuntimeException e) {
                    problem.set(e.toString());
                }
            });
            threads[t].start();
        }
        for (Thread thread : threads) thread.join();
        if (problem.get() != null) throw new Failure(problem.get());
    }

    /** Threads with calls on one connection, which is JacORB's default: the reply to the first call is the last. */
    private static void interleaving(Run run) throws Exception {
        Slow o = SlowHelper.narrow(run.suite().group("timeouts"));
        // A machine that is busy tells nothing with the first time.
        for (int longest : new int[] {500, 4000, 16000}) {
            AtomicInteger answered = new AtomicInteger(), place = new AtomicInteger();
            AtomicReference<String> problem = new AtomicReference<>();
            Thread[] threads = new Thread[64];
            for (int t = 0; t < threads.length; t++) {
                int index = t, ms = t == 0 ? longest : t % 20;
                threads[t] = new Thread(() -> {
                    try {
                        if (o.sleep_ms(ms) != ms) problem.set("an answer belongs to another call");
                    } catch (RuntimeException e) {
                        problem.set(e.toString());
                    }
                    int at = answered.incrementAndGet();
                    if (index == 0) place.set(at);
                });
                threads[t].start();
                if (t == 0) Thread.sleep(100);
            }
            for (Thread thread : threads) thread.join();
            if (problem.get() != null) throw new Failure(problem.get());
            if (place.get() == threads.length) return;
        }
        throw new Failure("the calls of a connection are served one after the other");
    }
}
