//! Valuetypes (CORBA 3.3 part 1, clause 7.9).

use super::Resolver;
use super::scope::{ScopeKind, Symbol};
use super::types::TypeContext;
use crate::diagnostic::Report;
use crate::model::{DefId, DefKind, Factory, StateMember, Type, Value, ValueBox};
use crate::syntax::ast::{Attrs, DeclKind, Ident, Item, ScopedName, TypeExpr, ValueDecl};

impl Resolver<'_> {
    pub(super) fn value_forward(&mut self, attrs: &Attrs, abstract_: bool, name: &Ident) -> DefId {
        match self.reopen(name, |kind| matches!(kind, DefKind::Value(_))) {
            Some(id) => {
                self.check_abstract(id, abstract_, name);
                id
            }
            None => self.define(attrs, name, DefKind::Value(Value { abstract_, ..empty() })),
        }
    }

    fn check_abstract(&mut self, id: DefId, abstract_: bool, name: &Ident) {
        let DefKind::Value(before) = &self.spec[id].kind else { return };
        if before.abstract_ != abstract_ {
            let was = if before.abstract_ { "abstract" } else { "with state, not abstract," };
            let message = format!("`{}` was declared {was} before", name.name);
            let report = Report::error(name.span, message).also(self.span(id), "previous declaration");
            self.diagnostics.push(report);
        }
    }

    pub(super) fn value(&mut self, attrs: &Attrs, decl: &ValueDecl) {
        let forward = self.reopen(&decl.name, |kind| matches!(kind, DefKind::Value(v) if !v.defined));
        let id = match forward.filter(|id| !self.infos[id.index()].open) {
            Some(id) => {
                self.check_abstract(id, decl.abstract_, &decl.name);
                self.complete_forward(id, attrs, &decl.name);
                id
            }
            None => self.define(attrs, &decl.name, DefKind::Value(empty())),
        };
        self.info(id).open = true;
        let mut value = Value { custom: decl.custom, abstract_: decl.abstract_, defined: true, ..empty() };
        self.value_bases(decl, &mut value);
        self.value_supports(decl, &mut value);
        self.spec.defs[id.index()].kind = DefKind::Value(value);
        self.close_over_bases(id, &decl.name);
        let (members, factories) = self.within(id, ScopeKind::Interface, |r| r.value_items(id, decl));
        if let DefKind::Value(value) = &mut self.spec.defs[id.index()].kind {
            (value.members, value.factories) = (members, factories);
        }
        self.info(id).complete = true;
        // A value can be passed wherever its type can. Its members are checked one by one.
        self.info(id).local = false;
    }

    fn value_bases(&mut self, decl: &ValueDecl, value: &mut Value) {
        for (position, name) in decl.bases.iter().enumerate() {
            let Some(id) = self.find_value(name) else { continue };
            let DefKind::Value(base) = &self.spec[id].kind else { continue };
            let base_abstract = base.abstract_;
            let problem = if value.abstract_bases.contains(&id) || value.base == Some(id) {
                Some(format!("`{name}` is named twice as a base"))
            } else if base_abstract {
                value.abstract_bases.push(id);
                None
            } else if decl.abstract_ {
                Some(format!("abstract valuetype `{}` can only derive from abstract ones", decl.name.name))
            } else if position > 0 {
                Some("a base with state must be the first base, and the only one with state".to_owned())
            } else {
                value.base = Some(id);
                None
            };
            if let Some(problem) = problem {
                self.diagnostics.push(Report::error(name.span, problem).also(self.span(id), "the base"));
            }
        }
        let custom = |id: DefId| matches!(&self.spec[id].kind, DefKind::Value(v) if v.custom);
        if let (Some(base), false) = (value.base.filter(|&id| custom(id)), decl.custom) {
            let message = format!("`{}` must be custom, since its base is", decl.name.name);
            let report = Report::error(decl.name.span, message).also(self.span(base), "the base");
            self.diagnostics.push(report);
        }
        let Some(span) = decl.truncatable else { return };
        value.truncatable = true;
        let problem = if decl.abstract_ {
            "an abstract valuetype cannot be truncatable"
        } else if decl.custom {
            "a custom valuetype cannot be truncatable"
        } else if value.base.is_none() && !value.abstract_bases.is_empty() {
            "only a base with state can be truncated to"
        } else {
            return;
        };
        self.diagnostics.error(span, problem);
    }

    fn find_value(&mut self, name: &ScopedName) -> Option<DefId> {
        let found = self.find(name)?;
        let id = self.spec.resolve(&Type::Named(found)).def().unwrap_or(found);
        let message = match &self.spec[id].kind {
            DefKind::Value(v) if v.defined && self.infos[id.index()].complete => return Some(id),
            DefKind::Value(_) => format!("`{name}` is not defined yet, so nothing can derive from it"),
            DefKind::ValueBox(_) => format!("`{name}` is a boxed valuetype, from which nothing can derive"),
            DefKind::Interface(_) => format!("`{name}` is an interface; write `supports {name}`"),
            _ => format!("`{name}` is {}, not a valuetype", self.what(id)),
        };
        self.diagnostics.push(Report::error(name.span, message).also(self.span(id), "declared here"));
        None
    }

    fn value_supports(&mut self, decl: &ValueDecl, value: &mut Value) {
        let mut concrete: Option<DefId> = None;
        for name in &decl.supports {
            let Some(id) = self.find_interface(name) else { continue };
            let DefKind::Interface(interface) = &self.spec[id].kind else { continue };
            let problem = if value.supports.contains(&id) {
                Some(format!("`{name}` is named twice"))
            } else if !interface.abstract_ && concrete.replace(id).is_some() {
                Some("a valuetype can support one interface that is not abstract, not several".to_owned())
            } else {
                value.supports.push(id);
                None
            };
            if let Some(problem) = problem {
                self.diagnostics.push(Report::error(name.span, problem).also(self.span(id), "the interface"));
            }
        }
        // The derived value must support each interface that its base supports, or one derived from
        // it.
        let (Some(own), Some(base)) = (concrete, value.base) else { return };
        let inherited = self.infos[base.index()].bases.iter().copied().chain([base]);
        let supported: Vec<DefId> = inherited
            .filter_map(|id| match &self.spec[id].kind {
                DefKind::Value(v) => Some(v.supports.clone()),
                _ => None,
            })
            .flatten()
            .filter(|&id| matches!(&self.spec[id].kind, DefKind::Interface(i) if !i.abstract_))
            .collect();
        for id in supported {
            if own != id && !self.infos[own.index()].bases.contains(&id) {
                let message = format!(
                    "`{}` must support `{}` or an interface derived from it",
                    decl.name.name,
                    self.name(id)
                );
                let report = Report::error(decl.name.span, message)
                    .also(self.span(base), "its base supports that one");
                self.diagnostics.push(report);
            }
        }
    }

    fn value_items(&mut self, id: DefId, decl: &ValueDecl) -> (Vec<StateMember>, Vec<Factory>) {
        let (mut members, mut factories) = (Vec::new(), Vec::new());
        for item in &decl.items {
            let inner = match item {
                Item::Decl(inner) => inner,
                event => {
                    self.event(event);
                    continue;
                }
            };
            match &inner.kind {
                DeclKind::State { public, ty, declarators } => {
                    if let (true, Some(first)) = (decl.abstract_, declarators.first()) {
                        self.diagnostics.error(first.name.span, "an abstract valuetype has no state");
                    }
                    let found = self.member(id, &inner.attrs, ty, declarators, "state member");
                    if let Some(member) = found.first().filter(|m| self.is_local(&m.ty)) {
                        let message =
                            format!("`{}` is local, so it cannot be state", self.spec.type_name(&member.ty));
                        self.diagnostics.error(ty.span, message);
                    }
                    members.extend(found.into_iter().map(|member| StateMember { public: *public, member }));
                }
                DeclKind::Factory { name, params, raises } => {
                    if decl.abstract_ {
                        self.diagnostics.error(name.span, "an abstract valuetype has no factories");
                    }
                    self.declare(name, Symbol::Part("factory"));
                    for param in params.iter().filter(|p| p.direction != crate::model::Direction::In) {
                        self.diagnostics.error(param.direction_span, "all parameters of a factory are `in`");
                    }
                    let scope = self.new_scope(ScopeKind::Operation, None);
                    let (params, raises) = self.in_scope(scope, |r| (r.params(params), r.raises(raises)));
                    factories.push(Factory {
                        name: name.name.to_string(),
                        params,
                        raises,
                        doc: inner.attrs.doc.as_deref().map(str::to_owned),
                        annotations: self.annotations(&inner.attrs.annotations),
                        location: self.sources.locate(name.span),
                    });
                }
                _ => self.decl(inner),
            }
        }
        (members, factories)
    }

    pub(super) fn value_box(&mut self, attrs: &Attrs, name: &Ident, expr: &TypeExpr) {
        let boxed = self.ty(expr, TypeContext::Member).filter(|ty| {
            let of_value = match self.spec.resolve(ty) {
                Type::ValueBase => true,
                Type::Named(id) => matches!(self.spec[*id].kind, DefKind::Value(_) | DefKind::ValueBox(_)),
                _ => false,
            };
            if of_value {
                self.diagnostics.error(expr.span, "a valuetype cannot be boxed again");
            }
            !of_value
        });
        let boxed = boxed.unwrap_or(Type::Long);
        let id = self.define(attrs, name, DefKind::ValueBox(ValueBox { boxed: boxed.clone() }));
        self.consists_of(id, &boxed, expr.span);
        self.info(id).complete = true;
    }
}

fn empty() -> Value {
    Value {
        custom: false,
        abstract_: false,
        truncatable: false,
        base: None,
        abstract_bases: Vec::new(),
        supports: Vec::new(),
        members: Vec::new(),
        factories: Vec::new(),
        defined: false,
    }
}
