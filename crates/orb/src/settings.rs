//! The declarative table of configuration keys. One entry makes a key's field, its default, its
//! check, its `-ORB…` argument and its row in `docs/reference/configuration.md`.

use isorb_rt::sched::{OnPanic, RealTime};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::{Bound, RangeBounds};

/// A type of values that a key can have.
pub(crate) trait Setting {
    /// The form of the value behind a `-ORB…` argument.
    const FORM: &'static str;

    /// Takes the value of an argument.
    ///
    /// # Errors
    /// The sentence goes on behind the argument's name.
    fn set(&mut self, value: &str) -> Result<(), String>;

    /// The value as `isorb.toml` has it; empty for none.
    #[cfg_attr(not(test), allow(dead_code, reason = "for the reference page"))]
    fn show(&self) -> String;
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            const FORM: &'static str = "N";
            fn set(&mut self, value: &str) -> Result<(), String> {
                *self = value.parse().map_err(|_| format!("wants a number, not {value}"))?;
                Ok(())
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers!(u8, u32, u64, usize, i16);

impl Setting for bool {
    const FORM: &'static str = "0|1";
    fn set(&mut self, value: &str) -> Result<(), String> {
        let mut number = 0u8;
        number.set(value)?;
        *self = number != 0;
        Ok(())
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    const FORM: &'static str = "TEXT";
    fn set(&mut self, value: &str) -> Result<(), String> {
        *self = value.into();
        Ok(())
    }
    fn show(&self) -> String {
        format!("{self:?}")
    }
}

impl<T: Setting + Default> Setting for Option<T> {
    const FORM: &'static str = T::FORM;
    fn set(&mut self, value: &str) -> Result<(), String> {
        self.get_or_insert_default().set(value)
    }
    fn show(&self) -> String {
        self.as_ref().map_or_else(String::new, T::show)
    }
}

impl<T: Setting + Default> Setting for Vec<T> {
    const FORM: &'static str = "A,B";
    fn set(&mut self, value: &str) -> Result<(), String> {
        *self = Vec::new();
        for part in value.split(',') {
            let mut element = T::default();
            element.set(part.trim())?;
            self.push(element);
        }
        Ok(())
    }
    fn show(&self) -> String {
        format!("[{}]", self.iter().map(T::show).collect::<Vec<_>>().join(", "))
    }
}

impl Setting for BTreeMap<String, String> {
    const FORM: &'static str = "NAME=URL";
    fn set(&mut self, value: &str) -> Result<(), String> {
        let (key, url) = value.split_once('=').ok_or_else(|| format!("wants Name=URL, not {value}"))?;
        self.insert(key.into(), url.into());
        Ok(())
    }
    fn show(&self) -> String {
        "{}".into()
    }
}

/// Makes an enum a [`Setting`] by the names of its variants.
macro_rules! choice {
    ($type:ty: $first:literal $first_variant:ident $(, $name:literal $variant:ident)*) => {
        impl $crate::settings::Setting for $type {
            const FORM: &'static str = concat!($first $(, "|", $name)*);
            fn set(&mut self, value: &str) -> Result<(), String> {
                *self = match value {
                    $first => <$type>::$first_variant,
                    $($name => <$type>::$variant,)*
                    _ => return Err(format!("is {}, not {value}", Self::FORM)),
                };
                Ok(())
            }
            fn show(&self) -> String {
                format!("{:?}", match self {
                    <$type>::$first_variant => $first,
                    $(<$type>::$variant => $name,)*
                })
            }
        }
    };
}
pub(crate) use choice;

choice!(RealTime: "require" Require, "prefer" Prefer, "off" Off);
choice!(OnPanic: "replace" Replace, "always-replace" AlwaysReplace, "abort" Abort);

/// Whether a value is in the range of its key.
///
/// # Errors
/// The sentence says which key has which range.
pub(crate) fn check_range<T: PartialOrd + Display + Copy>(
    key: &str,
    value: T,
    range: impl RangeBounds<T>,
) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    let low = match range.start_bound() {
        Bound::Included(low) => *low,
        Bound::Excluded(_) | Bound::Unbounded => return Err(format!("{key} cannot be {value}")),
    };
    Err(match range.end_bound() {
        Bound::Included(high) => format!("{key} is {low} to {high}, not {value}"),
        _ => format!("{key} must be at least {low}, not {value}"),
    })
}

/// A row of the reference page.
#[cfg(test)]
pub(crate) struct Row {
    pub key: &'static str,
    pub arguments: &'static [&'static str],
    pub form: &'static str,
    pub default: String,
    pub text: &'static str,
}

/// Makes a struct of settings from its table. An entry is: documentation, `key: type = default`,
/// then optionally `in range` and the `-ORB…` argument with its other spellings.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[cfg($($cfg:tt)*)])?
                $(#[cfg_attr($($attr:tt)*)])?
                $key:ident: $type:ty = $default:expr
                $(, in $range:expr)?
                $(, $argument:literal $(| $alias:literal)*)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
        pub struct $name {
            $(
                $(#[doc = $doc])+
                $(#[cfg($($cfg)*)])?
                $(#[cfg_attr($($attr)*)])?
                pub $key: $type,
            )*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($(#[cfg($($cfg)*)])? $key: $default,)* }
            }
        }

        impl $name {
            /// Takes a `-ORB…` argument; `None` for one that is not in this table.
            pub(crate) fn set_argument(&mut self, name: &str, value: &str) -> Option<Result<(), String>> {
                match name {
                    $($($argument $(| $alias)* => Some($crate::settings::Setting::set(&mut self.$key, value)),)?)*
                    _ => None,
                }
            }

            /// Checks the ranges that the table gives.
            ///
            /// # Errors
            /// A sentence for the first value that is out of its range.
            pub(crate) fn check_ranges(&self) -> Result<(), String> {
                $($(#[cfg($($cfg)*)])? {
                    $($crate::settings::check_range(stringify!($key), self.$key, $range)?;)?
                })*
                Ok(())
            }

            /// The rows of the reference page.
            #[cfg(test)]
            pub(crate) fn rows() -> Vec<$crate::settings::Row> {
                let default = $name::default();
                vec![$(
                    $(#[cfg($($cfg)*)])?
                    $crate::settings::Row {
                        key: stringify!($key),
                        arguments: &[$($argument $(, $alias)*)?],
                        form: <$type as $crate::settings::Setting>::FORM,
                        default: $crate::settings::Setting::show(&default.$key),
                        text: concat!($($doc),+),
                    },
                )*]
            }
        }
    };
}
pub(crate) use settings;

#[cfg(all(test, feature = "miop"))]
mod tests {
    use super::Row;
    use crate::{Config, TransportConfig, rt::RealTimeConfig};
    use std::fmt::Write;

    /// One table of the reference page.
    fn table(rows: &[Row]) -> String {
        let mut text = String::from("| key | argument | default | meaning |\n|---|---|---|---|\n");
        for Row { key, arguments, form, default, text: meaning } in rows {
            let form = if *key == "endpoints" { "ENDPOINT".into() } else { form.replace('|', "\\|") };
            let arguments: Vec<String> = arguments.iter().map(|name| format!("`{name} {form}`")).collect();
            let default = if default.is_empty() { "none".into() } else { format!("`{default}`") };
            writeln!(text, "| `{key}` | {} | {default} | {} |", arguments.join(", "), meaning.trim())
                .unwrap();
        }
        text
    }

    /// After a change of the table, `ISORB_BLESS=1 cargo test -p isorb --lib settings` writes the
    /// page.
    #[test]
    fn the_reference_page_has_the_tables_of_the_source() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
        let page = std::fs::read_to_string(path).unwrap();
        let mut wanted = page.clone();
        for (name, rows) in [
            ("orb", Config::rows()),
            ("transport", TransportConfig::rows()),
            ("real_time", RealTimeConfig::rows()),
        ] {
            let (begin, end) = (format!("<!-- keys: {name} -->\n"), "<!-- end of keys -->");
            let (before, rest) =
                wanted.split_once(&begin).unwrap_or_else(|| panic!("the page lacks {begin}"));
            let (_, after) = rest.split_once(end).expect("the page lacks an end of keys");
            wanted = format!("{before}{begin}{}{end}{after}", table(&rows));
        }
        if std::env::var_os("ISORB_BLESS").is_some() {
            std::fs::write(path, &wanted).unwrap();
        } else {
            assert!(
                page == wanted,
                "the tables of {path} are not those of the source; ISORB_BLESS=1 writes them"
            );
        }
    }
}
