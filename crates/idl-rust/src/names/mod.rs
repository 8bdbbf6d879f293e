//! Rust names of all items, by one rule (`docs/reference/idl-to-rust.md`, 'Names').
//!
//! In each Rust scope the names that come from IDL are given out first, in the order of the file,
//! then those that are made from them (views, references, modules of interfaces, functions), in the
//! same order. A name that is taken, or a keyword, gets underscores at its end until it is free.

pub(crate) mod case;
mod space;

pub(crate) use space::Space;

use crate::lowered::{Op, Role, all_ops, own_ops};
use crate::shape::Analysis;
use case::{camel, snake, upper};
use isorb_idl::model::{DefId, DefKind, Spec};
use std::collections::HashMap;

/// The names of one definition. Names that do not apply are empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct ItemNames {
    /// The definition itself: type, trait, constant, module.
    pub name: String,
    /// `SView`.
    pub view: String,
    /// `IRef`.
    pub reference: String,
    /// `VState`.
    pub state: String,
    /// The module for what stands inside, which for an IDL module is the definition itself.
    pub module: String,
    /// Fields, variants or enumerators, in order.
    pub members: Vec<String>,
    /// The variant of a union for discriminators without a member.
    pub unlisted: String,
    /// The description of an interface.
    pub interface: String,
}

/// The names that one operation leads to, in the interface where it stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpNames {
    /// The method of the servant trait and of the reference.
    pub method: String,
    pub serve: String,
    pub call: String,
    pub operation: String,
    pub error: String,
    pub begin: String,
    pub read: String,
    pub reply: String,
}

/// The methods of a reference for one operation, own or inherited.
#[derive(Clone, Debug)]
pub(crate) struct Methods {
    pub owned: String,
    /// Empty where nothing that comes back borrows.
    pub scoped: String,
    /// Begins a call.
    pub begin: String,
    /// Calls as a future.
    pub future: String,
}

/// All names of a specification.
#[derive(Debug, Default)]
pub(crate) struct Names {
    items: HashMap<DefId, ItemNames>,
    spaces: HashMap<Option<DefId>, Space>,
    ops: HashMap<(DefId, Role), OpNames>,
    methods: HashMap<DefId, Vec<Methods>>,
}

impl Names {
    pub fn new(spec: &Spec, analysis: &Analysis<'_>) -> Names {
        let mut names = Names::default();
        names.scope(spec, analysis, None);
        for (id, definition) in spec.definitions() {
            if has_module(spec, id) {
                names.scope(spec, analysis, Some(id));
            }
            names.members(spec, id);
            if matches!(definition.kind, DefKind::Interface(_)) {
                names.interface_methods(spec, analysis, id);
            }
        }
        for (id, definition) in spec.definitions() {
            if matches!(definition.kind, DefKind::Interface(_)) {
                names.interface_module(spec, id);
            }
        }
        names
    }

    pub fn item(&self, id: DefId) -> &ItemNames {
        &self.items[&id]
    }

    pub fn op(&self, op: &Op) -> &OpNames {
        &self.ops[&(op.def, op.role)]
    }

    /// In the order of [`all_ops`].
    pub fn methods(&self, interface: DefId) -> &[Methods] {
        &self.methods[&interface]
    }

    /// The names in the Rust module for the contents of a definition.
    pub fn space(&self, scope: Option<DefId>) -> &Space {
        &self.spaces[&scope]
    }

    /// Names what stands in an IDL scope.
    fn scope(&mut self, spec: &Spec, analysis: &Analysis<'_>, scope: Option<DefId>) {
        let mut space = Space::default();
        for &id in spec.contents(scope) {
            let names = self.items.entry(id).or_default();
            let name = &spec[id].name;
            match &spec[id].kind {
                DefKind::Operation(_) | DefKind::Attribute(_) | DefKind::Enumerator(_) => {}
                DefKind::Module => {
                    names.name = space.claim_type(&snake(name));
                    names.module.clone_from(&names.name);
                }
                DefKind::Const(_) => names.name = space.claim(&upper(name)),
                _ => names.name = space.claim_type(name),
            }
        }
        for &id in spec.contents(scope) {
            let names = self.items.entry(id).or_default();
            let name = &spec[id].name;
            match &spec[id].kind {
                DefKind::Module => continue,
                DefKind::Struct(_) | DefKind::Union(_) | DefKind::Exception(_) | DefKind::Typedef(_) => {
                    let ty = isorb_idl::model::Type::Named(id);
                    let shape = match &spec[id].kind {
                        DefKind::Exception(_) => crate::shape::Shape::Record(id),
                        _ => analysis.shape(&ty),
                    };
                    if analysis.borrows(&shape) {
                        names.view = space.claim_type(&format!("{name}View"));
                    }
                }
                DefKind::Interface(i) if !i.local => {
                    names.reference = space.claim_type(&format!("{name}Ref"))
                }
                DefKind::Value(_) | DefKind::ValueBox(_) => {
                    names.state = space.claim_type(&format!("{name}State"));
                }
                _ => {}
            }
            if has_module(spec, id) {
                names.module = space.claim_type(&snake(name));
            }
        }
        self.spaces.insert(scope, space);
    }

    fn members(&mut self, spec: &Spec, id: DefId) {
        let mut space = Space::default();
        let mut unlisted = String::new();
        let members = match &spec[id].kind {
            DefKind::Struct(_) | DefKind::Exception(_) => {
                spec.members(id).iter().map(|m| space.claim(&snake(&m.name))).collect()
            }
            DefKind::Value(_) => {
                spec.all_state(id).into_iter().map(|m| space.claim(&snake(&m.member.name))).collect()
            }
            DefKind::Union(u) => {
                let members = u.cases.iter().map(|c| space.claim(&camel(&c.member.name))).collect();
                unlisted = space.claim("Unlisted");
                members
            }
            DefKind::Enum(e) => {
                e.enumerators.iter().map(|e| space.claim(&camel(&spec[*e].name))).collect::<Vec<_>>()
            }
            _ => return,
        };
        if let DefKind::Enum(e) = &spec[id].kind {
            for (enumerator, name) in e.enumerators.iter().zip(&members) {
                self.items.entry(*enumerator).or_default().name.clone_from(name);
            }
        }
        let names = self.items.entry(id).or_default();
        names.members = members;
        names.unlisted = unlisted;
    }

    /// Names the methods of an interface's trait and reference. An inherited operation keeps the
    /// name that it has in its own interface, unless two bases that know nothing of each other
    /// brought the same one.
    fn interface_methods(&mut self, spec: &Spec, analysis: &Analysis<'_>, id: DefId) {
        if self.methods.contains_key(&id) {
            return;
        }
        for base in spec.all_bases(id) {
            self.interface_methods(spec, analysis, base);
        }
        let mut space = Space::default();
        let mut methods: Vec<Methods> = Vec::new();
        let all = all_ops(spec, id);
        for (owner, op) in &all {
            let wanted = if *owner == id { wanted_method(spec, op) } else { self.op(op).method.clone() };
            let owned = space.claim(&wanted);
            if *owner == id {
                self.ops.entry((op.def, op.role)).or_default().method.clone_from(&owned);
            }
            let [scoped, begin, future] = Default::default();
            methods.push(Methods { owned, scoped, begin, future });
        }
        for ((_, op), methods) in all.iter().zip(&mut methods) {
            if op.returned().into_iter().any(|ty| analysis.borrows(&analysis.shape(ty))) {
                methods.scoped = space.claim(&format!("{}_in", methods.owned.trim_end_matches('_')));
            }
        }
        for methods in &mut methods {
            let base = methods.owned.trim_end_matches('_');
            let (begin, future) = (format!("{base}_begin"), format!("{base}_async"));
            (methods.begin, methods.future) = (space.claim(&begin), space.claim(&future));
        }
        self.methods.insert(id, methods);
    }

    /// Names the functions in an interface's module, after what IDL defines there.
    fn interface_module(&mut self, spec: &Spec, id: DefId) {
        let space = self.spaces.entry(Some(id)).or_default();
        self.items.entry(id).or_default().interface = space.claim("INTERFACE");
        for op in own_ops(spec, id) {
            let names = self.ops.entry((op.def, op.role)).or_default();
            let base = names.method.trim_end_matches('_');
            names.serve = space.claim(&format!("serve_{base}"));
            names.call = space.claim(&format!("call_{base}"));
            names.operation = space.claim(&upper(base));
            names.error = space.claim_type(&format!("{}Error", camel(base)));
        }
        for op in own_ops(spec, id) {
            let names = self.ops.entry((op.def, op.role)).or_default();
            let base = names.method.trim_end_matches('_');
            names.begin = space.claim(&format!("begin_{base}"));
            names.read = space.claim(&format!("read_{base}"));
            names.reply = space.claim(&format!("reply_{base}"));
        }
    }
}

fn wanted_method(spec: &Spec, op: &Op) -> String {
    let name = snake(&spec[op.def].name);
    if op.role == Role::Set { format!("set_{name}") } else { name }
}

/// Whether what stands inside the definition has a Rust module.
pub(crate) fn has_module(spec: &Spec, id: DefId) -> bool {
    match spec[id].kind {
        DefKind::Module | DefKind::Interface(_) => true,
        _ => spec[id].contents.iter().any(|inner| {
            !matches!(
                spec[*inner].kind,
                DefKind::Operation(_) | DefKind::Attribute(_) | DefKind::Enumerator(_)
            )
        }),
    }
}
