//! Interfaces, operations, attributes.

use super::{Parsed, Parser};
use crate::diagnostic::Report;
use crate::model::Direction;
use crate::rule::Rule;
use crate::syntax::ast::{
    AttributeDecl, Attrs, Decl, DeclKind, Flavor, Ident, Item, OperationDecl, ParamDecl, ScopedName,
    StringLiteral,
};

impl Parser<'_> {
    pub(super) fn interface(&mut self, flavor: Flavor) -> Parsed<DeclKind> {
        if self.eat_word("interface").is_none() {
            return self.unexpected("`interface`");
        }
        let name = self.name()?;
        if self.at(";") {
            return Ok(DeclKind::InterfaceForward { flavor, name });
        }
        let bases = if self.eat(":") { self.comma_separated(Self::scoped_name)? } else { Vec::new() };
        let items = self.nested(|p| p.braced(Self::export))?;
        Ok(DeclKind::Interface { flavor, name, bases, items })
    }

    /// Definitions and exports of an interface.
    pub(super) fn export(&mut self) -> Parsed<Option<Item>> {
        if self.at(";") {
            self.error_here("a `;` without a declaration before it");
            self.bump();
            return Ok(None);
        }
        let attrs = self.attrs()?;
        self.export_with(attrs)
    }

    pub(super) fn export_with(&mut self, attrs: Attrs) -> Parsed<Option<Item>> {
        let kind = match &*self.token().text {
            "typedef" | "const" | "exception" | "native" => self.common_definition()?,
            "struct" | "union" | "enum" => self.common_definition()?,
            "typeid" | "typeprefix" => return self.definition_with(attrs),
            "attribute" | "readonly" => self.attribute()?,
            "module" | "interface" | "valuetype" | "abstract" | "local" | "custom" => {
                let message =
                    format!("`{}` cannot stand inside an interface or valuetype", self.token().text);
                self.error_here(message);
                return Err(super::Failed);
            }
            _ => self.operation()?,
        };
        if self.semicolon().is_err() {
            self.recover();
        }
        Ok(Some(Item::Decl(Box::new(Decl { attrs, kind }))))
    }

    fn operation(&mut self) -> Parsed<DeclKind> {
        let oneway = self.eat_word("oneway");
        let result = self.type_spec()?;
        if self.at("(") {
            let report = Report::error(result.span, "an operation needs a result type and a name");
            self.diagnostics.push(report.hint("write `void` before the name if there is no result"));
            return Err(super::Failed);
        }
        let name = self.name()?;
        let params = self.params()?;
        let raises = self.exceptions("raises")?;
        let mut context = Vec::new();
        if self.eat_word("context").is_some() {
            self.expect("(")?;
            context = self.context_strings()?;
            self.expect(")")?;
        }
        Ok(DeclKind::Operation(OperationDecl { oneway, result, name, params, raises, context }))
    }

    /// Each string of a context clause is one of its own, so they are not joined.
    fn context_strings(&mut self) -> Parsed<Vec<StringLiteral>> {
        self.comma_separated(Self::string_literal)
    }

    /// `( param, ... )`
    pub(super) fn params(&mut self) -> Parsed<Vec<ParamDecl>> {
        self.expect("(")?;
        let params = if self.at(")") { Vec::new() } else { self.comma_separated(Self::param)? };
        self.expect(")")?;
        Ok(params)
    }

    fn param(&mut self) -> Parsed<ParamDecl> {
        let attrs = self.attrs()?;
        let token = self.token().clone();
        let direction = match &*token.text {
            "in" => Direction::In,
            "out" => Direction::Out,
            "inout" => Direction::InOut,
            _ => return self.unexpected("`in`, `out` or `inout`"),
        };
        self.bump();
        let ty = self.type_spec()?;
        let name = self.name()?;
        if self.at("[") {
            self.error_here("a parameter cannot be an array of its own; use a typedef");
            return Err(super::Failed);
        }
        Ok(ParamDecl { attrs, direction, direction_span: token.span, ty, name })
    }

    /// `raises ( A, B )`, if it is there.
    pub(super) fn exceptions(&mut self, keyword: &'static str) -> Parsed<Vec<ScopedName>> {
        if self.eat_word(keyword).is_none() {
            return Ok(Vec::new());
        }
        self.expect("(")?;
        let names = self.comma_separated(Self::scoped_name)?;
        self.expect(")")?;
        Ok(names)
    }

    fn attribute(&mut self) -> Parsed<DeclKind> {
        let readonly = self.eat_word("readonly").is_some();
        if self.eat_word("attribute").is_none() {
            return self.unexpected("`attribute`");
        }
        let ty = self.type_spec()?;
        let names: Vec<Ident> = self.comma_separated(Self::name)?;
        let clause = self.token().clone();
        let (get_raises, set_raises);
        if readonly {
            get_raises = self.exceptions("raises")?;
            set_raises = Vec::new();
            if self.at_word("getraises") || self.at_word("setraises") {
                let word = self.token().text.clone();
                let report =
                    Report::error(self.token().span, format!("a readonly attribute has no `{word}`"));
                self.diagnostics.push(report.hint("write `raises (...)`"));
                return Err(super::Failed);
            }
        } else {
            if self.at_word("raises") {
                let report = Report::error(clause.span, "`raises` is for readonly attributes");
                self.diagnostics.push(report.hint("write `getraises (...)` and `setraises (...)`"));
                return Err(super::Failed);
            }
            let set_first = self.at_word("setraises").then(|| self.token().span);
            let early = self.exceptions("setraises")?;
            get_raises = self.exceptions("getraises")?;
            set_raises = if early.is_empty() { self.exceptions("setraises")? } else { early };
            if let Some(span) = set_first.filter(|_| !get_raises.is_empty()) {
                let message = "`getraises` stands before `setraises`";
                self.diagnostics.push(Report::lenient(Rule::RaisesOrder, span, message));
            }
        }
        if names.len() > 1 && !(get_raises.is_empty() && set_raises.is_empty()) {
            let report =
                Report::error(clause.span, "exceptions cannot be given for several attributes at once");
            self.diagnostics.push(report.hint("declare each attribute by itself"));
        }
        Ok(DeclKind::Attribute(AttributeDecl { readonly, ty, names, get_raises, set_raises }))
    }
}
