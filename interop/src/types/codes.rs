//! The type codes of the types that travel in an `any`, or as type codes.

use isorb::TypeCode;

/// The type code that `TypeCodes::describe` answers; `None` for words that it does not know.
pub fn described(what: &str) -> Option<TypeCode> {
    Some(match what {
        "long" => TypeCode::LONG,
        "mixed" => tc::mixed(),
        "tree" => tc::tree(),
        "expression" => tc::expression(),
        "colour" => tc::colour(),
        "over_long" => tc::over_long(),
        "height" => tc::height(),
        "plain" => tc::plain(),
        "thing" => tc::thing(),
        "money" => tc::money(),
        "wide" => tc::wide(),
        _ => return None,
    })
}

/// A type code a function. Those of this contract can be built; where one could not, it would be `null`, which no case takes.
pub mod tc {
    use isorb::TypeCode;
    use isorb_any::Label;

    fn id(name: &str) -> String {
        format!("IDL:Interop/{name}:1.0")
    }

    fn structure(name: &str, members: &[(&str, TypeCode)]) -> TypeCode {
        TypeCode::new_struct(&id(name), name, members).unwrap_or_default()
    }

    fn alias(name: &str, original: &TypeCode) -> TypeCode {
        TypeCode::new_alias(&id(name), name, original).unwrap_or_default()
    }

    fn sequence(element: &TypeCode) -> TypeCode {
        TypeCode::sequence(element, 0).unwrap_or_default()
    }

    /// `Colour`
    pub fn colour() -> TypeCode {
        TypeCode::new_enum(&id("Colour"), "Colour", &["red", "green", "blue"]).unwrap_or_default()
    }

    /// `Point`
    pub fn point() -> TypeCode {
        structure("Point", &[("x", TypeCode::LONG), ("y", TypeCode::LONG)])
    }

    /// `Mixed`
    pub fn mixed() -> TypeCode {
        let members =
            [("name", TypeCode::STRING), ("paint", colour()), ("at", point()), ("tail", TypeCode::OCTET)];
        structure("Mixed", &members)
    }

    /// `OverLong`
    pub fn over_long() -> TypeCode {
        let cases = [
            (Label::Value(1), "text", TypeCode::STRING),
            (Label::Value(2), "text", TypeCode::STRING),
            (Label::Value(-3), "real", TypeCode::DOUBLE),
            (Label::Default, "raw", TypeCode::OCTET),
        ];
        TypeCode::new_union(&id("OverLong"), "OverLong", &TypeCode::LONG, &cases).unwrap_or_default()
    }

    /// `Longs`
    pub fn longs() -> TypeCode {
        alias("Longs", &sequence(&TypeCode::LONG))
    }

    /// `FiveLongs`
    pub fn five_longs() -> TypeCode {
        alias("FiveLongs", &TypeCode::array(&TypeCode::LONG, 5).unwrap_or_default())
    }

    /// `Height`, through all its aliases.
    pub fn height() -> TypeCode {
        alias("Height", &alias("Distance", &alias("Metre", &TypeCode::LONG)))
    }

    /// `Tree`
    pub fn tree() -> TypeCode {
        let inner = TypeCode::recursive(&id("Tree")).unwrap_or_default();
        structure("Tree", &[("name", TypeCode::STRING), ("children", alias("Trees", &sequence(&inner)))])
    }

    /// `Expression`
    pub fn expression() -> TypeCode {
        let inner = TypeCode::recursive(&id("Expression")).unwrap_or_default();
        let operands = alias("Expressions", &sequence(&inner));
        let label = |c: char| Label::Value(i128::from(u32::from(c)));
        let cases = [
            (label('v'), "value", TypeCode::LONG),
            (label('+'), "operands", operands.clone()),
            (label('*'), "operands", operands),
        ];
        TypeCode::new_union(&id("Expression"), "Expression", &TypeCode::CHAR, &cases).unwrap_or_default()
    }

    /// `Plain`, the exception
    pub fn plain() -> TypeCode {
        let members = [("code", TypeCode::LONG), ("why", TypeCode::STRING)];
        TypeCode::new_exception(&id("Plain"), "Plain", &members).unwrap_or_default()
    }

    /// `Thing`, the interface
    pub fn thing() -> TypeCode {
        TypeCode::interface(&id("Thing"), "Thing").unwrap_or_default()
    }

    /// `Money`
    pub fn money() -> TypeCode {
        alias("Money", &TypeCode::fixed(9, 2).unwrap_or_default())
    }

    /// `Invoice`
    pub fn invoice() -> TypeCode {
        let members = [
            ("lead", TypeCode::OCTET),
            ("net", money()),
            ("rate", alias("Fraction", &TypeCode::fixed(4, 4).unwrap_or_default())),
            ("count", TypeCode::LONG),
        ];
        structure("Invoice", &members)
    }

    /// `Wide`
    pub fn wide() -> TypeCode {
        let members = [
            ("narrow", TypeCode::CHAR),
            ("w", TypeCode::WCHAR),
            ("text", TypeCode::WSTRING),
            ("tail", TypeCode::OCTET),
        ];
        structure("Wide", &members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_can_be_built() {
        for what in ["mixed", "tree", "expression", "colour", "over_long", "height", "plain", "money", "wide"]
        {
            let code = described(what).unwrap();
            assert!(code.is_complete() && !code.equal(&TypeCode::default()), "{what}");
        }
    }
}
