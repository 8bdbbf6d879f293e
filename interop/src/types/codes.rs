//! The type codes that the contract's cases name.

use self::tc::generated;
use crate::generated::interop::*;
use isorb::TypeCode;

/// The type code that `TypeCodes::describe` answers; `None` for words that it does not know.
pub fn described(what: &str) -> Option<TypeCode> {
    Some(match what {
        "long" => TypeCode::LONG,
        "mixed" => generated::<Mixed>(),
        "tree" => generated::<Tree>(),
        "expression" => generated::<Expression>(),
        "colour" => generated::<Colour>(),
        "over_long" => generated::<OverLong>(),
        "height" => tc::height(),
        "plain" => generated::<Plain>(),
        "thing" => generated::<Option<ThingRef>>(),
        "money" => tc::money(),
        "wide" => generated::<Wide>(),
        _ => return None,
    })
}

/// Type codes by hand: those of typedefs, which are no types of their own in Rust. They can be
/// built; where one could not, it would be `null`, which no case takes.
pub mod tc {
    use isorb::TypeCode;
    use isorb::generated::AnyValue;

    /// What the IDL compiler says of a type.
    pub fn generated<T: AnyValue>() -> TypeCode {
        T::type_code()
    }

    fn alias(name: &str, original: &TypeCode) -> TypeCode {
        TypeCode::new_alias(&format!("IDL:Interop/{name}:1.0"), name, original).unwrap_or_default()
    }

    /// `Longs`
    pub fn longs() -> TypeCode {
        alias("Longs", &generated::<Vec<i32>>())
    }

    /// `FiveLongs`
    pub fn five_longs() -> TypeCode {
        alias("FiveLongs", &generated::<[i32; 5]>())
    }

    /// `Height`, through all its aliases.
    pub fn height() -> TypeCode {
        alias("Height", &alias("Distance", &alias("Metre", &TypeCode::LONG)))
    }

    /// `Money`
    pub fn money() -> TypeCode {
        alias("Money", &generated::<isorb::Fixed<9, 2>>())
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
