//! The generated code of the smallest client and server.

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("lamp");
}

pub use generated::minimum;
