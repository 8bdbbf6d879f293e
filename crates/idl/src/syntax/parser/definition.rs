//! Definitions in a module or at file scope.

use super::{Failed, Parsed, Parser};
use crate::diagnostic::Report;
use crate::pp::Kind;
use crate::rule::Rule;
use crate::syntax::ast::{Attrs, Decl, DeclKind, Flavor, ImportTarget, Item, TypePrefixTarget};

impl Parser<'_> {
    pub(super) fn definition(&mut self) -> Parsed<Option<Item>> {
        if self.at(";") {
            self.error_here("a `;` without a definition before it");
            self.bump();
            return Ok(None);
        }
        if self.at("@") && self.ahead(1).is_word("annotation") && self.ahead(3).is("{") {
            return self.annotation_definition();
        }
        let attrs = self.attrs()?;
        self.definition_with(attrs)
    }

    /// A definition with annotations that were read already.
    pub(super) fn definition_with(&mut self, attrs: Attrs) -> Parsed<Option<Item>> {
        let kind = self.definition_kind()?;
        let is_type_prefix = matches!(kind, DeclKind::TypePrefix { .. });
        let item = Item::Decl(Box::new(Decl { attrs, kind }));
        // The OMG's own files sometimes leave the semicolon out there.
        if is_type_prefix && !self.at(";") && self.token().starts_line {
            return Ok(Some(item));
        }
        // A definition without its semicolon is kept, since its uses would be reported otherwise.
        if self.semicolon().is_err() {
            self.recover();
        }
        Ok(Some(item))
    }

    fn definition_kind(&mut self) -> Parsed<DeclKind> {
        let token = self.token().clone();
        if token.kind != Kind::Ident {
            return self.unexpected("a definition");
        }
        match &*token.text {
            "module" => {
                self.bump();
                let name = self.name()?;
                let items = self.nested(|p| p.braced(Self::definition))?;
                Ok(DeclKind::Module { name, items })
            }
            "interface" => self.interface(Flavor::Plain),
            "pseudo" if self.ahead(1).is_word("interface") => {
                self.bump();
                let message = "`pseudo` is no word of IDL; the interface is taken as `local`";
                self.diagnostics.push(Report::lenient(Rule::Pseudo, token.span, message));
                self.interface(Flavor::Local)
            }
            "local" => {
                self.bump();
                self.interface(Flavor::Local)
            }
            "abstract" => {
                self.bump();
                if self.at_word("interface") {
                    self.interface(Flavor::Abstract)
                } else {
                    self.value(false, true)
                }
            }
            "custom" => {
                self.bump();
                self.value(true, false)
            }
            "valuetype" => self.value(false, false),
            "typeid" => {
                self.bump();
                let target = self.scoped_name()?;
                Ok(DeclKind::TypeId { target, id: self.string_literal()? })
            }
            "typeprefix" => {
                self.bump();
                let target = if self.at("::") && self.ahead(1).kind == Kind::String {
                    {
                        self.bump();
                        TypePrefixTarget::File
                    }
                } else {
                    TypePrefixTarget::Name(self.scoped_name()?)
                };
                Ok(DeclKind::TypePrefix { target, prefix: self.string_literal()? })
            }
            "import" => {
                self.bump();
                let target = if self.token().kind == Kind::String {
                    ImportTarget::Id(self.string_literal()?)
                } else {
                    ImportTarget::Name(self.scoped_name()?)
                };
                Ok(DeclKind::Import { target })
            }
            "component" | "home" | "eventtype" | "porttype" | "connector" => {
                let message =
                    format!("`{}` belongs to the CORBA Component Model, which is not supported", token.text);
                self.diagnostics.error(token.span, message);
                Err(Failed)
            }
            _ => self.common_definition(),
        }
    }

    /// Definitions that modules, interfaces and values may contain.
    pub(super) fn common_definition(&mut self) -> Parsed<DeclKind> {
        let token = self.token().clone();
        match &*token.text {
            "typedef" => {
                self.bump();
                let ty = self.type_spec()?;
                Ok(DeclKind::Typedef { ty, declarators: self.comma_separated(Self::declarator)? })
            }
            "const" => {
                self.bump();
                let ty = self.type_spec()?;
                let name = self.name()?;
                self.expect("=")?;
                Ok(DeclKind::Const { ty, name, value: self.expression()? })
            }
            "exception" => {
                self.bump();
                let name = self.name()?;
                let members = self.nested(|p| p.braced(Self::member))?;
                Ok(DeclKind::Exception { name, members })
            }
            "native" => {
                self.bump();
                Ok(DeclKind::Native { name: self.name()? })
            }
            "struct" | "union" | "enum" => self.constructed(true),
            _ => {
                let report =
                    Report::error(token.span, format!("expected a definition, found `{}`", token.text));
                let typed = matches!(self.ahead(1).kind, Kind::Ident) || self.ahead(1).is("::");
                self.diagnostics.push(if typed {
                    report.hint(
                        "operations, attributes and members stand inside an interface, valuetype or struct",
                    )
                } else {
                    report
                });
                Err(Failed)
            }
        }
    }

    /// `@annotation name { ... };` declares an annotation. Annotations are not interpreted, so the
    /// declaration is skipped.
    fn annotation_definition(&mut self) -> Parsed<Option<Item>> {
        while !self.at("{") {
            self.bump();
        }
        let open = self.bump().span;
        let mut depth = 1_usize;
        while depth > 0 {
            match self.token() {
                t if t.kind == Kind::End => return self.close(open).map(|()| None),
                t if t.is("{") => depth += 1,
                t if t.is("}") => depth -= 1,
                _ => {}
            }
            self.bump();
        }
        self.semicolon()?;
        Ok(None)
    }
}
