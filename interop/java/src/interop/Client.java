package interop;

import Interop.Suite;
import Interop.SuiteHelper;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.omg.CORBA.ORB;
import org.omg.PortableServer.POA;
import org.omg.PortableServer.POAHelper;

/** The JacORB client of the interoperability tests. Contract: interop/README.md. */
public final class Client {
    private static String whyNot(Options o, String name, Set<String> serverLacks) {
        switch (name) {
            case "long_doubles": return "JacORB has no long double";
            case "bounded_wides": return "JacORB writes a wstring<n> wrongly";
            case "union_labels": return "JacORB forgets the discriminator of a default branch";
            case "fixed_zeros": return "JacORB leaves leading zeros of a fixed out";
            case "contexts": return "JacORB's IDL compiler ignores contexts";
            case "attribute_exceptions": return "JacORB's stub cannot read an exception of getraises or setraises";
            default: break;
        }
        if (serverLacks.contains(name)) return "the server does not support it";
        if (name.equals("naming")) return o.ns.isEmpty() ? "needs --ns" : "";
        if (o.ior.isEmpty()) return "needs --ior";
        if (name.equals("utf8_strings") && !o.utf8) return "needs --utf8";
        if (name.equals("bidirectional") && !o.bidir) return "needs --bidir";
        if (name.equals("interleaving") && !o.interleave) return "needs --interleave";
        if (name.equals("bidirectional") && !o.giop.isEmpty() && !o.giop.equals("1.2")) return "GIOP 1.2 only";
        if (name.contains("wide") && o.giop.equals("1.0")) return "GIOP 1.0 has no wide characters";
        if (o.giop.equals("1.1") && name.matches("large|parallel|.*wide.*")) {
            return "the peers differ in fragments and wide characters of GIOP 1.1";
        }
        return "";
    }

    public static void main(String[] args) throws Exception {
        Options options = Options.parse(args, false);
        ORB orb = options.init(false);
        POA root = POAHelper.narrow(orb.resolve_initial_references("RootPOA"));
        root.the_POAManager().activate();
        Suite suite = null;
        Set<String> serverLacks = new HashSet<>();
        if (!options.ior.isEmpty()) {
            suite = SuiteHelper.narrow(orb.string_to_object(options.ior));
            serverLacks.addAll(List.of(suite.unsupported()));
        }
        Map<String, Check.Case> cases = new HashMap<>(ValueCases.cases());
        cases.putAll(ObjectCases.cases());
        cases.put("naming", NamingCase::naming);
        List<String> only = options.only.isEmpty() ? Options.CASES : List.of(options.only.split(","));
        for (String name : only) {
            if (!Options.CASES.contains(name)) {
                System.err.println("client: no case " + name);
                Runtime.getRuntime().halt(2);
            }
        }
        int passed = 0, failed = 0, skipped = 0;
        for (String name : Options.CASES) {
            if (!only.contains(name)) continue;
            String outcome = "skip", reason = whyNot(options, name, serverLacks);
            if (reason.isEmpty()) {
                try {
                    cases.get(name).run(new Check.Run(orb, root, options, suite, name));
                    outcome = "ok";
                } catch (Check.Skip e) {
                    reason = e.getMessage();
                } catch (Check.Failure e) {
                    outcome = "FAIL";
                    reason = e.getMessage();
                } catch (Throwable e) {
                    outcome = "FAIL";
                    reason = e + at(e);
                }
            }
            switch (outcome) {
                case "ok" -> passed++;
                case "FAIL" -> failed++;
                default -> skipped++;
            }
            System.out.println((outcome + " " + name + " " + reason.replace('\n', ' ')).trim());
            System.out.flush();
        }
        System.out.printf("done %d ok %d failed %d skipped%n", passed, failed, skipped);
        System.out.flush();
        Runtime.getRuntime().halt(failed > 0 ? 1 : 0);
    }

    private static String at(Throwable e) {
        for (StackTraceElement frame : e.getStackTrace()) {
            if (frame.getClassName().startsWith("interop.") && !frame.getClassName().equals("interop.Check")) {
                return " (" + frame.getFileName() + ":" + frame.getLineNumber() + ")";
            }
        }
        return "";
    }
}
