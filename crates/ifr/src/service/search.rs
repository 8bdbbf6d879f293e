//! Contents of containers, and names in them.

use crate::contents::{Contents, Item};
use crate::corba::DefinitionKind;
use isorb_idl::model::{DefId, DefKind};
use std::collections::HashSet;

/// Whether an object is of a kind that a client limits its question to.
fn is_of(contents: &Contents, item: Item, limit: DefinitionKind) -> bool {
    use DefinitionKind as K;
    let kind = contents.kind(item).0;
    match limit {
        K::DkAll => true,
        K::DkTypedef => {
            matches!(kind, K::DkAlias | K::DkStruct | K::DkUnion | K::DkEnum | K::DkNative | K::DkValueBox)
        }
        limit => kind == limit,
    }
}

/// What a container itself has: definitions, and the state of a value.
fn own(contents: &Contents, container: Item) -> Vec<Item> {
    let spec = contents.spec();
    match container {
        Item::Repository => spec.roots().iter().map(|id| Item::Definition(*id)).collect(),
        Item::Definition(id) => {
            let state = match &spec[id].kind {
                DefKind::Value(value) => value.members.len(),
                _ => 0,
            };
            let members = (0..state).map(|at| Item::Member(id, at));
            spec[id].contents.iter().map(|id| Item::Definition(*id)).chain(members).collect()
        }
        _ => Vec::new(),
    }
}

/// The contents of a container of a kind, inherited ones last.
pub fn contents(all: &Contents, container: Item, limit: DefinitionKind, inherited: bool) -> Vec<Item> {
    let mut found = own(all, container);
    if let (Item::Definition(id), true) = (container, inherited) {
        for base in all.spec().all_bases(id) {
            found.extend(own(all, Item::Definition(base)));
        }
    }
    found.retain(|item| is_of(all, *item, limit));
    found
}

fn name(all: &Contents, item: Item) -> &str {
    match item {
        Item::Definition(id) => &all.spec()[id].name,
        _ => all.member(item).map_or("", |state| &state.member.name),
    }
}

/// Definitions of a name in a container and, down to `levels`, in its contents; -1 for all levels.
pub fn lookup_name(
    all: &Contents,
    container: Item,
    wanted: &str,
    levels: i32,
    limit: DefinitionKind,
    inherited: bool,
) -> Vec<Item> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    // Containers to search, with the levels that are left.
    let mut todo = vec![(container, levels)];
    while let Some((container, levels)) = todo.pop() {
        if levels == 0 {
            continue;
        }
        let everything = contents(all, container, DefinitionKind::DkAll, inherited);
        for item in everything {
            // A base may be inherited in several ways.
            if name(all, item) == wanted && is_of(all, item, limit) && seen.insert(item) {
                found.push(item);
            }
        }
        // What is inherited is searched where it is defined.
        let below = own(all, container).into_iter().rev();
        todo.extend(below.map(|item| (item, if levels < 0 { levels } else { levels - 1 })));
    }
    found
}

/// The definition of a scoped name: from the repository if it begins with `::`, else by the scoping
/// rules of IDL, from the container outwards.
pub fn lookup(all: &Contents, container: Item, scoped: &str) -> Option<Item> {
    if let Some(absolute) = scoped.strip_prefix("::") {
        return within(all, Item::Repository, absolute);
    }
    let mut scope = Some(container);
    while let Some(at) = scope {
        if let Some(found) = within(all, at, scoped) {
            return Some(found);
        }
        scope = match at {
            Item::Definition(id) => Some(all.spec()[id].parent.map_or(Item::Repository, Item::Definition)),
            _ => None,
        };
    }
    None
}

/// The definition with this path below a container.
fn within(all: &Contents, container: Item, path: &str) -> Option<Item> {
    let mut at = container;
    for part in path.split("::") {
        let everything = contents(all, at, DefinitionKind::DkAll, true);
        at = everything.into_iter().find(|item| name(all, *item) == part)?;
    }
    Some(at)
}

/// Whether an interface or value is, or derives from, the one with a repository id.
pub fn is_a(all: &Contents, id: DefId, wanted: &str) -> bool {
    let spec = all.spec();
    let every = match &spec[id].kind {
        DefKind::Interface(it) if it.abstract_ => "IDL:omg.org/CORBA/AbstractBase:1.0",
        DefKind::Interface(_) => "IDL:omg.org/CORBA/Object:1.0",
        _ => "IDL:omg.org/CORBA/ValueBase:1.0",
    };
    wanted == every
        || spec[id].repository_id == wanted
        || spec.all_bases(id).iter().any(|base| spec[*base].repository_id == wanted)
}
