//! Calls and servants by name and type at run time (part 1, clauses 11 and 12: the Dynamic
//! Invocation Interface and the Dynamic Skeleton Interface).

mod servant;

pub use servant::{DynamicInterface, DynamicServant};

use crate::interface::Operation;
use crate::invoke::call_scope;
use crate::{Any, Object, Result, SystemException, TypeCode};
use isorb_any::Kind as AnyKind;
use isorb_cdr::{Decoder, Encoder};
use isorb_giop::Kind;
use isorb_rt::sync::PiMutex;
use std::collections::BTreeSet;

/// The direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// From the client to the servant.
    In,
    /// From the servant to the client.
    Out,
    /// Both ways.
    InOut,
}

#[derive(Clone, Debug)]
struct Parameter {
    name: String,
    mode: Mode,
    type_code: TypeCode,
}

/// An operation that is known at run time: its name, and the types of its parameters, its result
/// and its exceptions.
#[derive(Clone, Debug)]
pub struct DynamicOperation {
    operation: Operation,
    result: Option<TypeCode>,
    parameters: Vec<Parameter>,
    /// As structures with the ids of the exceptions.
    exceptions: Vec<TypeCode>,
}

/// Most names of operations that a process may make at run time: they are kept for good.
const MOST_NAMES: usize = 65_536;
/// Longest of them, in octets.
const LONGEST_NAME: usize = 1024;

/// The name as a static, which calls identify their kept header by.
fn intern(name: &str) -> Result<&'static str> {
    static NAMES: PiMutex<BTreeSet<&'static str>> = PiMutex::new(BTreeSet::new());
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return Ok(known);
    }
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
        return Err(SystemException::from(Kind::BadParam).detail(format!(
            "the name of an operation has 1 to {LONGEST_NAME} octets, and none of them is 0"
        )));
    }
    if names.len() >= MOST_NAMES {
        return Err(SystemException::from(Kind::ImpLimit)
            .detail(format!("the process has made the names of {MOST_NAMES} operations at run time")));
    }
    let kept: &'static str = Box::leak(name.into());
    names.insert(kept);
    Ok(kept)
}

impl DynamicOperation {
    /// An operation without parameters, result and exceptions, by its name on the wire: that of an
    /// attribute is `_get_level` or `_set_level`.
    ///
    /// # Errors
    /// BAD_PARAM for a name that is empty or too long; IMP_LIMIT when the process has made 65,536
    /// different names, which it keeps.
    ///
    /// # Real-time
    /// Allocates; one PI lock.
    pub fn new(name: &str) -> Result<DynamicOperation> {
        let operation = Operation { name: intern(name)?, oneway: false };
        Ok(DynamicOperation { operation, result: None, parameters: Vec::new(), exceptions: Vec::new() })
    }

    /// Makes it a oneway: it has neither results nor exceptions.
    pub fn oneway(mut self) -> DynamicOperation {
        self.operation.oneway = true;
        self
    }

    /// Its result.
    pub fn result(mut self, type_code: TypeCode) -> DynamicOperation {
        self.result = Some(type_code);
        self
    }

    /// The next parameter. Its name stands in errors only.
    pub fn parameter(mut self, name: &str, mode: Mode, type_code: TypeCode) -> DynamicOperation {
        self.parameters.push(Parameter { name: name.to_owned(), mode, type_code });
        self
    }

    /// An exception that it raises.
    ///
    /// # Errors
    /// BAD_TYPECODE for a type that is no exception.
    pub fn raises(mut self, exception: &TypeCode) -> Result<DynamicOperation> {
        let wrong =
            || SystemException::from(Kind::BadTypecode).detail(format!("{exception} is no exception"));
        if exception.kind() != AnyKind::Except {
            return Err(wrong());
        }
        // The id stands before the members in a reply; an Any of the exception would have it twice.
        let members = || -> Result<TypeCode, Box<dyn std::error::Error>> {
            let count = exception.member_count()?;
            let members: Result<Vec<_>, isorb_any::TypeCodeError> =
                (0..count).map(|at| Ok((exception.member_name(at)?, exception.member_type(at)?))).collect();
            Ok(TypeCode::new_struct(exception.id()?, exception.name()?, &members?)?)
        };
        self.exceptions.push(members().map_err(|_| wrong())?);
        Ok(self)
    }

    /// Its name on the wire.
    pub fn name(&self) -> &'static str {
        self.operation.name
    }

    /// The names and types of the values that a call takes: `in` and `inout` parameters.
    pub fn arguments(&self) -> impl Iterator<Item = (&str, &TypeCode)> {
        let sent = self.parameters.iter().filter(|parameter| parameter.mode != Mode::Out);
        sent.map(|parameter| (parameter.name.as_str(), &parameter.type_code))
    }

    /// The names and types of the values that a call returns: the result, with an empty name, then
    /// `out` and `inout` parameters.
    pub fn results(&self) -> impl Iterator<Item = (&str, &TypeCode)> {
        let returned = self.parameters.iter().filter(|parameter| parameter.mode != Mode::In);
        let result = self.result.iter().map(|type_code| ("", type_code));
        result.chain(returned.map(|parameter| (parameter.name.as_str(), &parameter.type_code)))
    }
}

impl DynamicOperation {
    /// The exceptions, as structures of their members with their repository ids.
    pub fn exceptions(&self) -> &[TypeCode] {
        &self.exceptions
    }

    /// Whether there is no reply.
    pub fn is_oneway(&self) -> bool {
        self.operation.oneway
    }
}

/// A call that is built at run time.
#[derive(Clone, Debug)]
pub struct DynamicRequest<'o> {
    object: &'o Object,
    operation: &'o DynamicOperation,
    arguments: Vec<Any>,
}

/// The reply to a [`DynamicRequest`].
#[derive(Clone, Debug, PartialEq)]
pub enum DynamicReply {
    /// In the order of [`DynamicOperation::results`]. Empty for a oneway.
    Results(Vec<Any>),
    /// A user exception, as a structure of its members with its repository id.
    Exception(Any),
}

impl<'o> DynamicRequest<'o> {
    /// A request without arguments.
    pub fn new(object: &'o Object, operation: &'o DynamicOperation) -> DynamicRequest<'o> {
        DynamicRequest { object, operation, arguments: Vec::new() }
    }

    /// Adds the next argument, for an `in` or `inout` parameter.
    ///
    /// # Errors
    /// BAD_PARAM for one too many, or one of another type: the detail names the parameter.
    pub fn argument(mut self, value: Any) -> Result<DynamicRequest<'o>> {
        let name = self.operation.name();
        let Some((parameter, type_code)) = self.operation.arguments().nth(self.arguments.len()) else {
            let most = self.arguments.len();
            return Err(SystemException::from(Kind::BadParam)
                .detail(format!("{name} takes {most} arguments, this is one more")));
        };
        if !value.holds(type_code) {
            let given = value.type_code();
            return Err(SystemException::from(Kind::BadParam).detail(format!(
                "the argument {parameter} of {name} is of the type {type_code}, not {given}"
            )));
        }
        self.arguments.push(value);
        Ok(self)
    }

    /// Calls the object, and waits for the reply. A oneway is sent.
    ///
    /// # Errors
    /// BAD_PARAM for an argument that is missing, which the detail names; otherwise as
    /// [`Object::invoke`]. UNKNOWN for a user exception that the operation does not list.
    ///
    /// # Real-time
    /// As [`Object::invoke`], and allocates for each value of the reply.
    pub fn invoke<'a>(&'a self) -> Result<DynamicReply> {
        let operation = self.operation;
        if let Some((missing, _)) = operation.arguments().nth(self.arguments.len()) {
            let name = operation.name();
            return Err(SystemException::from(Kind::BadParam)
                .detail(format!("the argument {missing} of {name} is missing")));
        }
        let write = |e: &mut Encoder<'a>| self.arguments.iter().for_each(|argument| argument.write_value(e));
        if operation.operation.oneway {
            self.object.send(&operation.operation, &write)?;
            return Ok(DynamicReply::Results(Vec::new()));
        }
        call_scope(|scope| {
            let reply = self.object.invoke(&operation.operation, scope, &write)?;
            let read = |d: &mut Decoder<'_>| {
                operation.results().map(|(_, type_code)| Any::take(type_code.clone(), d)).collect()
            };
            let known = |id: &str, d: &mut Decoder<'_>| {
                let listed = operation.exceptions.iter().find(|exception| exception.id() == Ok(id));
                listed.map(|exception| Any::take(exception.clone(), d).map(Raised::User)).transpose()
            };
            match reply.raises(read, known) {
                Ok(results) => Ok(DynamicReply::Results(results)),
                Err(Raised::User(exception)) => Ok(DynamicReply::Exception(exception)),
                Err(Raised::System(exception)) => Err(exception),
            }
        })
    }
}

enum Raised {
    User(Any),
    System(SystemException),
}

impl From<SystemException> for Raised {
    fn from(exception: SystemException) -> Raised {
        Raised::System(exception)
    }
}
