package interop;

import Interop.*;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.omg.CORBA.Any;
import org.omg.CORBA.BAD_PARAM;
import org.omg.CORBA.CompletionStatus;
import org.omg.CORBA.LocalObject;
import org.omg.CORBA.OBJECT_NOT_EXIST;
import org.omg.CORBA.ORB;
import org.omg.CORBA.Policy;
import org.omg.CORBA.StringHolder;
import org.omg.CORBA.SystemException;
import org.omg.CORBA.TypeCode;
import org.omg.PortableServer.ForwardRequest;
import org.omg.PortableServer.IdAssignmentPolicyValue;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.RequestProcessingPolicyValue;
import org.omg.PortableServer.Servant;
import org.omg.PortableServer.ServantLocator;
import org.omg.PortableServer.ServantRetentionPolicyValue;
import org.omg.PortableServer.ServantLocatorPackage.CookieHolder;

/** What the server serves. */
final class Servants {
    private Servants() {}

    /**
     * Operations of an interface with echo_ operations that follow the echo rule of interop.idl (result = a, out = old inout,
     * inout = a); all others are methods of {@code others}.
     */
    @SuppressWarnings("unchecked")
    static <T> T echo(Class<T> operations, Object others) {
        InvocationHandler handler = (proxy, method, args) -> {
            if (method.getName().startsWith("echo_")) {
                java.lang.reflect.Field value = args[1].getClass().getField("value");
                value.set(args[2], value.get(args[1]));
                value.set(args[1], args[0]);
                return args[0];
            }
            Method other = others.getClass().getDeclaredMethod(method.getName(), method.getParameterTypes());
            other.setAccessible(true);
            try {
                return other.invoke(others, args);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        };
        return (T) Proxy.newProxyInstance(operations.getClassLoader(), new Class<?>[] {operations}, handler);
    }

    static final class RecursiveOthers {
        int depth(Tree root) {
            int deepest = 0;
            for (Tree child : root.children) deepest = Math.max(deepest, depth(child));
            return deepest + 1;
        }
    }

    static final class ScalarsOthers {
        void nothing() {}
    }

    static final class AnyOthers {
        private final ORB orb;

        AnyOthers(ORB orb) {
            this.orb = orb;
        }

        int kind(Any value) {
            return value.type().kind().value();
        }

        Any make(String what) {
            Any any = orb.create_any();
            switch (what) {
                case "null" -> { }
                case "long" -> any.insert_long(42);
                case "string" -> any.insert_string("forty-two");
                case "mixed" -> MixedHelper.insert(any, new Mixed("m", Colour.green, new Point(1, -2), (byte) 9));
                case "longs" -> LongsHelper.insert(any, new int[] {1, 2, 3});
                case "nested" -> any.insert_any(make("long"));
                case "tree" -> TreeHelper.insert(any, new Tree("root", new Tree[] {new Tree("leaf", new Tree[0])}));
                default -> throw new BAD_PARAM(0, CompletionStatus.COMPLETED_NO);
            }
            return any;
        }
    }

    static final class TypeCodeOthers {
        private final ORB orb;

        TypeCodeOthers(ORB orb) {
            this.orb = orb;
        }

        boolean same(TypeCode a, TypeCode b) {
            return a.equal(b);
        }

        boolean equivalent(TypeCode a, TypeCode b) {
            return a.equivalent(b);
        }

        TypeCode describe(String what) {
            return switch (what) {
                case "long" -> orb.get_primitive_tc(org.omg.CORBA.TCKind.tk_long);
                case "mixed" -> MixedHelper.type();
                case "tree" -> TreeHelper.type();
                case "expression" -> ExpressionHelper.type();
                case "colour" -> ColourHelper.type();
                case "over_long" -> OverLongHelper.type();
                case "height" -> HeightHelper.type();
                case "plain" -> PlainHelper.type();
                case "thing" -> ThingHelper.type();
                case "money" -> MoneyHelper.type();
                case "wide" -> WideHelper.type();
                default -> throw new BAD_PARAM(0, CompletionStatus.COMPLETED_NO);
            };
        }
    }

    static final class LargeOthers {
        byte[] pattern(int length) {
            byte[] data = new byte[length];
            for (int i = 0; i < length; i++) data[i] = (byte) (i % 251);
            return data;
        }

        long sum(byte[] data) {
            long sum = 0;
            for (byte b : data) sum += b & 0xff;
            return sum;
        }
    }

    static final class ReferenceOthers {
        String id_of(Thing a) {
            return a == null ? "nil" : a.id();
        }
    }

    static final class ThingImpl extends ThingPOA {
        private final POA poa;
        private final String id;
        private final AtomicLong total = new AtomicLong();

        ThingImpl(POA poa, String id) {
            this.poa = poa;
            this.id = id;
        }

        static Thing create(POA poa, String id) {
            try {
                return ThingHelper.narrow(poa.id_to_reference(poa.activate_object(new ThingImpl(poa, id))));
            } catch (org.omg.CORBA.UserException e) {
                throw new org.omg.CORBA.INTERNAL(e.toString());
            }
        }

        public String id() {
            return id;
        }

        public long add(int amount) {
            return total.addAndGet(amount);
        }

        public void destroy() {
            try {
                poa.deactivate_object(poa.servant_to_id(this));
            } catch (org.omg.CORBA.UserException e) {
                throw new OBJECT_NOT_EXIST();
            }
        }
    }

    static final class FactoriesImpl extends FactoriesPOA {
        private final POA poa;

        FactoriesImpl(POA poa) {
            this.poa = poa;
        }

        public Thing create(String name) {
            return ThingImpl.create(poa, name);
        }

        public Thing nobody() {
            return null;
        }

        public Thing[] create_many(String[] them) {
            Thing[] all = new Thing[them.length];
            for (int i = 0; i < all.length; i++) all[i] = create(them[i]);
            return all;
        }
    }

    static final class BaseImpl extends BasePOA {
        private volatile int level;

        public String base_name() {
            return "base";
        }

        public int level() {
            return level;
        }

        public void level(int value) {
            level = value;
        }
    }

    static final class BottomImpl extends BottomPOA {
        private volatile int level;

        public String base_name() {
            return "base";
        }

        public String left_name() {
            return "left";
        }

        public String right_name() {
            return "right";
        }

        public String bottom_name() {
            return "bottom";
        }

        public int level() {
            return level;
        }

        public void level(int value) {
            level = value;
        }
    }

    static final class InheritanceImpl extends InheritancePOA {
        private final Base onlyBase;
        private final Bottom bottom;

        InheritanceImpl(POA poa) throws Exception {
            onlyBase = BaseHelper.narrow(poa.servant_to_reference(new BaseImpl()));
            bottom = BottomHelper.narrow(poa.servant_to_reference(new BottomImpl()));
        }

        public Base plain() {
            return onlyBase;
        }

        public Base as_base() {
            return bottom;
        }

        public Left as_left() {
            return bottom;
        }

        public Right as_right() {
            return bottom;
        }

        public Bottom as_bottom() {
            return bottom;
        }
    }

    static final class UserExceptionsImpl extends UserExceptionsPOA {
        public void raise_empty() throws Empty {
            throw new Empty();
        }

        public int raise_plain(int code, String why, StringHolder b) throws Plain {
            if (code != 0) throw new Plain(code, why);
            b.value = why;
            return 1;
        }

        public void raise_rich(Colour paint, Mixed detail, double[] samples, OverLong choice) throws Rich {
            throw new Rich(paint, detail, samples, choice);
        }
    }

    static final class SystemExceptionsImpl extends SystemExceptionsPOA {
        public void raise_system(String name, int minor, int completed) {
            SystemException exception;
            try {
                exception = (SystemException) Class.forName("org.omg.CORBA." + name)
                        .getConstructor(int.class, CompletionStatus.class)
                        .newInstance(minor, CompletionStatus.from_int(completed));
            } catch (ReflectiveOperationException | ClassCastException e) {
                throw new BAD_PARAM(0, CompletionStatus.COMPLETED_NO);
            }
            throw exception;
        }

        public void raise_native() {
            throw new IllegalStateException("no CORBA exception");
        }
    }

    static final class AttributesImpl extends AttributesPOA {
        private int changes;
        private String label = "";
        private Mixed detail = new Mixed("", Colour.red, new Point(0, 0), (byte) 0);
        private Colour paint = Colour.red;

        public synchronized int changes() {
            return changes;
        }

        public synchronized String label() {
            return label;
        }

        public synchronized void label(String value) {
            label = value;
            changes++;
        }

        public synchronized Mixed detail() {
            return detail;
        }

        public synchronized void detail(Mixed value) {
            detail = value;
        }

        public synchronized Colour paint() {
            return paint;
        }

        public synchronized void paint(Colour value) {
            paint = value;
        }
    }

    static final class AttributeExceptionsImpl extends AttributeExceptionsPOA {
        private volatile int guarded;

        public int guarded() throws Empty {
            if (guarded == 13) throw new Empty();
            return guarded;
        }

        public void guarded(int value) throws Plain {
            if (value < 0) throw new Plain(value, "negative");
            guarded = value;
        }

        public int always_fails() throws Plain {
            throw new Plain(1, "always");
        }
    }

    static final class OnewaysImpl extends OnewaysPOA {
        private final AtomicLong total = new AtomicLong();

        public void add(int amount) {
            total.addAndGet(amount);
        }

        public void send(byte[] data) {
            total.addAndGet(data.length);
        }

        public void ping() {
            total.incrementAndGet();
        }

        public long total() {
            return total.get();
        }

        public void reset() {
            total.set(0);
        }
    }

    static final class CallbacksImpl extends CallbacksPOA {
        public int call_back(Receiver to, String text, int times) {
            int right = 0;
            for (int i = 0; i < times; i++) if (to.receive(text, i).equals(text + ":" + i)) right++;
            return right;
        }

        public void poke_back(Receiver to, int number) {
            to.poke(number);
        }
    }

    /** The POA "moved": its locator answers each request for an object with a forward to the Thing of the same id. */
    static final class ForwardsImpl extends ForwardsPOA {
        private final POA things;
        private final POA moved;
        private final Map<String, Thing> targets = new ConcurrentHashMap<>();
        private final AtomicInteger forwards = new AtomicInteger();

        final class Locator extends LocalObject implements ServantLocator {
            public Servant preinvoke(byte[] oid, POA poa, String operation, CookieHolder cookie) throws ForwardRequest {
                Thing target = targets.get(new String(oid));
                if (target == null) throw new OBJECT_NOT_EXIST(0, CompletionStatus.COMPLETED_NO);
                forwards.incrementAndGet();
                throw new ForwardRequest(target);
            }

            public void postinvoke(byte[] oid, POA poa, String operation, Object cookie, Servant servant) {}
        }

        ForwardsImpl(POA root) throws Exception {
            things = root;
            moved = root.create_POA("moved", root.the_POAManager(), new Policy[] {
                root.create_servant_retention_policy(ServantRetentionPolicyValue.NON_RETAIN),
                root.create_request_processing_policy(RequestProcessingPolicyValue.USE_SERVANT_MANAGER),
                root.create_id_assignment_policy(IdAssignmentPolicyValue.USER_ID)});
            moved.set_servant_manager(new Locator());
        }

        public Thing create(String name) {
            String key = "moved-" + targets.size();
            targets.put(key, ThingImpl.create(things, name));
            try {
                return ThingHelper.unchecked_narrow(moved.create_reference_with_id(key.getBytes(), ThingHelper.id()));
            } catch (org.omg.CORBA.UserException e) {
                throw new org.omg.CORBA.INTERNAL(e.toString());
            }
        }

        public int made() {
            return forwards.get();
        }
    }

    static final class SlowImpl extends SlowPOA {
        public int sleep_ms(int ms) {
            try {
                Thread.sleep(ms);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            return ms;
        }
    }

    static final class SuiteImpl extends SuitePOA {
        private final ORB orb;
        private final String[] unsupported;
        final Map<String, org.omg.CORBA.Object> groups = new ConcurrentHashMap<>();

        SuiteImpl(ORB orb, String... unsupported) {
            this.orb = orb;
            this.unsupported = unsupported;
        }

        public String peer() {
            return "jacorb";
        }

        public String[] unsupported() {
            return unsupported;
        }

        public org.omg.CORBA.Object group(String name) throws NoSuchGroup {
            org.omg.CORBA.Object group = groups.get(name);
            if (group == null) throw new NoSuchGroup(name);
            return group;
        }

        public void shutdown() {
            new Thread(() -> orb.shutdown(false)).start();
        }
    }
}
