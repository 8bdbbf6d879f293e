package interop;

import static interop.Check.echo;
import static interop.Check.expect;
import static interop.Check.expectThrow;
import static interop.Check.plain;

import Interop.*;
import interop.Check.Run;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.omg.CORBA.Any;
import org.omg.CORBA.BAD_PARAM;
import org.omg.CORBA.TCKind;
import org.omg.CORBA.TypeCode;

/** Cases of the groups of values. Each sends at least the values that interop.idl lists. */
final class ValueCases {
    private ValueCases() {}

    private static final String EMOJI = "x\uD83D\uDE00y";
    private static final double[] DOUBLES = {0.0, -0.0, 1.5, -Double.MIN_NORMAL, Double.MAX_VALUE, Double.POSITIVE_INFINITY,
        Double.NEGATIVE_INFINITY, Double.MIN_VALUE, Double.NaN};
    private static final float[] FLOATS = {0f, -0f, 1.5f, -Float.MIN_NORMAL, Float.MAX_VALUE, Float.POSITIVE_INFINITY,
        Float.NEGATIVE_INFINITY, Float.MIN_VALUE, Float.NaN};

    static Map<String, Check.Case> cases() {
        Map<String, Check.Case> all = new LinkedHashMap<>();
        all.put("scalars", ValueCases::scalars);
        all.put("floats", ValueCases::floats);
        all.put("strings", ValueCases::strings);
        all.put("utf8_strings", run -> echo(NarrowStringsHelper.narrow(run.group()), "echo_string", "",
                                            "\u03b1\u20ac\uD83D\uDE00", "caf\u00e9"));
        all.put("wides", ValueCases::wides);
        all.put("wide_chars", ValueCases::wideChars);
        all.put("enums", ValueCases::enums);
        all.put("structs", ValueCases::structs);
        all.put("unions", ValueCases::unions);
        all.put("sequences", ValueCases::sequences);
        all.put("arrays", ValueCases::arrays);
        all.put("fixeds", ValueCases::fixeds);
        all.put("recursive", ValueCases::recursive);
        all.put("typedefs", ValueCases::typedefs);
        all.put("anys", ValueCases::anys);
        all.put("typecodes", ValueCases::typecodes);
        return all;
    }

    private static Object[] boxes(Object array) {
        Object[] all = new Object[java.lang.reflect.Array.getLength(array)];
        for (int i = 0; i < all.length; i++) all[i] = java.lang.reflect.Array.get(array, i);
        return all;
    }

    private static <U> U with(U union, Consumer<U> set) {
        set.accept(union);
        return union;
    }

    private static Padded padded(int seed) {
        return new Padded((byte) (seed + 1), seed * 1.25, seed % 2 == 1, (short) (-seed - 300), (byte) 0xee,
                          -0x0102030405060708L - seed, (char) ('g' + seed), 0x01020304 + seed);
    }

    private static Mixed mixed(String name, Colour colour, int seed) {
        return new Mixed(name, colour, new Point(seed, -seed), (byte) seed);
    }

    private static OverLong text(int label, String value) {
        return with(new OverLong(), u -> u.text(label, value));
    }

    private static OverLong real(double value) {
        return with(new OverLong(), u -> u.real(value));
    }

    private static OverLong raw(int value) {
        return with(new OverLong(), u -> u.raw(0, (byte) value));
    }

    private static OverBoolean yes(String value) {
        return with(new OverBoolean(), u -> u.yes(value));
    }

    private static OverBoolean no(int value) {
        return with(new OverBoolean(), u -> u.no((short) value));
    }

    private static Tree tree(int depth, int width) {
        Tree[] children = new Tree[depth > 1 ? width : 0];
        for (int i = 0; i < children.length; i++) children[i] = tree(depth - 1, width);
        return new Tree("depth " + depth, children);
    }

    private static Expression leaf(int value) {
        return with(new Expression(), u -> u.value(value));
    }

    private static Expression branch(char op, Expression... operands) {
        return with(new Expression(), u -> u.operands(op, operands));
    }

    private static void scalars(Run run) throws Exception {
        Scalars o = ScalarsHelper.narrow(run.group());
        o.nothing();
        echo(o, "echo_boolean", false, true);
        echo(o, "echo_char", '\0', 'A', '~');
        if (!run.options().utf8) echo(o, "echo_char", '\u00e9', 'a');
        echo(o, "echo_octet", (byte) 0, (byte) 1, (byte) 0x7f, (byte) 0x80, (byte) 0xff);
        for (String name : new String[] {"echo_short", "echo_ushort"}) {
            echo(o, name, (short) 0, (short) 1, (short) -1, Short.MIN_VALUE, Short.MAX_VALUE, (short) 0x0102);
        }
        for (String name : new String[] {"echo_long", "echo_ulong"}) {
            echo(o, name, 0, 1, -1, Integer.MIN_VALUE, Integer.MAX_VALUE, 0x01020304);
        }
        for (String name : new String[] {"echo_longlong", "echo_ulonglong"}) {
            echo(o, name, 0L, 1L, -1L, Long.MIN_VALUE, Long.MAX_VALUE, 0x0102030405060708L);
        }
    }

    private static void floats(Run run) throws Exception {
        FloatingPoint o = FloatingPointHelper.narrow(run.group());
        echo(o, "echo_float", boxes(FLOATS));
        echo(o, "echo_double", boxes(DOUBLES));
    }

    private static void strings(Run run) throws Exception {
        NarrowStrings o = NarrowStringsHelper.narrow(run.group());
        echo(o, "echo_string", "", "a", "hello, world", "caf\u00e9", "x".repeat(1000));
        echo(o, "echo_short_string", "", "12345678", "caf\u00e9");
    }

    private static void wides(Run run) throws Exception {
        Wides o = WidesHelper.narrow(run.group());
        echo(o, "echo_wstring", "", "wide", "c\u00e9", "\u20ac", EMOJI, "\u4e2d".repeat(300));
        echo(o, "echo_wstrings", new String[0], new String[] {"", EMOJI, "end"});
    }

    private static void wideChars(Run run) throws Exception {
        WideChars o = WideCharsHelper.narrow(run.group());
        echo(o, "echo_wchar", 'w', '\u00e9', '\u20ac');
        echo(o, "echo_wide", new Wide('n', 'w', "", (byte) 7), new Wide('n', '\u20ac', EMOJI, (byte) 7),
             new Wide('n', '\u00e9', "odd", (byte) 7));
        echo(o, "echo_wchars", new char[0], new char[] {'a', '\u20ac', '\u00e9'});
        echo(o, "echo_three_wchars", new char[] {'\u4e00', '\u4e01', '\u4e02'}, new char[] {'a', 'b', 'c'});
        echo(o, "echo_over_wide", with(new OverWide(), u -> u.one('\u20ac')), with(new OverWide(), u -> u.many(EMOJI)));
    }

    private static void enums(Run run) throws Exception {
        Enums o = EnumsHelper.narrow(run.group());
        echo(o, "echo_colour", Colour.red, Colour.green, Colour.blue);
        echo(o, "echo_paint", Colour.red, Colour.green, Colour.blue);
        echo(o, "echo_colours", new Colour[0], new Colour[] {Colour.blue, Colour.red, Colour.green});
    }

    private static void structs(Run run) throws Exception {
        Structs o = StructsHelper.narrow(run.group());
        Mixed empty = mixed("", Colour.red, 0), full = mixed("some name", Colour.blue, 77), odd = mixed("odd", Colour.green, 1);
        echo(o, "echo_point", new Point(0, 0), new Point(Integer.MIN_VALUE, Integer.MAX_VALUE), new Point(0x01020304, -1));
        echo(o, "echo_padded", padded(0), padded(1), padded(2));
        echo(o, "echo_mixed", empty, full, odd);
        echo(o, "echo_nested", new Nested(empty, padded(1), full), new Nested(odd, padded(2), full));
        echo(o, "echo_holder", new Holder((byte) 1, text(2, "two"), no(-9), -2), new Holder((byte) 1, raw(5), yes("y"), -2),
             new Holder((byte) 1, real(0.5), no(1), -2));
        echo(o, "echo_with_arrays",
             new WithArrays((byte) 1, new int[] {1, 2, 3, 4, 5}, new String[] {"1", "2", ""}, new short[][] {{1, 2, 3}, {4, 5, 6}}),
             new WithArrays((byte) 2, new int[] {-1, 0, 0, 0, 9}, new String[] {"", "x", "yy"}, new short[][] {{0, 0, 0}, {-1, -1, -1}}));
    }

    private static void unions(Run run) throws Exception {
        Unions o = UnionsHelper.narrow(run.group());
        echo(o, "echo_over_long", text(1, "one"), text(2, ""), real(-0.25), raw(255));
        echo(o, "echo_over_enum", with(new OverEnum(), u -> u.r(-5)), with(new OverEnum(), u -> u.gb(Colour.green, "green")),
             with(new OverEnum(), u -> u.gb(Colour.blue, "blue")));
        echo(o, "echo_over_enum_open", with(new OverEnumOpen(), u -> u.r(new Point(3, 4))),
             with(new OverEnumOpen(), u -> u.__default(Colour.green)));
        echo(o, "echo_over_boolean", yes("yes"), no(-1), yes(""));
        echo(o, "echo_over_boolean_open", with(new OverBooleanOpen(), u -> u.yes(2.5)),
             with(new OverBooleanOpen(), u -> u.__default(false)));
        echo(o, "echo_over_char", with(new OverChar(), u -> u.a((short) -1)), with(new OverChar(), u -> u.z(Colour.blue)),
             with(new OverChar(), u -> u.others('\0', new int[] {1, 2, 3})), with(new OverChar(), u -> u.others('\0', new int[0])));
        echo(o, "echo_over_short", with(new OverShort(), u -> u.seven(mixed("seven", Colour.green, 7))),
             with(new OverShort(), u -> u.eight(text(1, "eight"))), with(new OverShort(), u -> u.__default((short) 0)));
        echo(o, "echo_over_ulonglong", with(new OverULongLong(), u -> u.small((byte) 200)), with(new OverULongLong(), u -> u.big(-3)),
             with(new OverULongLong(), u -> u.rest(0, true)));
    }

    private static void sequences(Run run) throws Exception {
        Sequences o = SequencesHelper.narrow(run.group());
        byte[] many = new byte[300];
        for (int i = 0; i < many.length; i++) many[i] = (byte) i;
        echo(o, "echo_octets", new byte[0], new byte[] {(byte) 0x80}, many);
        echo(o, "echo_booleans", new boolean[0], new boolean[] {true, false, true});
        echo(o, "echo_chars", new char[0], new char[] {'a', 'b', '\0'});
        echo(o, "echo_shorts", new short[0], new short[] {-1, 0x0102, Short.MIN_VALUE});
        echo(o, "echo_longs", new int[0], new int[] {0x01020304}, new int[] {1, -1, Integer.MIN_VALUE});
        echo(o, "echo_ulonglongs", new long[0], new long[] {0, Long.MAX_VALUE, 0x0102030405060708L});
        echo(o, "echo_floats", new float[0], FLOATS);
        echo(o, "echo_doubles", new double[0], DOUBLES);
        echo(o, "echo_strings", new String[0], new String[] {""}, new String[] {"one", "", "caf\u00e9", "the end"});
        echo(o, "echo_points", new Point[0], new Point[] {new Point(1, 2), new Point(-3, -4)});
        echo(o, "echo_mixeds", new Mixed[0],
             new Mixed[] {mixed("a", Colour.red, 1), mixed("", Colour.blue, 2), mixed("ccc", Colour.green, 3)});
        echo(o, "echo_over_longs", new OverLong[0], new OverLong[] {raw(6), real(1.0), text(1, "t"), raw(8)});
        echo(o, "echo_longs_list", new int[0][], new int[][] {{}, {1}, {2, 3, 4}});
        echo(o, "echo_four_longs", new int[0], new int[] {1, 2, 3, 4});
        echo(o, "echo_three_short_strings", new String[0], new String[] {"12345678", "", "x"});
    }

    private static void arrays(Run run) throws Exception {
        Arrays o = ArraysHelper.narrow(run.group());
        echo(o, "echo_five_longs", new int[] {0, -1, -2, -3, -4}, new int[] {0x01020304, 1, 2, 3, Integer.MAX_VALUE});
        echo(o, "echo_grid", new short[][] {{0, -1, -2}, {-3, -4, -5}}, new short[][] {{100, 99, 98}, {97, 96, 95}});
        echo(o, "echo_cube", new double[][][] {{{0, .125}, {.25, .375}}, {{.5, .625}, {.75, .875}}},
             new double[][][] {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}});
        echo(o, "echo_eight_octets", new byte[] {-6, -5, -4, -3, -2, -1, 0, 1}, new byte[8]);
        echo(o, "echo_three_strings", new String[] {"", "q", "qq"}, new String[] {"q", "qq", "qqq"});
        echo(o, "echo_two_points", new Point[] {new Point(0, 0), new Point(0, 1)}, new Point[] {new Point(1, 0), new Point(1, 1)});
        echo(o, "echo_two_mixeds", new Mixed[] {mixed("m", Colour.green, 0), mixed("", Colour.red, 1)},
             new Mixed[] {mixed("n", Colour.blue, 2), mixed("mm", Colour.green, 3)});
        echo(o, "echo_two_longs", new int[][] {{0}, {1, 0, 3}}, new int[][] {{}, {1, 1, 3}});
    }

    private static Invoice invoice(String net, String rate) {
        return new Invoice((byte) 1, new BigDecimal(net), new BigDecimal(rate), -7);
    }

    private static void fixeds(Run run) throws Exception {
        Fixeds o = FixedsHelper.narrow(run.group());
        echo(o, "echo_money", new BigDecimal("9999999.99"), new BigDecimal("-9999999.99"), new BigDecimal("1234567.89"));
        echo(o, "echo_huge", new BigDecimal("9".repeat(31)), new BigDecimal("-" + "9".repeat(31)));
        echo(o, "echo_fraction", new BigDecimal("0.9999"), new BigDecimal("-0.1234"));
        echo(o, "echo_even_digits", new BigDecimal("12345.6"), new BigDecimal("-99999.9"));
        echo(o, "echo_invoice", invoice("1234567.89", "0.1925"), invoice("-7654321.01", "-0.2575"));
        echo(o, "echo_moneys", new BigDecimal[0], new BigDecimal[] {new BigDecimal("1111111.25"), new BigDecimal("-9999999.99")});
    }

    private static void recursive(Run run) throws Exception {
        Recursive o = RecursiveHelper.narrow(run.group());
        echo(o, "echo_tree", tree(1, 0), tree(2, 1), tree(4, 3), tree(20, 1));
        echo(o, "echo_expression", leaf(5), branch('+', leaf(1), branch('*', leaf(2), leaf(-3)), branch('+')));
        expect(o.depth(tree(1, 0)) == 1, "depth of a leaf");
        expect(o.depth(tree(20, 1)) == 20, "depth of a deep tree");
    }

    private static void typedefs(Run run) throws Exception {
        Typedefs o = TypedefsHelper.narrow(run.group());
        echo(o, "echo_height", 0, -1, Integer.MAX_VALUE);
        echo(o, "echo_profile", new int[0], new int[] {1, 2, 3});
        echo(o, "echo_triple", new int[][] {{0}, {}, {1, 0, 3}}, new int[][] {{1}, {}, {1, 1, 3}});
        echo(o, "echo_alias2", mixed("alias", Colour.red, 3), mixed("", Colour.blue, 4));
    }

    private static void anys(Run run) throws Exception {
        AnyValues o = AnyValuesHelper.narrow(run.group());
        Thing thing = FactoriesHelper.narrow(run.suite().group("factories")).create("in an any");
        List<Any> values = new ArrayList<>();
        List<Consumer<Any>> inserts = List.of(
            a -> { }, a -> a.insert_boolean(true), a -> a.insert_char('c'), a -> a.insert_octet((byte) 0xfe),
            a -> a.insert_short((short) -2), a -> a.insert_ushort((short) -1), a -> a.insert_long(0x01020304),
            a -> a.insert_ulong(0xfffefdfc), a -> a.insert_longlong(Long.MIN_VALUE), a -> a.insert_ulonglong(-1L),
            a -> a.insert_float(1.5f), a -> a.insert_double(-2.25), a -> a.insert_string("text"),
            a -> ColourHelper.insert(a, Colour.blue), a -> PointHelper.insert(a, new Point(1, 2)),
            a -> MixedHelper.insert(a, mixed("mixed", Colour.green, 5)), a -> OverLongHelper.insert(a, text(2, "two")),
            a -> OverLongHelper.insert(a, raw(3)), a -> LongsHelper.insert(a, new int[] {1, 2, 3}),
            a -> FiveLongsHelper.insert(a, new int[] {1, 2, 3, 4, 5}), a -> HeightHelper.insert(a, 12),
            // No Expression: JacORB compares a recursive union without end.
            a -> TreeHelper.insert(a, tree(3, 2)),
            a -> {
                Any inner = run.orb().create_any();
                MixedHelper.insert(inner, mixed("inner", Colour.red, 1));
                a.insert_any(inner);
            },
            a -> ThingHelper.insert(a, thing), a -> ThingHelper.insert(a, null), a -> a.insert_TypeCode(MixedHelper.type()),
            a -> InvoiceHelper.insert(a, invoice("1234567.89", "0.2525")));
        for (Consumer<Any> insert : inserts) {
            Any any = run.orb().create_any();
            insert.accept(any);
            values.add(any);
        }
        if (run.options().giop.isEmpty() || run.options().giop.equals("1.2")) {
            Any any = run.orb().create_any();
            any.insert_wstring("wide");
            values.add(any);
        }
        if (!run.options().utf8) {
            Any any = run.orb().create_any();
            any.insert_char('\u00e9');
            values.add(any);
        }
        echo(o, "echo_any", values.toArray());
        echo(o, "echo_anys", new Any[0], values.toArray(new Any[0]));
        echo(o, "echo_with_any", new WithAny(1, values.get(15), 2));
        for (Any value : values) expect(o.kind(value) == value.type().kind().value(), "kind");
        expect(o.make("null").type().kind() == TCKind.tk_null, "make null");
        expect(o.make("long").extract_long() == 42, "make long");
        expect(o.make("string").extract_string().equals("forty-two"), "make string");
        expect(plain(MixedHelper.extract(o.make("mixed"))).equals(plain(new Mixed("m", Colour.green, new Point(1, -2), (byte) 9))),
               "make mixed");
        expect(plain(LongsHelper.extract(o.make("longs"))).equals(plain(new int[] {1, 2, 3})), "make longs");
        expect(o.make("nested").extract_any().extract_long() == 42, "make nested");
        expect(TreeHelper.extract(o.make("tree")).children[0].name.equals("leaf"), "make tree");
        expectThrow(BAD_PARAM.class, () -> o.make("nonsense"));
    }

    private static void typecodes(Run run) throws Exception {
        TypeCodes o = TypeCodesHelper.narrow(run.group());
        // No expression: JacORB compares a recursive union without end. No over_long: to it, no union with a default equals another.
        Map<String, TypeCode> types = new LinkedHashMap<>();
        types.put("long", run.orb().get_primitive_tc(TCKind.tk_long));
        types.put("mixed", MixedHelper.type());
        types.put("tree", TreeHelper.type());
        types.put("colour", ColourHelper.type());
        types.put("height", HeightHelper.type());
        types.put("plain", PlainHelper.type());
        types.put("thing", ThingHelper.type());
        types.put("money", MoneyHelper.type());
        types.put("wide", WideHelper.type());
        echo(o, "echo_typecode", types.values().toArray());
        for (Map.Entry<String, TypeCode> entry : types.entrySet()) {
            TypeCode type = entry.getValue();
            expect(o.same(type, type) && o.equivalent(type, type), "same " + entry.getKey());
            expect(o.describe(entry.getKey()).equal(type), "describe " + entry.getKey());
        }
        expect(!o.same(types.get("mixed"), types.get("colour")), "mixed is no colour");
        expect(!o.same(types.get("height"), types.get("long")), "an alias is not the same");
        expect(o.equivalent(types.get("height"), types.get("long")), "an alias is equivalent");
        expectThrow(BAD_PARAM.class, () -> o.describe("nonsense"));
    }
}
