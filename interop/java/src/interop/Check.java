package interop;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiPredicate;
import org.omg.CORBA.Any;
import org.omg.CORBA.ORB;
import org.omg.CORBA.TCKind;
import org.omg.CORBA.TypeCode;
import org.omg.PortableServer.POA;

/** How the client compares and reports. */
final class Check {
    private Check() {}

    static final class Failure extends RuntimeException {
        Failure(String reason) {
            super(reason);
        }
    }

    static final class Skip extends RuntimeException {
        Skip(String reason) {
            super(reason);
        }
    }

    /** What a case works with. */
    record Run(ORB orb, POA root, Options options, Interop.Suite suite, String current) {
        org.omg.CORBA.Object group() throws Exception {
            return suite.group(current);
        }
    }

    interface Case {
        void run(Run run) throws Exception;
    }

    interface Call {
        void run() throws Exception;
    }

    static void expect(boolean condition, String what) {
        if (!condition) {
            StackTraceElement at = new Throwable().getStackTrace()[1];
            throw new Failure(what + " (" + at.getFileName() + ":" + at.getLineNumber() + ")");
        }
    }

    /** The exception that must come. */
    static <E extends Exception> E expectThrow(Class<E> exception, Call call) throws Exception {
        try {
            call.run();
        } catch (Exception e) {
            if (exception.isInstance(e)) return exception.cast(e);
            throw e;
        }
        StackTraceElement at = new Throwable().getStackTrace()[1];
        throw new Failure("no " + exception.getSimpleName() + " (" + at.getFileName() + ":" + at.getLineNumber() + ")");
    }

    /** The echo rule of interop.idl for all neighbours in a list of values. */
    static void echo(Object target, String operation, Object... values) throws Exception {
        Method method = null;
        for (Method m : target.getClass().getMethods()) if (m.getName().equals(operation)) method = m;
        Class<?> holder = method.getParameterTypes()[1];
        Field value = holder.getField("value");
        for (int i = 0; i < values.length; i++) {
            Object a = values[i], old = values[(i + 1) % values.length];
            Object b = holder.getConstructor().newInstance(), c = holder.getConstructor().newInstance();
            value.set(b, old);
            Object result;
            try {
                result = method.invoke(target, a, b, c);
            } catch (InvocationTargetException e) {
                throw e.getCause() instanceof Exception cause ? cause : e;
            }
            same(operation, i, "result", result, a);
            same(operation, i, "inout", value.get(b), a);
            same(operation, i, "out", value.get(c), old);
        }
    }

    private static void same(String operation, int index, String what, Object got, Object want) throws Exception {
        String g = plain(got), w = plain(want);
        if (!g.equals(w)) {
            throw new Failure(operation + " value " + index + ": " + what + " is " + cut(g) + " instead of " + cut(w));
        }
    }

    private static String cut(String text) {
        return text.length() > 120 ? text.substring(0, 120) + "..." : text;
    }

    /** A value as text: equal text means equal bit for bit. */
    static String plain(Object v) throws Exception {
        if (v == null) return "nil";
        if (v instanceof Double d) return "d" + Double.doubleToRawLongBits(d);
        if (v instanceof Float f) return "f" + Float.floatToRawIntBits(f);
        if (v instanceof BigDecimal d) return d.signum() == 0 ? "0" : d.stripTrailingZeros().toPlainString();
        // JacORB compares references in an Any by their bytes.
        if (v instanceof Any a && a.type().kind() == TCKind.tk_objref) return "any " + plain(a.extract_Object());
        if (v instanceof Any a) return token(a, (x, y) -> ((Any) x).equal((Any) y));
        if (v instanceof TypeCode t) return token(t, (x, y) -> ((TypeCode) x).equal((TypeCode) y));
        if (v instanceof org.omg.CORBA.Object o) {
            return token(o, (x, y) -> ((org.omg.CORBA.Object) x)._is_equivalent((org.omg.CORBA.Object) y));
        }
        if (v.getClass().getName().startsWith("java.lang.")) return v.getClass().getSimpleName() + v;
        StringBuilder text = new StringBuilder();
        if (v.getClass().isArray()) {
            for (int i = 0; i < Array.getLength(v); i++) text.append(plain(Array.get(v, i))).append(',');
            return "[" + text + "]";
        }
        for (Field field : v.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers())) continue;
            field.setAccessible(true);
            text.append(field.getName()).append('=').append(plain(field.get(v))).append(',');
        }
        return v.getClass().getSimpleName() + "{" + text + "}";
    }

    private static final List<Object> KNOWN = new ArrayList<>();

    /** Equal values get equal tokens: they have no plain form. */
    private static synchronized String token(Object value, BiPredicate<Object, Object> equal) {
        for (int i = 0; i < KNOWN.size(); i++) {
            Object known = KNOWN.get(i);
            boolean comparable = known instanceof Any == value instanceof Any
                    && known instanceof TypeCode == value instanceof TypeCode;
            if (comparable && equal.test(known, value)) return "<" + i + ">";
        }
        KNOWN.add(value);
        return "<" + (KNOWN.size() - 1) + ">";
    }
}
