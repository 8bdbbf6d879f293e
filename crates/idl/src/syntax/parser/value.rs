//! Valuetypes.

use super::{Parsed, Parser};
use crate::syntax::ast::{Decl, DeclKind, Item, ValueDecl};

impl Parser<'_> {
    pub(super) fn value(&mut self, custom: bool, abstract_: bool) -> Parsed<DeclKind> {
        if self.eat_word("valuetype").is_none() {
            return self.unexpected(if abstract_ { "`interface` or `valuetype`" } else { "`valuetype`" });
        }
        let name = self.name()?;
        if self.at(";") {
            if custom {
                self.error_here("a forward declaration cannot be `custom`");
            }
            return Ok(DeclKind::ValueForward { abstract_, name });
        }
        let has_body = self.at(":") || self.at("{") || self.at_word("supports");
        if !has_body && !custom && !abstract_ {
            return Ok(DeclKind::ValueBox { name, boxed: self.type_spec()? });
        }
        let (mut truncatable, mut bases, mut supports) = (None, Vec::new(), Vec::new());
        if self.eat(":") {
            truncatable = self.eat_word("truncatable");
            bases = self.comma_separated(Self::scoped_name)?;
        }
        if self.eat_word("supports").is_some() {
            supports = self.comma_separated(Self::scoped_name)?;
        }
        let items = self.nested(|p| p.braced(Self::value_element))?;
        Ok(DeclKind::Value(ValueDecl { custom, abstract_, name, truncatable, bases, supports, items }))
    }

    fn value_element(&mut self) -> Parsed<Option<Item>> {
        if self.at(";") {
            return self.export();
        }
        let attrs = self.attrs()?;
        let kind = match &*self.token().text {
            "public" | "private" => {
                let public = &*self.bump().text == "public";
                let ty = self.type_spec()?;
                DeclKind::State { public, ty, declarators: self.comma_separated(Self::declarator)? }
            }
            "factory" => {
                self.bump();
                let name = self.name()?;
                let params = self.params()?;
                DeclKind::Factory { name, params, raises: self.exceptions("raises")? }
            }
            _ => return self.export_with(attrs),
        };
        if self.semicolon().is_err() {
            self.recover();
        }
        Ok(Some(Item::Decl(Box::new(Decl { attrs, kind }))))
    }
}
