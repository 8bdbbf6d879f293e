//! The echo rule of `interop.idl`, once for all its operations.

/// For values without lifetimes.
macro_rules! echo {
    ($($name:ident $type:ty;)*) => {$(
        fn $name(&self, _: Upcall<'_>, a: $type, b: &mut $type) -> Result<($type, $type)> {
            Ok((a, std::mem::replace(b, a)))
        }
    )*};
}

/// For values that borrow from the request, for the given lifetime.
macro_rules! echo_views {
    ($u:lifetime: $($name:ident $type:ty;)*) => {$(
        fn $name<$u>(&$u self, _: Upcall<$u>, a: $type, b: &mut $type) -> Result<($type, $type)> {
            Ok((a, std::mem::replace(b, a)))
        }
    )*};
}
