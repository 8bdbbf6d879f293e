//! Type specifications, declarators, and constructed types.

use super::{Parsed, Parser};
use crate::diagnostic::Report;
use crate::model::Type;
use crate::pp::{Kind, Token};
use crate::source::Span;
use crate::syntax::ast::{
    Attrs, CaseDecl, Decl, DeclKind, Declarator, Expr, Ident, Item, LabelExpr, TypeExpr, TypeKind, UnionDecl,
};

impl Parser<'_> {
    pub(super) fn type_spec(&mut self) -> Parsed<TypeExpr> {
        // The model has no annotations of type expressions.
        while self.at("@") {
            self.annotation()?;
        }
        let start = self.token().span;
        let kind = self.type_kind()?;
        let end = match &kind {
            // A definition inside may span pages; its first word is enough to point at.
            TypeKind::Inline(_) => start,
            _ => self.previous_span(start),
        };
        Ok(TypeExpr { kind, span: start.to(end) })
    }

    fn previous_span(&self, start: Span) -> Span {
        let end = self.previous_end();
        if end.file == start.file { end } else { start }
    }

    fn type_kind(&mut self) -> Parsed<TypeKind> {
        let token = self.token().clone();
        if self.at("::") {
            return Ok(TypeKind::Named(self.scoped_name()?));
        }
        if token.kind != Kind::Ident {
            return self.unexpected("a type");
        }
        let basic = match &*token.text {
            "boolean" => Type::Boolean,
            "char" => Type::Char,
            "wchar" => Type::WChar,
            "octet" => Type::Octet,
            "short" => Type::Short,
            "float" => Type::Float,
            "double" => Type::Double,
            "any" => Type::Any,
            "Object" => Type::Object,
            "ValueBase" => Type::ValueBase,
            "void" => Type::Void,
            "long" => {
                self.bump();
                return Ok(TypeKind::Basic(match &*self.token().text {
                    "long" => self.then(Type::LongLong),
                    "double" => self.then(Type::LongDouble),
                    _ => Type::Long,
                }));
            }
            "unsigned" => {
                self.bump();
                return match &*self.token().text {
                    "short" => Ok(TypeKind::Basic(self.then(Type::UShort))),
                    "long" => {
                        self.bump();
                        let long_long = self.at_word("long");
                        Ok(TypeKind::Basic(if long_long { self.then(Type::ULongLong) } else { Type::ULong }))
                    }
                    _ => self.unexpected("`short` or `long`"),
                };
            }
            "string" | "wstring" => {
                self.bump();
                let bound = if self.at("<") { Some(self.in_angles(Self::expression)?) } else { None };
                return Ok(TypeKind::String { wide: &*token.text == "wstring", bound });
            }
            "sequence" => {
                self.bump();
                return self.nested(|p| p.in_angles(Self::sequence));
            }
            "fixed" => {
                self.bump();
                let parts = if self.at("<") { Some(self.in_angles(Self::fixed)?) } else { None };
                return Ok(TypeKind::Fixed(parts));
            }
            "struct" | "union" | "enum" => {
                let attrs = Attrs { doc: token.doc.clone(), annotations: Vec::new() };
                let kind = self.nested(|p| p.constructed(false))?;
                return Ok(TypeKind::Inline(Box::new(Decl { attrs, kind })));
            }
            _ => return Ok(TypeKind::Named(self.scoped_name()?)),
        };
        Ok(TypeKind::Basic(self.then(basic)))
    }

    fn then(&mut self, ty: Type) -> Type {
        self.bump();
        ty
    }

    fn sequence(&mut self) -> Parsed<TypeKind> {
        let element = Box::new(self.type_spec()?);
        let bound = if self.eat(",") { Some(self.expression()?) } else { None };
        Ok(TypeKind::Sequence { element, bound })
    }

    fn fixed(&mut self) -> Parsed<(Expr, Expr)> {
        let digits = self.expression()?;
        self.expect(",")?;
        Ok((digits, self.expression()?))
    }

    /// `< rule >`, where `>>` closes two.
    fn in_angles<T>(&mut self, rule: fn(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.expect("<")?;
        self.angles += 1;
        let result = rule(self);
        self.angles -= 1;
        let value = result?;
        if self.at(">>") {
            let token = self.token().clone();
            let (first, second) = (token.span.start, token.span.start + 1);
            // The first `>` is consumed, the second stays.
            if let Some(slot) = self.tokens.get_mut(self.at) {
                let span = Span { start: second.max(first), ..token.span };
                *slot = Token { text: ">".into(), span, spaced: false, ..token };
            }
            return Ok(value);
        }
        self.expect(">")?;
        Ok(value)
    }

    pub(super) fn declarator(&mut self) -> Parsed<Declarator> {
        // IDL 4 allows annotations here, too.
        while self.at("@") {
            self.annotation()?;
        }
        let name = self.name()?;
        let mut dims = Vec::new();
        while self.eat("[") {
            dims.push(self.expression()?);
            self.expect("]")?;
        }
        Ok(Declarator { name, dims })
    }

    /// A member of a struct or exception.
    pub(super) fn member(&mut self) -> Parsed<Option<Item>> {
        let attrs = self.attrs()?;
        let ty = self.type_spec()?;
        let declarators = self.comma_separated(Self::declarator)?;
        let item = Item::Decl(Box::new(Decl { attrs, kind: DeclKind::Members { ty, declarators } }));
        if self.semicolon().is_err() {
            self.recover();
        }
        Ok(Some(item))
    }

    /// `struct`, `union` or `enum`; a forward declaration only where that makes sense.
    pub(super) fn constructed(&mut self, may_be_forward: bool) -> Parsed<DeclKind> {
        let keyword = self.bump();
        let name = self.name()?;
        let forward = may_be_forward && self.at(";");
        match &*keyword.text {
            "struct" if forward => Ok(DeclKind::StructForward { name }),
            "struct" => {
                if self.at(":") {
                    self.error_here("struct inheritance is IDL 4, which CORBA does not map");
                    self.bump();
                    self.scoped_name()?;
                }
                if self.at("{") && self.ahead(1).is("}") {
                    let report = Report::error(name.span, format!("struct `{}` has no members", name.name));
                    self.diagnostics.push(report.hint("CORBA structs have at least one"));
                }
                let members = self.nested(|p| p.braced(Self::member))?;
                Ok(DeclKind::Struct { name, members })
            }
            "union" if forward => Ok(DeclKind::UnionForward { name }),
            "union" => self.nested(|p| p.union(name)),
            _ if forward => self.unexpected("`{`: an enum cannot be declared forward"),
            _ => self.enumeration(name),
        }
    }

    fn union(&mut self, name: Ident) -> Parsed<DeclKind> {
        if self.eat_word("switch").is_none() {
            return self.unexpected("`switch`");
        }
        self.expect("(")?;
        let discriminator = self.type_spec()?;
        self.expect(")")?;
        let open = self.expect("{")?;
        let mut cases = Vec::new();
        if self.at("}") {
            self.error_here("a union needs at least one case");
        }
        while !self.at("}") && self.token().kind != Kind::End {
            let before = self.at;
            match self.case() {
                Ok(case) => cases.push(case),
                Err(_) => self.recover(),
            }
            if self.at == before {
                self.bump();
            }
        }
        self.close(open)?;
        Ok(DeclKind::Union(UnionDecl { name, discriminator, cases }))
    }

    fn case(&mut self) -> Parsed<CaseDecl> {
        let doc = self.token().doc.clone();
        let mut labels = Vec::new();
        loop {
            while self.at("@") {
                self.annotation()?;
            }
            if let Some(span) = self.eat_word("default") {
                labels.push(LabelExpr::Default(span));
            } else if self.eat_word("case").is_some() {
                labels.push(LabelExpr::Case(self.expression()?));
            } else {
                break;
            }
            self.expect(":")?;
        }
        if labels.is_empty() {
            return self.unexpected("`case` or `default`");
        }
        let mut attrs = self.attrs()?;
        attrs.doc = attrs.doc.or(doc);
        let ty = self.type_spec()?;
        let declarator = self.declarator()?;
        if self.semicolon().is_err() {
            self.recover();
        }
        Ok(CaseDecl { labels, attrs, ty, declarator })
    }

    fn enumeration(&mut self, name: Ident) -> Parsed<DeclKind> {
        let open = self.expect("{")?;
        let mut enumerators = Vec::new();
        if self.at("}") {
            self.error_here("an enum needs at least one enumerator");
        } else {
            loop {
                let attrs = self.attrs()?;
                enumerators.push((attrs, self.name()?));
                if !self.eat(",") {
                    break;
                }
                if self.at("}") {
                    self.error_here("a comma cannot follow the last enumerator");
                    break;
                }
            }
        }
        self.close(open)?;
        Ok(DeclKind::Enum { name, enumerators })
    }
}
