//! The client: each case of the contract as a function, and the code that runs them.

mod anys;
mod callbacks;
mod exceptions;
mod large;
pub mod naming;
mod objects;
mod run;
mod text;
mod values;

pub use run::run;

use crate::check::{Check, Run};

type Case = fn(&Run<'_>) -> Check;

/// All cases in the order in which every peer runs them.
pub const CASES: &[(&str, Case)] = &[
    ("scalars", values::scalars),
    ("floats", values::floats),
    ("long_doubles", values::long_doubles),
    ("strings", text::strings),
    ("utf8_strings", text::utf8_strings),
    ("wides", text::wides),
    ("bounded_wides", text::bounded_wides),
    ("wide_chars", text::wide_chars),
    ("enums", values::enums),
    ("structs", values::structs),
    ("unions", values::unions),
    ("union_labels", values::union_labels),
    ("sequences", values::sequences),
    ("arrays", values::arrays),
    ("fixeds", values::fixeds),
    ("fixed_zeros", values::fixed_zeros),
    ("recursive", values::recursive),
    ("typedefs", values::typedefs),
    ("anys", anys::anys),
    ("typecodes", anys::typecodes),
    ("references", objects::references),
    ("factories", objects::factories),
    ("inheritance", objects::inheritance),
    ("objects", objects::objects),
    ("user_exceptions", exceptions::user_exceptions),
    ("system_exceptions", exceptions::system_exceptions),
    ("attributes", exceptions::attributes),
    ("attribute_exceptions", exceptions::attribute_exceptions),
    ("oneways", callbacks::oneways),
    ("callbacks", callbacks::callbacks),
    ("bidirectional", callbacks::bidirectional),
    ("forwards", objects::forwards),
    ("timeouts", callbacks::timeouts),
    ("large", large::large),
    ("parallel", large::parallel),
    ("interleaving", callbacks::interleaving),
    ("contexts", objects::contexts),
    ("naming", naming::naming),
];
