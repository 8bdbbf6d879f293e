"""Case naming: the whole of CosNaming against the service of --ns. Works in a context of its own and removes it."""

import os

import CosNaming
from CosNaming import NamingContext, NamingContextExt

from check import expect, expect_raise
from common import to_name


def ids(bindings):
    return {binding.binding_name[0].id for binding in bindings}


def naming(run):
    root = run.orb.string_to_object(run.options.ns)._narrow(NamingContextExt)
    own = "interop-omniorbpy-%d" % os.getpid()
    name = to_name(own)
    context = root.bind_new_context(name)._narrow(NamingContextExt)
    expect(context is not None)
    expect_raise(NamingContext.AlreadyBound, root.bind_new_context, name)

    # bind, resolve, rebind, unbind; the service itself is the object that is bound.
    leaf = [CosNaming.NameComponent("leaf", "kind")]
    context.bind(leaf, root)
    expect(context.resolve(leaf)._is_equivalent(root))
    expect_raise(NamingContext.AlreadyBound, context.bind, leaf, root)
    context.rebind(leaf, context)
    expect(context.resolve(leaf)._is_equivalent(context))
    e = expect_raise(NamingContext.NotFound, context.resolve, to_name("absent"))
    expect(e.why == NamingContext.missing_node and len(e.rest_of_name) == 1)
    e = expect_raise(NamingContext.NotFound, context.resolve, to_name("absent/below"))
    expect(len(e.rest_of_name) == 2)
    expect_raise(NamingContext.InvalidName, context.resolve, [])

    # A path through contexts.
    inner = context.bind_new_context(to_name("inner"))
    context.bind(to_name("inner/deep"), root)
    expect(root.resolve(to_name(own + "/inner/deep"))._is_equivalent(root))
    expect_raise(NamingContext.NotEmpty, inner.destroy)
    loose = context.new_context()
    context.bind_context(to_name("loose"), loose)
    expect_raise(NamingContext.AlreadyBound, context.bind_context, to_name("loose"), loose)
    context.rebind_context(to_name("loose"), inner)

    # Listing, with an iterator for what does not fit.
    for i in range(20):
        context.bind(to_name("many%d" % i), root)
    bindings, iterator = context.list(1000)
    expect(len(ids(bindings)) == 23)
    bindings, iterator = context.list(5)
    expect(len(bindings) == 5 and iterator is not None)
    seen = ids(bindings)
    more, one = iterator.next_one()
    expect(more)
    seen.add(one.binding_name[0].id)
    while True:
        more, bindings = iterator.next_n(4)
        if not more:
            break
        expect(1 <= len(bindings) <= 4)
        seen |= ids(bindings)
    expect(len(seen) == 23)
    iterator.destroy()

    # Names as strings and URLs.
    expect(context.to_string(leaf) == "leaf.kind")
    parsed = context.to_name("a\\.b.c/d\\/e")
    expect([(c.id, c.kind) for c in parsed] == [("a.b", "c"), ("d/e", "")])
    expect(context.resolve_str("inner/deep")._is_equivalent(root))
    expect(context.to_url(":host:2809", "a/b") == "corbaname::host:2809#a/b")
    expect_raise(NamingContext.InvalidName, context.to_name, "")
    expect_raise(NamingContextExt.InvalidAddress, context.to_url, "", "a")

    for i in range(20):
        context.unbind(to_name("many%d" % i))
    expect_raise(NamingContext.NotFound, context.unbind, to_name("many0"))
    context.unbind(to_name("loose"))
    context.unbind(leaf)
    context.unbind(to_name("inner/deep"))
    context.unbind(to_name("inner"))
    inner.destroy()
    loose.destroy()
    root.unbind(name)
    context.destroy()
    expect_raise(NamingContext.NotFound, root.resolve, name)


CASES = {"naming": naming}
