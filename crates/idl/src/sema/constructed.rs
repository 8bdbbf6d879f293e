//! Structs, enums, exceptions, typedefs.

use super::Resolver;
use super::scope::{ScopeKind, Symbol, fold};
use super::types::TypeContext;
use crate::model::{DefId, DefKind, Enum, Enumerator, Exception, Member, Struct, Type, Typedef, Union};
use crate::syntax::ast::{Attrs, DeclKind, Declarator, Ident, Item, TypeExpr};

impl Resolver<'_> {
    /// A struct, union or enum, wherever it may be defined.
    pub(super) fn constructed(&mut self, attrs: &Attrs, kind: &DeclKind) -> Option<DefId> {
        match kind {
            DeclKind::Struct { name, members } => Some(self.structure(attrs, name, members)),
            DeclKind::Union(union) => Some(self.union(attrs, union)),
            DeclKind::Enum { name, enumerators } => Some(self.enumeration(attrs, name, enumerators)),
            _ => None,
        }
    }

    pub(super) fn constructed_forward(&mut self, attrs: &Attrs, name: &Ident, union: bool) -> DefId {
        let same =
            |kind: &DefKind| matches!((kind, union), (DefKind::Struct(_), false) | (DefKind::Union(_), true));
        if let Some(id) = self.reopen(name, same) {
            return id;
        }
        let kind = if union { empty_union() } else { DefKind::Struct(Struct { members: Vec::new() }) };
        self.define(attrs, name, kind)
    }

    /// The definition that continues a forward declaration, or a new one.
    pub(super) fn begin(&mut self, attrs: &Attrs, name: &Ident, empty: DefKind) -> DefId {
        let forward =
            self.reopen(name, |kind| std::mem::discriminant(kind) == std::mem::discriminant(&empty));
        let id = match forward {
            Some(id) if !self.infos[id.index()].complete && !self.infos[id.index()].open => {
                self.complete_forward(id, attrs, name);
                id
            }
            _ => self.define(attrs, name, empty),
        };
        self.info(id).open = true;
        id
    }

    fn structure(&mut self, attrs: &Attrs, name: &Ident, members: &[Item]) -> DefId {
        let id = self.begin(attrs, name, DefKind::Struct(Struct { members: Vec::new() }));
        let found = self.within(id, ScopeKind::Constructed, |r| r.members(id, members));
        self.spec.defs[id.index()].kind = DefKind::Struct(Struct { members: found });
        self.info(id).complete = true;
        id
    }

    pub(super) fn exception(&mut self, attrs: &Attrs, name: &Ident, members: &[Item]) {
        let id = self.define(attrs, name, DefKind::Exception(Exception { members: Vec::new() }));
        let found = self.within(id, ScopeKind::Constructed, |r| r.members(id, members));
        self.spec.defs[id.index()].kind = DefKind::Exception(Exception { members: found });
        self.info(id).complete = true;
    }

    fn members(&mut self, owner: DefId, items: &[Item]) -> Vec<Member> {
        let mut members = Vec::new();
        for item in items {
            let decl = match item {
                Item::Decl(decl) => decl,
                event => {
                    self.event(event);
                    continue;
                }
            };
            if let DeclKind::Members { ty, declarators } = &decl.kind {
                members.extend(self.member(owner, &decl.attrs, ty, declarators, "member"));
            }
        }
        members
    }

    /// The members of one declaration; `part` names their kind.
    pub(super) fn member(
        &mut self,
        owner: DefId,
        attrs: &Attrs,
        ty: &TypeExpr,
        declarators: &[Declarator],
        part: &'static str,
    ) -> Vec<Member> {
        let span = ty.span;
        let ty = self.ty(ty, TypeContext::Member);
        let annotations = self.annotations(&attrs.annotations);
        let mut members = Vec::new();
        for declarator in declarators {
            self.declare(&declarator.name, Symbol::Part(part));
            let Some(ty) = ty.as_ref().and_then(|ty| self.declared(ty, declarator)) else { continue };
            self.consists_of(owner, &ty, span);
            members.push(Member {
                name: declarator.name.name.to_string(),
                ty,
                doc: attrs.doc.as_deref().map(str::to_owned),
                annotations: annotations.clone(),
                location: self.sources.locate(declarator.name.span),
            });
        }
        members
    }

    fn enumeration(&mut self, attrs: &Attrs, name: &Ident, enumerators: &[(Attrs, Ident)]) -> DefId {
        let id = self.define(attrs, name, DefKind::Enum(Enum { enumerators: Vec::new() }));
        let mut names = Vec::new();
        for (ordinal, (attrs, name)) in enumerators.iter().enumerate() {
            let kind = DefKind::Enumerator(Enumerator { enum_: id, ordinal: ordinal as u32 });
            let enumerator = self.add(attrs, name, kind);
            self.declare(name, Symbol::Def(enumerator));
            self.info(enumerator).complete = true;
            names.push(enumerator);
        }
        self.spec.defs[id.index()].kind = DefKind::Enum(Enum { enumerators: names });
        self.info(id).complete = true;
        id
    }

    pub(super) fn typedef(&mut self, attrs: &Attrs, expr: &TypeExpr, declarators: &[Declarator]) {
        let ty = self.ty(expr, TypeContext::Typedef);
        for declarator in declarators {
            let ty = ty.as_ref().and_then(|ty| self.declared(ty, declarator));
            // An alias of an invalid type is declared too, so that its uses are not reported.
            let ty = ty.unwrap_or(Type::Long);
            if self.is_known_alias(&declarator.name, &ty) {
                continue;
            }
            let chained = match &ty {
                Type::Named(id) => match &self.spec[*id].kind {
                    DefKind::Typedef(alias) => Some((alias.last, alias.links + 1)),
                    _ => None,
                },
                _ => None,
            };
            // The next definition must be this one.
            let (last, links) = chained.unwrap_or((DefId(self.spec.defs.len() as u32), 0));
            let alias = DefKind::Typedef(Typedef { last, links, ty: ty.clone() });
            let id = self.define(attrs, &declarator.name, alias);
            self.info(id).complete = true;
            self.consists_of(id, &ty, expr.span);
        }
    }
}

impl Resolver<'_> {
    /// Whether a standard file of the ORB has the same alias in this scope already, or the other
    /// way round: specifications for other ORBs bring CORBA's sequences with them.
    fn is_known_alias(&self, name: &Ident, ty: &Type) -> bool {
        let Some(Symbol::Def(id)) = self.current().names.get(&fold(&name.name)).map(|entry| entry.what)
        else {
            return false;
        };
        let standard = |span| self.sources.files()[self.sources.written(span).file.index()].is_standard;
        let same = matches!(&self.spec[id].kind, DefKind::Typedef(alias) if alias.ty == *ty);
        same && self.spec[id].name == *name.name && standard(self.span(id)) != standard(name.span)
    }
}

pub(super) fn empty_union() -> DefKind {
    DefKind::Union(Union {
        discriminator: Type::Long,
        cases: Vec::new(),
        implicit_default: false,
        default_label: None,
    })
}
