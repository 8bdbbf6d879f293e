//! Comparison and reports of the client.

use crate::generated::interop::SuiteRef;
use crate::options::Options;
use isorb::{Kind, Object, Orb, Reference, SystemException};
use std::any::Any;
use std::error::Error;
use std::fmt::Debug;

/// The reason why a case ended early.
#[derive(Debug)]
pub enum Stop {
    /// A difference from the contract.
    Fail(String),
    /// The case cannot be run here.
    Skip(String),
}

/// The result of a case.
pub type Check<T = ()> = Result<T, Stop>;

// `Stop` is not an `Error`, so that `?` converts every exception of an operation.
impl<E: Error + 'static> From<E> for Stop {
    fn from(error: E) -> Stop {
        match (&error as &dyn Any).downcast_ref::<SystemException>() {
            Some(exception) if exception.kind == Kind::CodesetIncompatible => {
                Stop::Fail(format!("no common code set: {exception}"))
            }
            _ => Stop::Fail(error.to_string()),
        }
    }
}

/// A condition that must hold.
#[macro_export]
macro_rules! expect {
    ($condition:expr) => {
        if !$condition {
            let text = concat!(stringify!($condition), " is false (", file!(), ":", line!(), ")");
            return Err($crate::check::Stop::Fail(text.to_owned()));
        }
    };
}

/// The expected error, as a pattern.
#[macro_export]
macro_rules! expect_err {
    ($result:expr, $pattern:pat $(if $guard:expr)?) => {
        match $result {
            Err($pattern) $(if $guard)? => {}
            other => {
                let what = concat!(stringify!($result), " at ", file!(), ":", line!());
                return Err($crate::check::Stop::Fail(format!("{what} gave {other:?}")));
            }
        }
    };
}

/// The echo rule of `interop.idl` for all neighbours in a list of values: `echo!(object.operation,
/// [values])` where the operation takes a reference to its argument, `echo!(object.operation
/// copied, [..])` where it takes it by value, `via` a function where it takes a view. What `by`
/// gives is compared instead of the values.
#[macro_export]
macro_rules! echo {
    ($o:ident.$op:ident, $values:expr) => {
        $crate::echo!(@ $o $op |a| (a), |v| { v }, $values)
    };
    ($o:ident.$op:ident by $key:expr, $values:expr) => {
        $crate::echo!(@ $o $op |a| (a), |v| { &$key(v) }, $values)
    };
    ($o:ident.$op:ident copied, $values:expr) => {
        $crate::echo!(@ $o $op |a| (*a), |v| { v }, $values)
    };
    ($o:ident.$op:ident copied by $key:expr, $values:expr) => {
        $crate::echo!(@ $o $op |a| (*a), |v| { &$key(*v) }, $values)
    };
    ($o:ident.$op:ident via |$a:ident| $arg:expr, $values:expr) => {
        $crate::echo!(@ $o $op |$a| ($arg), |v| { v }, $values)
    };
    (@ $o:ident $op:ident |$a:ident| ($arg:expr), |$v:ident| $key:block, $values:expr) => {{
        let values = $values;
        for i in 0..values.len() {
            let ($a, old) = (&values[i], &values[(i + 1) % values.len()]);
            let mut b = old.clone();
            let (r, c) = match $o.$op($arg, &mut b) {
                Ok(answer) => answer,
                Err(exception) => {
                    let what = concat!(stringify!($op), " value");
                    return Err($crate::check::Stop::Fail(format!("{what} {i}: {exception}")));
                }
            };
            for (what, got, want) in [("result", &r, $a), ("inout", &b, $a), ("out", &c, old)] {
                let got = { let $v = got; $key };
                let want = { let $v = want; $key };
                $crate::check::same(stringify!($op), what, i, got, want)?;
            }
        }
    }};
}

/// # Errors
/// A sentence that shows both, when they differ.
pub fn same<T: PartialEq + Debug + ?Sized>(
    operation: &str,
    what: &str,
    i: usize,
    got: &T,
    want: &T,
) -> Check {
    if got == want {
        return Ok(());
    }
    let cut = |value: &T| format!("{value:?}").chars().take(120).collect::<String>();
    Err(Stop::Fail(format!("{operation} value {i}: {what} is {} instead of {}", cut(got), cut(want))))
}

/// The environment of a case.
pub struct Run<'r> {
    /// The client's ORB.
    pub orb: &'r Orb,
    /// The command line's options.
    pub options: &'r Options,
    /// The server's root object; none if only a naming service was given.
    pub suite: Option<&'r SuiteRef>,
    /// The running case.
    pub current: &'r str,
}

impl Run<'_> {
    /// The object of this case.
    ///
    /// # Errors
    /// The exception of the server.
    pub fn group<R: Reference>(&self) -> Check<R> {
        self.other_group(self.current)
    }

    /// The object of another case.
    ///
    /// # Errors
    /// The exception of the server.
    pub fn other_group<R: Reference>(&self, name: &str) -> Check<R> {
        let object = self.object_of(name)?;
        object.narrow()?.ok_or_else(|| Stop::Fail(format!("group {name} is no {}", R::INTERFACE.id)))
    }

    /// The same without a type.
    ///
    /// # Errors
    /// The exception of the server.
    pub fn object_of(&self, name: &str) -> Check<Object> {
        let found = self.suite()?.group(name)?;
        found.ok_or_else(|| Stop::Fail(format!("group {name} is nil")))
    }

    /// The server's root object.
    ///
    /// # Errors
    /// When there is none.
    pub fn suite(&self) -> Check<&SuiteRef> {
        self.suite.ok_or_else(|| Stop::Fail("no --ior".into()))
    }
}

/// A reference that must not be nil.
///
/// # Errors
/// When it is.
pub fn some<T>(reference: Option<T>) -> Check<T> {
    reference.ok_or_else(|| Stop::Fail("a reference is nil".into()))
}
