//! Operations of a specification, for dynamic calls and servants.

use crate::type_codes::TypeCodes;
use isorb::{DynamicOperation, Mode, SystemException};
use isorb_idl::model::{DefId, DefKind, Direction, Spec, Type};

/// The names of an operation or attribute in requests: `level`, or `_get_level` and `_set_level`.
pub fn wire_names(spec: &Spec, id: DefId) -> Vec<String> {
    let name = &spec[id].name;
    match &spec[id].kind {
        DefKind::Attribute(it) if it.readonly => vec![format!("_get_{name}")],
        DefKind::Attribute(_) => vec![format!("_get_{name}"), format!("_set_{name}")],
        _ => vec![name.clone()],
    }
}

/// The operation behind one of the [`wire_names`] of a definition.
///
/// # Errors
/// A sentence about a definition that is no operation, or about one of its types.
pub fn operation(codes: &mut TypeCodes<'_>, id: DefId, wire: &str) -> Result<DynamicOperation, String> {
    let spec = codes.spec();
    let text = |exception: SystemException| exception.to_string();
    let mut made = DynamicOperation::new(wire).map_err(text)?;
    let raises = match &spec[id].kind {
        DefKind::Operation(it) => {
            if it.result != Type::Void {
                made = made.result(codes.of_type(&it.result)?);
            }
            for parameter in &it.params {
                let mode = match parameter.direction {
                    Direction::In => Mode::In,
                    Direction::Out => Mode::Out,
                    Direction::InOut => Mode::InOut,
                };
                made = made.parameter(&parameter.name, mode, codes.of_type(&parameter.ty)?);
            }
            if it.oneway {
                made = made.oneway();
            }
            &it.raises
        }
        DefKind::Attribute(it) if wire.starts_with("_set_") => {
            made = made.parameter("value", Mode::In, codes.of_type(&it.ty)?);
            &it.set_raises
        }
        DefKind::Attribute(it) => {
            made = made.result(codes.of_type(&it.ty)?);
            &it.get_raises
        }
        _ => return Err(format!("{} is no operation", spec.scoped_name(id))),
    };
    for exception in raises {
        made = made.raises(&codes.of_definition(*exception)?).map_err(text)?;
    }
    Ok(made)
}

/// All operations of an interface, inherited ones included, for a
/// [`DynamicInterface`](isorb::DynamicInterface).
///
/// # Errors
/// As [`operation`].
pub fn operations(codes: &mut TypeCodes<'_>, interface: DefId) -> Result<Vec<DynamicOperation>, String> {
    let spec = codes.spec();
    let mut made = Vec::new();
    for member in spec.all_operations(interface) {
        for wire in wire_names(spec, member) {
            made.push(operation(codes, member, &wire)?);
        }
    }
    Ok(made)
}
