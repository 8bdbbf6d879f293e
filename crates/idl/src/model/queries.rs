//! Questions that every back end asks of a [`Spec`].

use super::{DefId, DefKind, Member, Spec, StateMember, Type, Typedef};
use crate::limits;
use std::collections::HashSet;

impl Spec {
    /// Resolves typedefs: the type that `ty` is an alias of, or `ty` itself.
    pub fn resolve<'a>(&'a self, mut ty: &'a Type) -> &'a Type {
        while let Type::Named(id) = ty {
            match &self[*id].kind {
                DefKind::Typedef(t) if t.last == *id => ty = &t.ty,
                DefKind::Typedef(t) => match &self[t.last].kind {
                    DefKind::Typedef(last) => ty = &last.ty,
                    _ => break,
                },
                _ => break,
            }
        }
        ty
    }

    /// The type that the type code of an alias names: the aliased one, or, behind a chain of
    /// aliases that no type code could hold, the type at its end.
    pub fn alias_of<'a>(&'a self, alias: &'a Typedef) -> &'a Type {
        if alias.links > limits::ALIAS_CODES { self.resolve(&alias.ty) } else { &alias.ty }
    }

    /// Whether values of the type differ in size or own something outside themselves, as the CORBA
    /// language mappings define 'variable length': strings, sequences, any, references, values, and
    /// whatever contains one of them.
    pub fn is_variable_length(&self, ty: &Type) -> bool {
        // A work list instead of recursion: each shared part is visited once, however often it
        // occurs.
        let mut seen = HashSet::new();
        let mut todo = vec![ty];
        while let Some(ty) = todo.pop() {
            match ty {
                Type::String { .. }
                | Type::WString { .. }
                | Type::Sequence { .. }
                | Type::Any
                | Type::Object
                | Type::TypeCode
                | Type::ValueBase
                | Type::AbstractBase => return true,
                Type::Array { element, .. } => todo.push(element),
                Type::Named(id) => match &self[*id].kind {
                    DefKind::Enum(_) => {}
                    DefKind::Struct(_) | DefKind::Union(_) | DefKind::Exception(_) | DefKind::Typedef(_) => {
                        if seen.insert(*id) {
                            todo.extend(self.member_types(*id));
                        }
                    }
                    _ => return true,
                },
                _ => {}
            }
        }
        false
    }

    /// Whether a value of this definition can contain, through sequences, members and values,
    /// another value of it.
    pub fn is_recursive(&self, id: DefId) -> bool {
        let mut seen = HashSet::new();
        let mut todo = self.member_types(id);
        while let Some(ty) = todo.pop() {
            match ty {
                Type::Named(next) if *next == id => return true,
                Type::Named(next) if seen.insert(*next) => todo.extend(self.member_types(*next)),
                Type::Sequence { element, .. } | Type::Array { element, .. } => todo.push(element),
                _ => {}
            }
        }
        false
    }

    /// The types that a value of this definition directly consists of: members, union cases,
    /// value state, the boxed or aliased type. Empty for all else.
    pub fn member_types(&self, id: DefId) -> Vec<&Type> {
        match &self[id].kind {
            DefKind::Struct(_) | DefKind::Exception(_) => self.members(id).iter().map(|m| &m.ty).collect(),
            DefKind::Union(u) => u.cases.iter().map(|c| &c.member.ty).collect(),
            DefKind::Value(_) => self.all_state(id).into_iter().map(|m| &m.member.ty).collect(),
            DefKind::ValueBox(b) => vec![&b.boxed],
            DefKind::Typedef(t) => vec![&t.ty],
            _ => Vec::new(),
        }
    }

    /// The members of a struct or exception.
    pub fn members(&self, id: DefId) -> &[Member] {
        match &self[id].kind {
            DefKind::Struct(s) => &s.members,
            DefKind::Exception(e) => &e.members,
            _ => &[],
        }
    }

    /// The state of a value, that of its bases first, in the order in which it is marshalled.
    pub fn all_state(&self, id: DefId) -> Vec<&StateMember> {
        match &self[id].kind {
            DefKind::Value(v) => {
                let mut state = v.base.map_or_else(Vec::new, |base| self.all_state(base));
                state.extend(&v.members);
                state
            }
            _ => Vec::new(),
        }
    }

    /// The direct bases of an interface or value: for a value, its base, then abstract bases, then
    /// supported interfaces.
    pub fn direct_bases(&self, id: DefId) -> Vec<DefId> {
        match &self[id].kind {
            DefKind::Interface(i) => i.bases.clone(),
            DefKind::Value(v) => v.base.iter().chain(&v.abstract_bases).chain(&v.supports).copied().collect(),
            _ => Vec::new(),
        }
    }

    /// All direct and indirect bases of an interface or value, without duplicates and without
    /// itself, a base always after all that it derives from (so the roots of the hierarchy come
    /// first).
    pub fn all_bases(&self, id: DefId) -> Vec<DefId> {
        let mut order = Vec::new();
        let mut seen = HashSet::new();
        self.visit_bases(id, &mut seen, &mut order);
        order
    }

    fn visit_bases(&self, id: DefId, seen: &mut HashSet<DefId>, order: &mut Vec<DefId>) {
        for base in self.direct_bases(id) {
            if seen.insert(base) {
                self.visit_bases(base, seen, order);
                order.push(base);
            }
        }
    }

    /// Whether `id` is `base` or derives from it.
    pub fn is_a(&self, id: DefId, base: DefId) -> bool {
        id == base || self.all_bases(id).contains(&base)
    }

    /// The operations and attributes of an interface or value, inherited and supported ones first,
    /// each once.
    ///
    /// Their order is stable: that of [`all_bases`](Self::all_bases), then its own, each in order
    /// of declaration.
    pub fn all_operations(&self, id: DefId) -> Vec<DefId> {
        let mut owners = self.all_bases(id);
        owners.push(id);
        let members = owners.into_iter().flat_map(|owner| self.own_operations(owner));
        members.collect()
    }

    /// The operations and attributes that stand in an interface or value itself.
    pub fn own_operations(&self, id: DefId) -> Vec<DefId> {
        let is_member = |id: &DefId| matches!(self[*id].kind, DefKind::Operation(_) | DefKind::Attribute(_));
        self[id].contents.iter().copied().filter(is_member).collect()
    }

    /// Whether the type can only be used inside one process: a local interface, a native, or
    /// whatever contains one.
    pub fn is_local(&self, ty: &Type) -> bool {
        let mut seen = HashSet::new();
        let mut todo = vec![ty];
        while let Some(ty) = todo.pop() {
            match ty {
                Type::Sequence { element, .. } | Type::Array { element, .. } => todo.push(element),
                Type::Named(id) => match &self[*id].kind {
                    DefKind::Native => return true,
                    DefKind::Interface(i) if i.local => return true,
                    DefKind::Value(_) => {}
                    _ if seen.insert(*id) => todo.extend(self.member_types(*id)),
                    _ => {}
                },
                _ => {}
            }
        }
        false
    }
}
