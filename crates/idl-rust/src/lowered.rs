//! Operations and attributes in one form: everything that has one name on the wire.

use isorb_idl::model::{DefId, DefKind, Direction, Spec, Type};

/// An operation, or the reading or writing half of an attribute.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    /// The operation or attribute.
    pub def: DefId,
    /// Which of these.
    pub role: Role,
    /// The operation name in a request.
    pub wire: String,
    pub oneway: bool,
    pub result: Type,
    pub params: Vec<OpParam>,
    pub raises: Vec<DefId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Operation,
    Get,
    Set,
}

#[derive(Clone, Debug)]
pub(crate) struct OpParam {
    pub direction: Direction,
    pub name: String,
    pub ty: Type,
}

impl OpParam {
    fn is_out(&self) -> bool {
        self.direction != Direction::In
    }
}

impl Op {
    /// The values after the result, in order.
    pub fn outs(&self) -> impl Iterator<Item = &OpParam> {
        self.params.iter().filter(|p| p.is_out())
    }

    /// The types of all returned values: the result if there is one, then `inout` and `out` values.
    pub fn returned(&self) -> Vec<&Type> {
        let result = (self.result != Type::Void).then_some(&self.result);
        result.into_iter().chain(self.outs().map(|p| &p.ty)).collect()
    }

    /// The types of the tuple that a servant returns: [`Op::returned`] without `inout`, which uses
    /// `&mut`.
    pub fn tuple(&self) -> Vec<&Type> {
        let result = (self.result != Type::Void).then_some(&self.result);
        let outs = self.params.iter().filter(|p| p.direction == Direction::Out);
        result.into_iter().chain(outs.map(|p| &p.ty)).collect()
    }
}

/// The operations of an interface without inherited ones; an attribute makes one or two.
pub(crate) fn own_ops(spec: &Spec, interface: DefId) -> Vec<Op> {
    spec.own_operations(interface).into_iter().flat_map(|id| lower(spec, id)).collect()
}

/// All operations, inherited ones first, with the interface that contains each. The position is the
/// index in dispatching.
pub(crate) fn all_ops(spec: &Spec, interface: DefId) -> Vec<(DefId, Op)> {
    let mut owners = spec.all_bases(interface);
    owners.push(interface);
    owners.into_iter().flat_map(|owner| own_ops(spec, owner).into_iter().map(move |op| (owner, op))).collect()
}

fn lower(spec: &Spec, def: DefId) -> Vec<Op> {
    let name = &spec[def].name;
    match &spec[def].kind {
        DefKind::Operation(o) => {
            let mut params: Vec<OpParam> = o
                .params
                .iter()
                .map(|p| OpParam { direction: p.direction, name: p.name.clone(), ty: p.ty.clone() })
                .collect();
            if !o.context.is_empty() {
                // The context follows the arguments, as alternating names and values (clause
                // 9.4.2.2).
                let element = Box::new(Type::String { bound: None });
                let ty = Type::Sequence { element, bound: None };
                params.push(OpParam { direction: Direction::In, name: "context".to_owned(), ty });
            }
            vec![Op {
                def,
                role: Role::Operation,
                wire: name.clone(),
                oneway: o.oneway,
                result: o.result.clone(),
                params,
                raises: exceptions(spec, &o.raises),
            }]
        }
        DefKind::Attribute(a) => {
            let get = Op {
                def,
                role: Role::Get,
                wire: format!("_get_{name}"),
                oneway: false,
                result: a.ty.clone(),
                params: Vec::new(),
                raises: exceptions(spec, &a.get_raises),
            };
            let value = OpParam { direction: Direction::In, name: "value".to_owned(), ty: a.ty.clone() };
            let set = Op {
                def,
                role: Role::Set,
                wire: format!("_set_{name}"),
                oneway: false,
                result: Type::Void,
                params: vec![value],
                raises: exceptions(spec, &a.set_raises),
            };
            if a.readonly { vec![get] } else { vec![get, set] }
        }
        _ => Vec::new(),
    }
}

/// Each exception once. A native in place of an exception, which means any exception in CORBA's own
/// modules, is left out.
fn exceptions(spec: &Spec, raises: &[DefId]) -> Vec<DefId> {
    let mut each = Vec::new();
    for id in raises {
        if !each.contains(id) && matches!(spec[*id].kind, DefKind::Exception(_)) {
            each.push(*id);
        }
    }
    each
}
