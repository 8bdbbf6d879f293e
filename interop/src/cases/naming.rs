//! The whole of CosNaming against the service of `--ns`, in a context of its own that is removed at
//! the end.

use crate::check::{Check, Run, some};
use crate::{expect, expect_err};
use isorb::{Object, Orb, Reference, Result};
use isorb_naming::cos_naming::naming_context::{
    BindContextError, BindError, BindNewContextError, DestroyError, NotFoundReason, ResolveError, UnbindError,
};
use isorb_naming::cos_naming::naming_context_ext::{ToNameError, ToUrlError};
use isorb_naming::cos_naming::{BindingList, Name, NameComponent, NamingContextExtRef, NamingContextRef};
use std::collections::BTreeSet;

/// A part of a name.
pub fn component(id: &str, kind: &str) -> NameComponent {
    NameComponent { id: id.to_owned(), kind: kind.to_owned() }
}

/// The context at an URL.
///
/// # Errors
/// The exception of resolving.
pub fn context_at(orb: &Orb, url: &str) -> Result<NamingContextRef> {
    orb.resolve(url)
}

fn name(path: &str) -> Vec<NameComponent> {
    path.split('/').map(|id| component(id, "")).collect()
}

fn ids(list: &BindingList, seen: &mut BTreeSet<String>) {
    seen.extend(list.iter().filter_map(|binding| binding.binding_name.first()).map(|first| first.id.clone()));
}

pub(super) fn naming(run: &Run<'_>) -> Check {
    let root: NamingContextExtRef = run.orb.resolve(&run.options.ns)?;
    let root_object: &Object = root.object();
    let own = format!("interop-isorb-{}", std::process::id());
    let plain = some(root.bind_new_context(&name(&own))?)?;
    let context = some(plain.object().narrow::<NamingContextExtRef>()?)?;
    expect_err!(root.bind_new_context(&name(&own)), BindNewContextError::AlreadyBound(_));

    // bind, resolve, rebind, unbind; the bound object is the service itself.
    let leaf = vec![component("leaf", "kind")];
    let is = |found: Option<Object>, what: &Object| found.is_some_and(|found| found == *what);
    context.bind(&leaf, Some(root_object))?;
    expect!(is(context.resolve(&leaf)?, root_object));
    expect_err!(context.bind(&leaf, Some(root_object)), BindError::AlreadyBound(_));
    context.rebind(&leaf, Some(context.object()))?;
    expect!(is(context.resolve(&leaf)?, context.object()));
    expect_err!(
        context.resolve(&name("absent")),
        ResolveError::NotFound(e) if e.why == NotFoundReason::MissingNode && e.rest_of_name.len() == 1
    );
    expect_err!(context.resolve(&name("absent/below")), ResolveError::NotFound(e) if e.rest_of_name.len() == 2);
    expect_err!(context.resolve(&Name::new()), ResolveError::InvalidName(_));

    // A path through contexts.
    let inner = some(context.bind_new_context(&name("inner"))?)?;
    context.bind(&name("inner/deep"), Some(root_object))?;
    expect!(is(root.resolve(&name(&format!("{own}/inner/deep")))?, root_object));
    expect_err!(inner.destroy(), DestroyError::NotEmpty(_));
    let loose = some(context.new_context()?)?;
    context.bind_context(&name("loose"), Some(&loose))?;
    expect_err!(context.bind_context(&name("loose"), Some(&loose)), BindContextError::AlreadyBound(_));
    context.rebind_context(&name("loose"), Some(&inner))?;

    listing(&context, root_object)?;
    strings(&context, root_object)?;

    for i in 0..20 {
        context.unbind(&name(&format!("many{i}")))?;
    }
    expect_err!(context.unbind(&name("many0")), UnbindError::NotFound(_));
    context.unbind(&name("loose"))?;
    context.unbind(&leaf)?;
    context.unbind(&name("inner/deep"))?;
    context.unbind(&name("inner"))?;
    inner.destroy()?;
    loose.destroy()?;
    root.unbind(&name(&own))?;
    context.destroy()?;
    expect_err!(root.resolve(&name(&own)), ResolveError::NotFound(_));
    Ok(())
}

/// Listing, with an iterator for the rest.
fn listing(context: &NamingContextExtRef, object: &Object) -> Check {
    for i in 0..20 {
        context.bind(&name(&format!("many{i}")), Some(object))?;
    }
    let (list, rest) = context.list(1000)?;
    let mut all = BTreeSet::new();
    ids(&list, &mut all);
    expect!(all.len() == 23);
    if let Some(rest) = rest {
        rest.destroy()?;
    }
    let (list, iterator) = context.list(5)?;
    expect!(list.len() == 5);
    let iterator = some(iterator)?;
    let mut seen = BTreeSet::new();
    ids(&list, &mut seen);
    let (more, one) = iterator.next_one()?;
    expect!(more);
    ids(&vec![one], &mut seen);
    loop {
        let (more, list) = iterator.next_n(4)?;
        if !more {
            break;
        }
        expect!((1..=4).contains(&list.len()));
        ids(&list, &mut seen);
    }
    expect!(seen == all);
    iterator.destroy()?;
    Ok(())
}

/// Names as strings and URLs.
fn strings(context: &NamingContextExtRef, root: &Object) -> Check {
    expect!(context.to_string(&vec![component("leaf", "kind")])? == "leaf.kind");
    let parsed = context.to_name("a\\.b.c/d\\/e")?;
    expect!(parsed == [component("a.b", "c"), component("d/e", "")]);
    expect!(context.resolve_str("inner/deep")?.is_some_and(|found| found == *root));
    expect!(context.to_url(":host:2809", "a/b")? == "corbaname::host:2809#a/b");
    expect_err!(context.to_name(""), ToNameError::InvalidName(_));
    expect_err!(context.to_url("", "a"), ToUrlError::InvalidAddress(_));
    Ok(())
}
