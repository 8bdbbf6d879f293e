//! Unions: discriminators, labels, defaults (CORBA 3.3 part 1, clause 7.11.2).

use super::Resolver;
use super::constructed::empty_union;
use super::scope::ScopeKind;
use super::types::TypeContext;
use crate::diagnostic::Report;
use crate::model::{ConstValue, DefId, DefKind, Label, Type, Union, UnionCase};
use crate::rule::Rule;
use crate::source::Span;
use crate::syntax::ast::{Attrs, LabelExpr, UnionDecl};
use std::collections::HashMap;

impl Resolver<'_> {
    pub(super) fn union(&mut self, attrs: &Attrs, decl: &UnionDecl) -> DefId {
        let id = self.begin(attrs, &decl.name, empty_union());
        let union = self.within(id, ScopeKind::Constructed, |r| r.union_body(id, decl));
        if let Some(union) = union {
            self.spec.defs[id.index()].kind = DefKind::Union(union);
        }
        self.info(id).complete = true;
        id
    }

    fn union_body(&mut self, id: DefId, decl: &UnionDecl) -> Option<Union> {
        let discriminator = self.ty(&decl.discriminator, TypeContext::Switch).filter(|ty| {
            let allowed = self.is_discriminator(ty);
            if !allowed {
                let message = format!("a union cannot switch on `{}`", self.spec.type_name(ty));
                let report = Report::error(decl.discriminator.span, message);
                self.diagnostics.push(report.hint("allowed are integers, characters, booleans and enums"));
            }
            allowed
        });
        let mut cases = Vec::new();
        let mut labels = Labels::default();
        for case in &decl.cases {
            let mut values = Vec::new();
            let mut is_default = false;
            for label in &case.labels {
                match label {
                    LabelExpr::Default(span) => {
                        is_default = true;
                        if let Some(first) = labels.default.replace(*span) {
                            let report = Report::error(*span, "a union has one `default`");
                            self.diagnostics.push(report.also(first, "the first one"));
                        }
                    }
                    LabelExpr::Case(expr) => {
                        let Some(ty) = &discriminator else { continue };
                        let Some(value) = self.evaluate(expr, ty) else { continue };
                        if let Some(first) = labels.insert(&value, expr.span) {
                            let message = format!("label `{}` occurs twice", self.spec.value_name(&value));
                            self.diagnostics
                                .push(Report::error(expr.span, message).also(first, "the first one"));
                        }
                        values.push(value);
                    }
                }
            }
            let declarator = std::slice::from_ref(&case.declarator);
            for member in self.member(id, &case.attrs, &case.ty, declarator, "member") {
                cases.push(UnionCase { labels: std::mem::take(&mut values), is_default, member });
            }
        }
        let discriminator = discriminator?;
        let default_label = self.free_label(&discriminator, &labels);
        if let (Some(span), None) = (labels.default, &default_label) {
            let message = "`default` can never apply: the labels name every value";
            let report = Report::lenient(Rule::DeadDefault, span, message);
            self.diagnostics.push(report.hint("leave `default` out, or leave out a label"));
            cases.retain_mut(|case| {
                case.is_default = false;
                !case.labels.is_empty()
            });
        }
        let implicit_default = labels.default.is_none() && default_label.is_some();
        Some(Union { discriminator, cases, implicit_default, default_label })
    }

    fn is_discriminator(&self, ty: &Type) -> bool {
        match self.spec.resolve(ty) {
            Type::Boolean | Type::Char | Type::WChar => true,
            Type::Named(id) => matches!(self.spec[*id].kind, DefKind::Enum(_)),
            ty => ty.is_integer(),
        }
    }

    /// The first value that no label names.
    fn free_label(&self, ty: &Type, labels: &Labels) -> Option<Label> {
        let free = |value: &Label| !labels.seen.contains_key(&key(value));
        match self.spec.resolve(ty) {
            Type::Boolean => [false, true].into_iter().map(ConstValue::Boolean).find(free),
            Type::Char => (0..=0xff_u8).map(|c| ConstValue::Char(c.into())).find(free),
            Type::WChar => (0..=0xffff_u32).filter_map(char::from_u32).map(ConstValue::WChar).find(free),
            Type::Named(id) => match &self.spec[*id].kind {
                DefKind::Enum(e) => e.enumerators.iter().map(|&e| ConstValue::Enumerator(e)).find(free),
                _ => None,
            },
            ty => {
                let (least, most) = ty.integer_range()?;
                let mut all = (0..=most).chain((least..0).rev()).map(ConstValue::Integer);
                all.find(free)
            }
        }
    }
}

/// The labels so far.
#[derive(Default)]
struct Labels {
    seen: HashMap<(u8, i128), Span>,
    default: Option<Span>,
}

impl Labels {
    /// Returns where the same label stood before.
    fn insert(&mut self, value: &Label, span: Span) -> Option<Span> {
        let before = self.seen.get(&key(value)).copied();
        self.seen.entry(key(value)).or_insert(span);
        before
    }
}

fn key(label: &Label) -> (u8, i128) {
    match label {
        ConstValue::Integer(n) => (0, *n),
        ConstValue::Boolean(b) => (1, (*b).into()),
        ConstValue::Char(c) | ConstValue::WChar(c) => (2, u32::from(*c).into()),
        ConstValue::Enumerator(id) => (3, id.index() as i128),
        _ => (4, 0),
    }
}
