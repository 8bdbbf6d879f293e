package interop;

import Interop.*;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.omg.CORBA.ORB;
import org.omg.CosNaming.NameComponent;
import org.omg.CosNaming.NamingContext;
import org.omg.CosNaming.NamingContextHelper;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.POAHelper;
import org.omg.PortableServer.Servant;

/** The JacORB server of the interoperability tests. Contract: interop/README.md. */
public final class Server {
    private static Servants.SuiteImpl suite;

    private static void add(String names, Servant servant, POA poa) throws Exception {
        org.omg.CORBA.Object reference = poa.id_to_reference(poa.activate_object(servant));
        for (String name : names.split(" ")) suite.groups.put(name, reference);
    }

    public static void main(String[] args) throws Exception {
        Options options = Options.parse(args, true);
        ORB orb = options.init(true);
        POA root = POAHelper.narrow(orb.resolve_initial_references("RootPOA"));
        // No long double in the mapping; a wstring<n> is wrong on the wire; a union forgets the discriminator of its default
        // branch; leading zeros of a fixed are left out; a servant locator's ForwardRequest ends the thread; the IDL compiler
        // ignores contexts.
        suite = new Servants.SuiteImpl(orb, "long_doubles", "bounded_wides", "union_labels", "fixed_zeros", "forwards",
                                       "contexts");
        add("scalars", new ScalarsPOATie(Servants.echo(ScalarsOperations.class, new Servants.ScalarsOthers())), root);
        add("floats", new FloatingPointPOATie(Servants.echo(FloatingPointOperations.class, null)), root);
        add("strings utf8_strings", new NarrowStringsPOATie(Servants.echo(NarrowStringsOperations.class, null)), root);
        add("wides", new WidesPOATie(Servants.echo(WidesOperations.class, null)), root);
        add("wide_chars", new WideCharsPOATie(Servants.echo(WideCharsOperations.class, null)), root);
        add("enums", new EnumsPOATie(Servants.echo(EnumsOperations.class, null)), root);
        add("structs", new StructsPOATie(Servants.echo(StructsOperations.class, null)), root);
        add("unions", new UnionsPOATie(Servants.echo(UnionsOperations.class, null)), root);
        add("sequences", new SequencesPOATie(Servants.echo(SequencesOperations.class, null)), root);
        add("arrays", new ArraysPOATie(Servants.echo(ArraysOperations.class, null)), root);
        add("fixeds", new FixedsPOATie(Servants.echo(FixedsOperations.class, null)), root);
        add("recursive", new RecursivePOATie(Servants.echo(RecursiveOperations.class, new Servants.RecursiveOthers())), root);
        add("typedefs", new TypedefsPOATie(Servants.echo(TypedefsOperations.class, null)), root);
        add("anys", new AnyValuesPOATie(Servants.echo(AnyValuesOperations.class, new Servants.AnyOthers(orb))), root);
        add("typecodes", new TypeCodesPOATie(Servants.echo(TypeCodesOperations.class, new Servants.TypeCodeOthers(orb))), root);
        add("references", new ReferencesPOATie(Servants.echo(ReferencesOperations.class, new Servants.ReferenceOthers())), root);
        add("factories", new Servants.FactoriesImpl(root), root);
        add("inheritance", new Servants.InheritanceImpl(root), root);
        add("user_exceptions", new Servants.UserExceptionsImpl(), root);
        add("system_exceptions", new Servants.SystemExceptionsImpl(), root);
        add("attributes", new Servants.AttributesImpl(), root);
        add("attribute_exceptions", new Servants.AttributeExceptionsImpl(), root);
        add("oneways", new Servants.OnewaysImpl(), root);
        add("callbacks bidirectional", new Servants.CallbacksImpl(),
            options.bidir ? Options.bidirectionalPoa(orb, root) : root);
        add("forwards", new Servants.ForwardsImpl(root), root);
        add("timeouts", new Servants.SlowImpl(), root);
        add("large parallel", new LargePOATie(Servants.echo(LargeOperations.class, new Servants.LargeOthers())), root);
        root.the_POAManager().activate();
        org.omg.CORBA.Object reference = root.id_to_reference(root.activate_object(suite));
        String ior = orb.object_to_string(reference);
        ((org.jacorb.orb.ORB) orb).addObjectKey("Interop", ior); // for corbaloc:...:PORT/Interop
        if (!options.ns.isEmpty()) bind(orb, options, reference);
        Files.writeString(Path.of(options.iorFile), ior + "\n");
        System.out.println("READY");
        System.out.flush();
        Thread watcher = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException e) {
                // the same as the end of input
            }
            orb.shutdown(false);
        });
        watcher.setDaemon(true);
        watcher.start();
        orb.run();
        // The tear-down of the ORB waits for connections of clients that are gone.
        Runtime.getRuntime().halt(0);
    }

    /** Binds in naming, making the contexts on the way. */
    private static void bind(ORB orb, Options options, org.omg.CORBA.Object reference) throws Exception {
        NamingContext context = NamingContextHelper.narrow(orb.string_to_object(options.ns));
        NameComponent[] path = Options.toName(options.name);
        for (int length = 1; length < path.length; length++) {
            try {
                context.bind_new_context(Arrays.copyOf(path, length));
            } catch (org.omg.CosNaming.NamingContextPackage.AlreadyBound e) {
                // as wanted
            }
        }
        context.rebind(path, reference);
    }
}
