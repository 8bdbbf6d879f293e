package interop;

import static interop.Check.expect;
import static interop.Check.expectThrow;

import interop.Check.Run;
import java.util.HashSet;
import java.util.Set;
import org.omg.CosNaming.Binding;
import org.omg.CosNaming.BindingHolder;
import org.omg.CosNaming.BindingIteratorHolder;
import org.omg.CosNaming.BindingListHolder;
import org.omg.CosNaming.NameComponent;
import org.omg.CosNaming.NamingContext;
import org.omg.CosNaming.NamingContextExt;
import org.omg.CosNaming.NamingContextExtHelper;
import org.omg.CosNaming.NamingContextExtPackage.InvalidAddress;
import org.omg.CosNaming.NamingContextPackage.AlreadyBound;
import org.omg.CosNaming.NamingContextPackage.InvalidName;
import org.omg.CosNaming.NamingContextPackage.NotEmpty;
import org.omg.CosNaming.NamingContextPackage.NotFound;

/** Case naming: the whole of CosNaming against the service of --ns. Works in a context of its own and removes it. */
final class NamingCase {
    private NamingCase() {}

    private static Set<String> ids(Binding[] bindings) {
        Set<String> all = new HashSet<>();
        for (Binding binding : bindings) all.add(binding.binding_name[0].id);
        return all;
    }

    static void naming(Run run) throws Exception {
        NamingContextExt root = NamingContextExtHelper.narrow(run.orb().string_to_object(run.options().ns));
        String own = "interop-jacorb-" + ProcessHandle.current().pid();
        NameComponent[] name = Options.toName(own);
        NamingContextExt context = NamingContextExtHelper.narrow(root.bind_new_context(name));
        expectThrow(AlreadyBound.class, () -> root.bind_new_context(name));

        // bind, resolve, rebind, unbind; the service itself is the object that is bound.
        NameComponent[] leaf = {new NameComponent("leaf", "kind")};
        context.bind(leaf, root);
        expect(context.resolve(leaf)._is_equivalent(root), "resolve");
        expectThrow(AlreadyBound.class, () -> context.bind(leaf, root));
        context.rebind(leaf, context);
        expect(context.resolve(leaf)._is_equivalent(context), "rebind");
        expect(expectThrow(NotFound.class, () -> context.resolve(Options.toName("absent"))).rest_of_name.length == 1, "rest_of_name");
        expect(expectThrow(NotFound.class, () -> context.resolve(Options.toName("absent/below"))).rest_of_name.length == 2,
               "rest_of_name of a path");
        expectThrow(InvalidName.class, () -> context.resolve(new NameComponent[0]));

        // A path through contexts.
        NamingContext inner = context.bind_new_context(Options.toName("inner"));
        context.bind(Options.toName("inner/deep"), root);
        expect(root.resolve(Options.toName(own + "/inner/deep"))._is_equivalent(root), "a path");
        expectThrow(NotEmpty.class, inner::destroy);
        NamingContext loose = context.new_context();
        context.bind_context(Options.toName("loose"), loose);
        expectThrow(AlreadyBound.class, () -> context.bind_context(Options.toName("loose"), loose));
        context.rebind_context(Options.toName("loose"), inner);

        // Listing, with an iterator for what does not fit.
        for (int i = 0; i < 20; i++) context.bind(Options.toName("many" + i), root);
        BindingListHolder list = new BindingListHolder();
        BindingIteratorHolder iterator = new BindingIteratorHolder();
        context.list(1000, list, iterator);
        expect(ids(list.value).size() == 23, "list");
        context.list(5, list, iterator);
        expect(list.value.length == 5 && iterator.value != null, "list of 5");
        Set<String> seen = ids(list.value);
        BindingHolder one = new BindingHolder();
        expect(iterator.value.next_one(one), "next_one");
        seen.add(one.value.binding_name[0].id);
        while (iterator.value.next_n(4, list)) seen.addAll(ids(list.value));
        expect(seen.size() == 23, "iterator");
        iterator.value.destroy();

        // Names as strings and URLs.
        expect(context.to_string(leaf).equals("leaf.kind"), "to_string");
        NameComponent[] parsed = context.to_name("a\\.b.c/d\\/e");
        expect(parsed.length == 2 && parsed[0].id.equals("a.b") && parsed[0].kind.equals("c") && parsed[1].id.equals("d/e"), "to_name");
        expect(context.resolve_str("inner/deep")._is_equivalent(root), "resolve_str");
        expect(context.to_url(":host:2809", "a/b").equals("corbaname::host:2809#a/b"), "to_url");
        expectThrow(InvalidName.class, () -> context.to_name(""));
        expectThrow(InvalidAddress.class, () -> context.to_url("", "a"));

        for (int i = 0; i < 20; i++) context.unbind(Options.toName("many" + i));
        expectThrow(NotFound.class, () -> context.unbind(Options.toName("many0")));
        context.unbind(Options.toName("loose"));
        context.unbind(leaf);
        context.unbind(Options.toName("inner/deep"));
        context.unbind(Options.toName("inner"));
        inner.destroy();
        loose.destroy();
        root.unbind(name);
        context.destroy();
        expectThrow(NotFound.class, () -> root.resolve(name));
    }
}
