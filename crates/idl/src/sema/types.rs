//! Resolves type expressions to types, and checks that each type is allowed in its context.

use super::Resolver;
use crate::diagnostic::Report;
use crate::limits;
use crate::model::{DefId, DefKind, Type};
use crate::source::Span;
use crate::syntax::ast::{Declarator, Expr, ScopedName, TypeExpr, TypeKind};

/// The context of a type expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TypeContext {
    /// A member of a struct, union, exception or value, or a boxed value.
    Member,
    /// Behind `typedef`.
    Typedef,
    /// An element of a sequence.
    Element,
    /// A parameter, result or attribute; its type must have a name.
    Signature,
    /// The type of a constant.
    Const,
    /// The discriminator of a union.
    Switch,
}

impl Resolver<'_> {
    /// Resolves a type expression. Reports an error and returns `None` if it is invalid.
    pub(super) fn ty(&mut self, expr: &TypeExpr, place: TypeContext) -> Option<Type> {
        let ty = self.any_ty(expr, place)?;
        if place != TypeContext::Element {
            self.check_complete(&ty, expr.span, place)?;
        }
        Some(ty)
    }

    fn any_ty(&mut self, expr: &TypeExpr, place: TypeContext) -> Option<Type> {
        match &expr.kind {
            TypeKind::Basic(Type::Void) => {
                self.diagnostics.error(expr.span, "`void` can only be the result of an operation");
                None
            }
            TypeKind::Basic(ty) => Some(ty.clone()),
            TypeKind::String { wide, bound } => {
                let bound = match bound {
                    Some(bound) => Some(self.positive(bound, "the bound of a string")?),
                    None => None,
                };
                Some(if *wide { Type::WString { bound } } else { Type::String { bound } })
            }
            TypeKind::Sequence { element, bound } => {
                if matches!(place, TypeContext::Signature | TypeContext::Const | TypeContext::Switch) {
                    return self.anonymous(expr.span, "a sequence", place);
                }
                let element = self.ty(element, TypeContext::Element);
                let bound = match bound {
                    Some(bound) => Some(self.positive(bound, "the bound of a sequence")?),
                    None => None,
                };
                Some(Type::Sequence { element: Box::new(element?), bound })
            }
            TypeKind::Fixed(_) if place == TypeContext::Signature => {
                self.anonymous(expr.span, "a fixed-point type", place)
            }
            TypeKind::Fixed(Some((digits, scale))) => self.fixed_type(digits, scale),
            // The constant's value decides.
            TypeKind::Fixed(None) if place == TypeContext::Const => {
                Some(Type::Fixed { digits: 31, scale: 0 })
            }
            TypeKind::Fixed(None) => {
                let report = Report::error(expr.span, "`fixed` needs digits and scale here");
                self.diagnostics.push(report.hint("write `fixed<digits, scale>`, as in `fixed<10, 2>`"));
                None
            }
            TypeKind::Named(name) => self.named(name),
            TypeKind::Inline(decl) => {
                if !matches!(place, TypeContext::Member | TypeContext::Typedef | TypeContext::Switch) {
                    let report = Report::error(expr.span, "a type cannot be defined here");
                    self.diagnostics.push(report.hint("define it before, and use its name"));
                    return None;
                }
                self.constructed(&decl.attrs, &decl.kind).map(Type::Named)
            }
        }
    }

    fn anonymous(&mut self, span: Span, what: &str, place: TypeContext) -> Option<Type> {
        let message = match place {
            TypeContext::Signature => format!("{what} needs a name to be a parameter, result or attribute"),
            TypeContext::Const => format!("{what} cannot be a constant"),
            _ => format!("a union cannot switch on {what}"),
        };
        let report = Report::error(span, message);
        self.diagnostics.push(if place == TypeContext::Signature {
            report.hint("give it one with `typedef`")
        } else {
            report
        });
        None
    }

    fn fixed_type(&mut self, digits: &Expr, scale: &Expr) -> Option<Type> {
        let count = self.integer(digits, &Type::ULong);
        let after = self.integer(scale, &Type::Long);
        let (count, after) = (count?, after?);
        if !(1..=31).contains(&count) {
            self.diagnostics
                .error(digits.span, format!("a fixed-point type has 1 to 31 digits, not {count}"));
            return None;
        }
        if !(0..=count).contains(&after) {
            let message = format!("the scale must be 0 to {count}, the number of digits, not {after}");
            self.diagnostics.error(scale.span, message);
            return None;
        }
        Some(Type::Fixed { digits: count as u16, scale: after as u16 })
    }

    fn named(&mut self, name: &ScopedName) -> Option<Type> {
        if self.peek(name).is_none() {
            let single = (name.parts.len() == 1 && !name.absolute).then(|| &name.parts[0]);
            if let Some(ty) =
                single.filter(|ident| !self.is_visible(ident)).and_then(|ident| idl4(&ident.name))
            {
                return Some(ty);
            }
            if let Some(ty) = self.builtin(name) {
                return Some(ty);
            }
        }
        let id = self.find(name)?;
        if let Some(ty) = self.builtin_of(id) {
            return Some(ty);
        }
        match self.spec[id].kind {
            DefKind::Interface(_)
            | DefKind::Value(_)
            | DefKind::ValueBox(_)
            | DefKind::Struct(_)
            | DefKind::Union(_)
            | DefKind::Enum(_)
            | DefKind::Typedef(_)
            | DefKind::Native => Some(Type::Named(id)),
            _ => {
                let message = format!("`{name}` is {}, not a type", self.what(id));
                let report = Report::error(name.span, message).also(self.span(id), "defined here");
                self.diagnostics.push(if matches!(self.spec[id].kind, DefKind::Exception(_)) {
                    report
                        .hint("exceptions can only be raised; put what they hold into a struct to pass it on")
                } else {
                    report
                });
                None
            }
        }
    }

    /// The incomplete struct or union that is part of a value of the type, and whether it is so
    /// only through a sequence.
    fn incomplete(&self, ty: &Type) -> Option<(DefId, bool)> {
        match self.spec.resolve(ty) {
            Type::Sequence { element, .. } => self.incomplete(element).map(|(id, _)| (id, true)),
            Type::Array { element, .. } => self.incomplete(element),
            Type::Named(id) => match self.spec[*id].kind {
                DefKind::Struct(_) | DefKind::Union(_) if !self.infos[id.index()].complete => {
                    Some((*id, false))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The definition that a type in a signature still lacks.
    fn waits_for(&self, ty: &Type) -> Option<DefId> {
        match self.spec.resolve(ty) {
            Type::Sequence { element, .. } | Type::Array { element, .. } => self.waits_for(element),
            Type::Named(id) => {
                self.infos[id.index()].waits.iter().copied().find(|w| !self.infos[w.index()].complete)
            }
            _ => None,
        }
    }

    /// Types that are not complete may only be elements of sequences, and such sequences only
    /// members and aliases.
    fn check_complete(&mut self, ty: &Type, span: Span, place: TypeContext) -> Option<()> {
        let waits = || self.waits_for(ty).filter(|_| place == TypeContext::Signature).map(|id| (id, true));
        let Some((id, in_sequence)) = self.incomplete(ty).or_else(waits) else { return Some(()) };
        if in_sequence && matches!(place, TypeContext::Member | TypeContext::Typedef) {
            return Some(());
        }
        let name = self.name(id);
        let message = if self.infos[id.index()].open && !in_sequence {
            format!("`{name}` cannot contain itself")
        } else {
            format!("`{name}` is not complete yet, so it cannot be used here")
        };
        let report = Report::error(span, message).also(self.span(id), "declared here");
        self.diagnostics
            .push(report.hint("a recursive type holds itself through a sequence: `sequence<T> name;`"));
        None
    }

    /// The type of a declarator: that of its declaration, or an array of it.
    pub(super) fn declared(&mut self, ty: &Type, declarator: &Declarator) -> Option<Type> {
        if declarator.dims.is_empty() {
            return Some(ty.clone());
        }
        let dims: Vec<Option<u32>> =
            declarator.dims.iter().map(|d| self.positive(d, "the size of an array")).collect();
        let dims: Vec<u32> = dims.into_iter().collect::<Option<_>>()?;
        let elements = dims.iter().try_fold(1_u64, |all, &n| all.checked_mul(n.into()));
        if elements.is_none_or(|n| n > limits::ARRAY_ELEMENTS) {
            let message =
                format!("array `{}` has more than {} elements", declarator.name.name, limits::ARRAY_ELEMENTS);
            self.diagnostics.error(declarator.name.span, message);
            return None;
        }
        Some(Type::Array { element: Box::new(ty.clone()), dims })
    }

    /// A constant that is a length or a bound.
    pub(super) fn positive(&mut self, expr: &Expr, what: &str) -> Option<u32> {
        let value = self.integer(expr, &Type::LongLong)?;
        match u32::try_from(value) {
            Ok(n) if n > 0 => Some(n),
            _ => {
                let message = format!("{what} must be 1 to {}, not {value}", u32::MAX);
                self.diagnostics.error(expr.span, message);
                None
            }
        }
    }

    /// Whether a type cannot leave the process.
    pub(super) fn is_local(&self, ty: &Type) -> bool {
        match ty {
            Type::Sequence { element, .. } | Type::Array { element, .. } => self.is_local(element),
            Type::Named(id) => self.infos[id.index()].local,
            _ => false,
        }
    }

    /// The nesting depth of values of this type.
    fn depth(&self, ty: &Type) -> u32 {
        match ty {
            Type::Sequence { element, .. } | Type::Array { element, .. } => self.depth(element) + 1,
            Type::Named(id) => match self.spec[*id].kind {
                DefKind::Struct(_) | DefKind::Union(_) => self.infos[id.index()].depth + 1,
                DefKind::Typedef(_) => self.infos[id.index()].depth,
                _ => 0,
            },
            _ => 0,
        }
    }

    /// Records that `id` has a part of this type.
    pub(super) fn consists_of(&mut self, id: DefId, ty: &Type, span: Span) {
        let (local, depth) = (self.is_local(ty), self.depth(ty));
        let waits = self.incomplete(ty).map(|(waits, _)| waits).or_else(|| self.waits_for(ty));
        let info = self.info(id);
        info.waits.extend(waits.filter(|&w| w != id));
        info.local |= local;
        if depth > info.depth {
            info.depth = depth;
            if depth == limits::VALUE_DEPTH {
                self.diagnostics.error(span, "types are nested too deeply");
            }
        }
    }
}

/// The integer types that IDL 4 added. They are ordinary names where a specification defines them
/// itself.
fn idl4(name: &str) -> Option<Type> {
    Some(match name {
        "int8" => Type::Int8,
        "uint8" => Type::Octet,
        "int16" => Type::Short,
        "uint16" => Type::UShort,
        "int32" => Type::Long,
        "uint32" => Type::ULong,
        "int64" => Type::LongLong,
        "uint64" => Type::ULongLong,
        _ => return None,
    })
}
