//! The methods of the classes of interfaces.

use super::{Maker, python_name};
use crate::call::{Parameter, PyOperation};
use crate::error;
use crate::type_codes;
use crate::types::Ty;
use isorb::{DynamicOperation, Mode, Operation};
use isorb_idl::model::{DefId, DefKind, Direction, Spec, Type};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

impl Maker<'_, '_> {
    /// Gives an interface its methods and properties, and what a servant of it needs.
    pub(super) fn operations(&mut self, id: DefId) -> PyResult<()> {
        let types = self.types.clone();
        let class = match self.made.get(&id.index()) {
            Some(class) => class.clone(),
            None => return Ok(()),
        };
        let all = PyDict::new(self.py);
        for member in types.spec.all_operations(id) {
            for wire in wire_names(&types.spec, member) {
                let operation = Bound::new(self.py, self.operation(member, &wire)?)?;
                all.set_item(&wire, &operation)?;
                let own = types.spec[member].parent == Some(id);
                if own {
                    let sent: Vec<String> =
                        operation.get().sent().map(|parameter| python_name(&parameter.name)).collect();
                    let doc = types.spec[member].doc.as_deref().unwrap_or("");
                    let python = match wire.starts_with('_') {
                        true => wire.clone(),
                        false => python_name(&wire),
                    };
                    self.make.call_method1("method", (&class, python, sent, &operation, doc))?;
                }
            }
            let it = &types.spec[member];
            if let (DefKind::Attribute(attribute), true) = (&it.kind, it.parent == Some(id)) {
                let doc = it.doc.as_deref().unwrap_or("");
                let values = (&class, python_name(&it.name), &it.name, attribute.readonly, doc);
                self.make.call_method1("attribute", values)?;
            }
        }
        class.setattr("__isorb_operations__", all)?;
        let bases: Vec<&str> =
            types.spec.all_bases(id).into_iter().map(|base| &*types.spec[base].repository_id).collect();
        class.setattr("__isorb_bases__", PyTuple::new(self.py, bases)?)
    }

    fn operation(&self, id: DefId, wire: &str) -> PyResult<PyOperation> {
        let spec = self.spec();
        let mut parameters = Vec::new();
        let (mut result, mut raises, mut oneway) = (None, Vec::new(), false);
        let dynamic = self.described(id, wire);
        match &spec[id].kind {
            DefKind::Operation(it) => {
                result = (it.result != Type::Void).then(|| self.ty(&it.result));
                oneway = it.oneway;
                for parameter in &it.params {
                    let (name, ty) = (parameter.name.clone(), self.ty(&parameter.ty));
                    parameters.push(Parameter { name, mode: mode(parameter.direction), ty });
                }
                raises.extend(it.raises.iter().map(|id| id.index()));
            }
            DefKind::Attribute(it) if wire.starts_with("_set_") => {
                parameters.push(Parameter { name: "value".into(), mode: Mode::In, ty: self.ty(&it.ty) });
                raises.extend(it.set_raises.iter().map(|id| id.index()));
            }
            DefKind::Attribute(it) => {
                result = Some(self.ty(&it.ty));
                raises.extend(it.get_raises.iter().map(|id| id.index()));
            }
            _ => {}
        }
        let name =
            DynamicOperation::new(wire).map_err(|exception| error::system(self.py, &exception))?.name();
        Ok(PyOperation {
            label: spec.scoped_name(id),
            attribute: python_name(&spec[id].name),
            types: self.types.clone(),
            operation: Operation { name, oneway },
            parameters,
            result,
            raises,
            dynamic,
        })
    }

    /// The operation with type codes; or which of its types has no values in Python.
    fn described(&self, id: DefId, wire: &str) -> Result<DynamicOperation, String> {
        let spec = self.spec();
        let text = |exception: isorb::SystemException| exception.to_string();
        let mut made = DynamicOperation::new(wire).map_err(text)?;
        let checked = |ty: &Type| {
            if let Ty::Unsupported(name) = self.ty(ty) {
                return Err(format!("the type {name} has no values in Python"));
            }
            type_codes::of_type(spec, ty)
        };
        let raises = match &spec[id].kind {
            DefKind::Operation(it) => {
                if it.result != Type::Void {
                    made = made.result(checked(&it.result)?);
                }
                for parameter in &it.params {
                    made =
                        made.parameter(&parameter.name, mode(parameter.direction), checked(&parameter.ty)?);
                }
                if it.oneway {
                    made = made.oneway();
                }
                &it.raises
            }
            DefKind::Attribute(it) if wire.starts_with("_set_") => {
                made = made.parameter("value", Mode::In, checked(&it.ty)?);
                &it.set_raises
            }
            DefKind::Attribute(it) => {
                made = made.result(checked(&it.ty)?);
                &it.get_raises
            }
            _ => return Err("it is no operation".into()),
        };
        for exception in raises {
            made = made.raises(&type_codes::of_definition(spec, *exception)?).map_err(text)?;
        }
        Ok(made)
    }
}

fn mode(direction: Direction) -> Mode {
    match direction {
        Direction::In => Mode::In,
        Direction::Out => Mode::Out,
        Direction::InOut => Mode::InOut,
    }
}

/// The names of an operation or attribute in requests.
fn wire_names(spec: &Spec, id: DefId) -> Vec<String> {
    let name = &spec[id].name;
    match &spec[id].kind {
        DefKind::Attribute(it) if it.readonly => vec![format!("_get_{name}")],
        DefKind::Attribute(_) => vec![format!("_get_{name}"), format!("_set_{name}")],
        _ => vec![name.clone()],
    }
}
