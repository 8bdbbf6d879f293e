//! The interface of an object as data: what can be called, with which types.

use crate::corba::{
    ExceptionDescription, ExtInterfaceDefRef, InterfaceDefRef, OperationDescription, OperationMode,
    ParameterMode, interface_attr_extension, interface_def,
};
use isorb::{DynamicOperation, Kind, Mode, Object, Result, SystemException, TypeCode};
use isorb_any::Kind as CodeKind;

/// Most operations of an interface, attributes counted twice.
pub const MAX_OPERATIONS: usize = 4096;
/// Most parameters of an operation.
pub const MAX_PARAMETERS: usize = 255;
/// Most exceptions of an operation.
pub const MAX_EXCEPTIONS: usize = 255;

/// An operation of a [`Contract`].
#[derive(Clone, Debug)]
struct Signature {
    /// As in requests.
    name: String,
    oneway: bool,
    result: Option<TypeCode>,
    parameters: Vec<(String, Mode, TypeCode)>,
    exceptions: Vec<TypeCode>,
}

/// An interface as a repository describes it.
#[derive(Clone, Debug)]
pub struct Contract {
    id: String,
    name: String,
    bases: Vec<String>,
    operations: Vec<Signature>,
}

impl Contract {
    /// Asks a definition in a repository, of this or another ORB, for its description.
    ///
    /// # Errors
    /// Those of the calls; BAD_PARAM where the object is no `CORBA::InterfaceDef`; INTF_REPOS with
    /// a sentence for a description that is none: more than [`MAX_OPERATIONS`] operations, a
    /// parameter without a type, an exception that is none.
    ///
    /// # Real-time
    /// Two or three calls; allocates what the answer needs, which is bounded by the size of a
    /// message.
    pub fn of_definition(definition: &Object) -> Result<Contract> {
        // Attributes of a plain InterfaceDef come without their exceptions.
        if let Some(extended) = definition.narrow::<ExtInterfaceDefRef>()? {
            return Contract::try_from(extended.describe_ext_interface()?);
        }
        let Some(definition) = definition.narrow::<InterfaceDefRef>()? else {
            return Err(SystemException::from(Kind::BadParam).detail(format!(
                "the object is no CORBA::InterfaceDef: its reference says {}",
                match definition.type_id() {
                    "" => "nothing",
                    id => id,
                }
            )));
        };
        Contract::try_from(definition.describe_interface()?)
    }

    /// The repository id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name without its scope.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The repository ids of the direct bases.
    pub fn bases(&self) -> impl Iterator<Item = &str> {
        self.bases.iter().map(String::as_str)
    }

    /// The names of all operations in requests; an attribute `level` has `_get_level` and, unless
    /// it is readonly, `_set_level`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().map(|operation| operation.name.as_str())
    }

    /// The operation of a name in requests, for a [`DynamicRequest`](isorb::DynamicRequest).
    ///
    /// # Errors
    /// BAD_OPERATION for a name that is not in the interface, with those that are. As
    /// [`DynamicOperation::new`], which keeps the name for good: nothing else of a contract is kept.
    pub fn operation(&self, name: &str) -> Result<DynamicOperation> {
        let Some(signature) = self.operations.iter().find(|operation| operation.name == name) else {
            let known: Vec<&str> = self.names().take(20).collect();
            let more = if self.operations.len() > known.len() { ", …" } else { "" };
            return Err(SystemException::from(Kind::BadOperation).detail(format!(
                "{} has no operation {name}; it has {}{more}",
                self.name,
                known.join(", ")
            )));
        };
        let mut made = DynamicOperation::new(&signature.name)?;
        if let Some(result) = &signature.result {
            made = made.result(result.clone());
        }
        for (name, mode, code) in &signature.parameters {
            made = made.parameter(name, *mode, code.clone());
        }
        for exception in &signature.exceptions {
            made = made.raises(exception)?;
        }
        Ok(if signature.oneway { made.oneway() } else { made })
    }
}

fn wrong(what: impl Into<String>) -> SystemException {
    SystemException::from(Kind::IntfRepos)
        .minor(isorb::minor::INTF_REPOS_NO_ENTRY)
        .detail(format!("the interface repository's description is wrong: {}", what.into()))
}

/// A type of a value that travels.
fn travels(code: TypeCode, of: &str) -> Result<TypeCode> {
    match code.original().kind() {
        CodeKind::Void | CodeKind::Null | CodeKind::Except | CodeKind::Native => {
            Err(wrong(format!("{of} is of the type {code}")))
        }
        _ => Ok(code),
    }
}

fn exceptions(descriptions: Vec<ExceptionDescription>, of: &str) -> Result<Vec<TypeCode>> {
    if descriptions.len() > MAX_EXCEPTIONS {
        return Err(wrong(format!(
            "{of} raises {} exceptions, more than {MAX_EXCEPTIONS}",
            descriptions.len()
        )));
    }
    let code = |it: ExceptionDescription| match it.type_.kind() {
        CodeKind::Except => Ok(it.type_),
        _ => Err(wrong(format!("{of} raises {}, which is a {}", it.name, it.type_))),
    };
    descriptions.into_iter().map(code).collect()
}

fn signature(it: OperationDescription) -> Result<Signature> {
    let name = it.name;
    if it.parameters.len() > MAX_PARAMETERS {
        return Err(wrong(format!(
            "{name} has {} parameters, more than {MAX_PARAMETERS}",
            it.parameters.len()
        )));
    }
    let oneway = it.mode == OperationMode::OpOneway;
    let result = match it.result.original().kind() {
        CodeKind::Void => None,
        _ => Some(travels(it.result, &format!("the result of {name}"))?),
    };
    let mut parameters = Vec::new();
    for parameter in it.parameters {
        let mode = match parameter.mode {
            ParameterMode::ParamIn => Mode::In,
            ParameterMode::ParamOut => Mode::Out,
            ParameterMode::ParamInout => Mode::InOut,
        };
        let code = travels(parameter.type_, &format!("the parameter {} of {name}", parameter.name))?;
        parameters.push((parameter.name, mode, code));
    }
    let exceptions = exceptions(it.exceptions, &name)?;
    let returns = result.is_some() || parameters.iter().any(|(_, mode, _)| *mode != Mode::In);
    if oneway && (returns || !exceptions.is_empty()) {
        return Err(wrong(format!("{name} is a oneway with results")));
    }
    Ok(Signature { name, oneway, result, parameters, exceptions })
}

/// An attribute, with its exceptions where they are known.
struct Attribute {
    name: String,
    code: TypeCode,
    readonly: bool,
    get: Vec<ExceptionDescription>,
    set: Vec<ExceptionDescription>,
}

fn attribute(it: Attribute, operations: &mut Vec<Signature>) -> Result<()> {
    let code = travels(it.code, &format!("the attribute {}", it.name))?;
    let name = format!("_get_{}", it.name);
    let get = exceptions(it.get, &name)?;
    let result = Some(code.clone());
    operations.push(Signature { name, oneway: false, result, parameters: Vec::new(), exceptions: get });
    if !it.readonly {
        let name = format!("_set_{}", it.name);
        let set = exceptions(it.set, &name)?;
        let parameters = vec![("value".to_owned(), Mode::In, code)];
        operations.push(Signature { name, oneway: false, result: None, parameters, exceptions: set });
    }
    Ok(())
}

fn contract(
    (id, name, bases): (String, String, Vec<String>),
    operations: Vec<OperationDescription>,
    attributes: Vec<Attribute>,
) -> Result<Contract> {
    let count = operations.len() + 2 * attributes.len();
    if count > MAX_OPERATIONS {
        return Err(wrong(format!("{name} has {count} operations, more than {MAX_OPERATIONS}")));
    }
    let mut signatures = operations.into_iter().map(signature).collect::<Result<Vec<_>>>()?;
    for it in attributes {
        attribute(it, &mut signatures)?;
    }
    Ok(Contract { id, name, bases, operations: signatures })
}

impl TryFrom<interface_def::FullInterfaceDescription> for Contract {
    type Error = SystemException;

    fn try_from(it: interface_def::FullInterfaceDescription) -> Result<Contract> {
        use crate::corba::{AttributeDescription, AttributeMode};
        let plain = |it: AttributeDescription| Attribute {
            name: it.name,
            code: it.type_,
            readonly: it.mode == AttributeMode::AttrReadonly,
            get: Vec::new(),
            set: Vec::new(),
        };
        let attributes = it.attributes.into_iter().map(plain).collect();
        contract((it.id, it.name, it.base_interfaces), it.operations, attributes)
    }
}

impl TryFrom<interface_attr_extension::ExtFullInterfaceDescription> for Contract {
    type Error = SystemException;

    fn try_from(it: interface_attr_extension::ExtFullInterfaceDescription) -> Result<Contract> {
        use crate::corba::{AttributeMode, ExtAttributeDescription};
        let extended = |it: ExtAttributeDescription| Attribute {
            name: it.name,
            code: it.type_,
            readonly: it.mode == AttributeMode::AttrReadonly,
            get: it.get_exceptions,
            set: it.put_exceptions,
        };
        let attributes = it.attributes.into_iter().map(extended).collect();
        contract((it.id, it.name, it.base_interfaces), it.operations, attributes)
    }
}
