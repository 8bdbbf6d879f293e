//! Failures as exceptions of the standard (Naming Service 1.3, clause 2.3).

use crate::cos_naming::naming_context::{
    AlreadyBound, BindError, CannotProceed, InvalidName, NotFound, NotFoundReason, RebindError,
};
use crate::cos_naming::naming_context_ext::ResolveStrError;
use crate::cos_naming::{Name, NameComponent, NamingContextRef};
use crate::store::Refusal;
use crate::tree::{self, Failure};
use isorb::{Kind, Result, SystemException};
use isorb_giop::NameComponent as Step;

/// Every exception of an operation on a name.
pub enum Problem {
    NotFound(NotFound),
    CannotProceed(CannotProceed),
    InvalidName,
    AlreadyBound,
    System(SystemException),
}

impl From<SystemException> for Problem {
    fn from(exception: SystemException) -> Problem {
        Problem::System(exception)
    }
}

impl From<Kind> for Problem {
    fn from(kind: Kind) -> Problem {
        Problem::System(kind.into())
    }
}

impl From<BindError> for Problem {
    fn from(error: BindError) -> Problem {
        match error {
            BindError::NotFound(exception) => Problem::NotFound(exception),
            BindError::CannotProceed(exception) => Problem::CannotProceed(exception),
            BindError::InvalidName(_) => Problem::InvalidName,
            BindError::AlreadyBound(_) => Problem::AlreadyBound,
            BindError::System(exception) => Problem::System(exception),
        }
    }
}

impl From<RebindError> for Problem {
    fn from(error: RebindError) -> Problem {
        match error {
            RebindError::NotFound(exception) => Problem::NotFound(exception),
            RebindError::CannotProceed(exception) => Problem::CannotProceed(exception),
            RebindError::InvalidName(_) => Problem::InvalidName,
            RebindError::System(exception) => Problem::System(exception),
        }
    }
}

impl From<Problem> for BindError {
    fn from(problem: Problem) -> BindError {
        match problem {
            Problem::NotFound(exception) => BindError::NotFound(exception),
            Problem::CannotProceed(exception) => BindError::CannotProceed(exception),
            Problem::InvalidName => BindError::InvalidName(InvalidName {}),
            Problem::AlreadyBound => BindError::AlreadyBound(AlreadyBound {}),
            Problem::System(exception) => BindError::System(exception),
        }
    }
}

/// Exceptions without AlreadyBound.
macro_rules! without_already_bound {
    ($($error:ident)*) => {
        $(impl From<Problem> for $error {
            fn from(problem: Problem) -> $error {
                match problem {
                    Problem::NotFound(exception) => $error::NotFound(exception),
                    Problem::CannotProceed(exception) => $error::CannotProceed(exception),
                    Problem::InvalidName => $error::InvalidName(InvalidName {}),
                    // No operation with these exceptions refuses a name because it is bound.
                    Problem::AlreadyBound => $error::System(Kind::Internal.into()),
                    Problem::System(exception) => $error::System(exception),
                }
            }
        })*
    };
}
without_already_bound! { RebindError ResolveStrError }

impl Problem {
    /// The exception of a failure; `context` returns a reference to a context of this service.
    pub fn of(
        failure: Failure,
        name: &[Step],
        context: impl FnOnce(crate::binding::ContextId) -> Result<NamingContextRef>,
    ) -> Problem {
        match failure {
            Failure::InvalidName => Problem::InvalidName,
            Failure::AlreadyBound => Problem::AlreadyBound,
            Failure::NotFound { why, steps } => {
                let why = match why {
                    tree::NotFoundReason::MissingNode => NotFoundReason::MissingNode,
                    tree::NotFoundReason::NotContext => NotFoundReason::NotContext,
                    tree::NotFoundReason::NotObject => NotFoundReason::NotObject,
                };
                Problem::NotFound(NotFound { why, rest_of_name: rest(name, steps) })
            }
            Failure::Dangling { context: id, steps } => match context(id) {
                Ok(cxt) => {
                    Problem::CannotProceed(CannotProceed { cxt: Some(cxt), rest_of_name: rest(name, steps) })
                }
                Err(exception) => Problem::System(exception),
            },
            Failure::NoContext => Kind::ObjectNotExist.into(),
            Failure::Full => Problem::System(system(Refusal::Full)),
            Failure::Failed(fault) => Problem::System(system(Refusal::Failed(fault))),
        }
    }

    /// The exception of a call to another service's context. An unreachable context is
    /// CannotProceed, since the client may succeed. Refusals are passed on.
    pub fn onward(self, context: NamingContextRef, rest_of_name: Name) -> Problem {
        match self {
            Problem::System(exception) if unreachable(exception.kind) => {
                Problem::CannotProceed(CannotProceed { cxt: Some(context), rest_of_name })
            }
            other => other,
        }
    }
}

fn unreachable(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::CommFailure
            | Kind::Transient
            | Kind::Timeout
            | Kind::ObjectNotExist
            | Kind::InvObjref
            | Kind::NoResources
            | Kind::ImpLimit
            | Kind::Rebind
            | Kind::BadOperation
            | Kind::Unknown
    )
}

/// The components of a name from one on, in the generated form.
pub fn rest(name: &[Step], steps: usize) -> Name {
    let rest = name.get(steps..).unwrap_or_default().iter();
    rest.map(|step| NameComponent { id: step.id.clone(), kind: step.kind.clone() }).collect()
}

/// The exception of a store's refusal if none of the operation's exceptions fits.
pub fn system(refusal: Refusal) -> SystemException {
    let kind = match refusal {
        Refusal::NoContext => Kind::ObjectNotExist,
        Refusal::Full => Kind::NoResources,
        Refusal::Failed(_) => Kind::PersistStore,
        _ => Kind::Internal,
    };
    SystemException::from(kind).detail(refusal.to_string())
}
