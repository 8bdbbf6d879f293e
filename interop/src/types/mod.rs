//! Values and type codes that server and client share.

mod codes;

pub use codes::{described, tc};

use crate::generated::interop::*;
use isorb::generated::Idl;
use isorb::{Any, Result};

/// The owned form of a view.
pub fn owned<T: Idl>(view: T::View<'_>) -> T {
    T::from_view(view)
}

/// A `Point`.
pub fn point(x: i32, y: i32) -> Point {
    Point { x, y }
}

/// A `Mixed` with numbers from `seed`.
pub fn mixed(name: &str, paint: Colour, seed: i32) -> Mixed {
    Mixed { name: name.to_owned(), paint, at: point(seed, -seed), tail: seed as u8 }
}

/// The view of a `Mixed`.
pub fn view(m: &Mixed) -> MixedView<'_> {
    MixedView { name: &m.name, paint: m.paint, at: m.at, tail: m.tail }
}

/// A tree of this depth and width.
pub fn tree(depth: u32, width: usize) -> Tree {
    let children = if depth > 1 { vec![tree(depth - 1, width); width] } else { Vec::new() };
    Tree { name: format!("depth {depth}"), children }
}

/// What `AnyValues::make` answers; `None` for words that it does not know.
///
/// # Errors
/// None for these values.
pub fn made(what: &str) -> Result<Option<Any>> {
    Ok(Some(match what {
        "null" => Any::null(),
        "long" => Any::from(42_i32),
        "string" => Any::new(&"forty-two".to_owned())?,
        "mixed" => {
            let m = Mixed { name: "m".into(), paint: Colour::Green, at: point(1, -2), tail: 9 };
            Any::new(&m)?
        }
        "longs" => Any::with_type(tc::longs(), [1, 2, 3].as_slice())?,
        "nested" => Any::new(&Any::from(42_i32))?,
        "tree" => {
            let leaf = Tree { name: "leaf".into(), children: Vec::new() };
            Any::new(&Tree { name: "root".into(), children: vec![leaf] })?
        }
        _ => return Ok(None),
    }))
}
