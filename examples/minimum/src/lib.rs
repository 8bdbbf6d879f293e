//! What the smallest client and server share: the generated code.

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("lamp");
}

pub use generated::minimum;
