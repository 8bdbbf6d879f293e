//! Plain Rust structures as types of areas.

/// Defines a structure that can be the type of an area, without an IDL file. Its fields are
/// numbers, `bool`, arrays of them, and other such structures. Its values are those of the IDL
/// structure with the same id, name and members, so a program that was compiled from IDL reads
/// them.
///
/// ```
/// use isorb_reflective_memory::{area_type, idl::DataType};
///
/// area_type! {
///     /// A pressure with its time.
///     "IDL:Plant/Pressure:1.0";
///     pub struct Pressure {
///         pub bar: f64,
///         pub valid: bool,
///         pub history: [f32; 4],
///     }
/// }
/// assert_eq!(
///     DataType::of::<Pressure>().definition,
///     "struct Pressure { double bar; boolean valid; float[4] history; }"
/// );
/// ```
#[macro_export]
macro_rules! area_type {
    ($(#[$doc:meta])* $id:literal; $visible:vis struct $name:ident {
        $($(#[$field_doc:meta])* $field_visible:vis $field:ident: $type:ty),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        $visible struct $name {
            $($(#[$field_doc])* $field_visible $field: $type,)+
        }

        const _: () = {
            use $crate::area_type_parts::*;

            impl<'v> Encode<'v> for $name {
                fn encode(self, e: &mut Encoder<'v>) {
                    $(Encode::encode(self.$field, e);)+
                }
            }

            impl<'m> Decode<'m> for $name {
                const MIN_WIRE: usize = 0 $(+ <$type as Decode<'m>>::MIN_WIRE)+;

                fn decode(d: &mut Decoder<'m>) -> CdrResult<Self> {
                    Ok($name { $($field: Decode::decode(d)?,)+ })
                }
            }

            by_value!($name);
            impl<'v> Item<'v> for $name {}

            impl AnyValue for $name {
                fn type_code() -> TypeCode {
                    static CODE: ::std::sync::LazyLock<TypeCode> = ::std::sync::LazyLock::new(|| {
                        TypeCode::new_struct(
                            $id,
                            stringify!($name),
                            &[$((stringify!($field), <$type as AnyValue>::type_code())),+],
                        )
                        .unwrap_or_default()
                    });
                    CODE.clone()
                }

                fn put_value<'v>(&'v self, e: &mut Encoder<'v>) {
                    Encode::encode(*self, e);
                }
            }
        };
    };
}
