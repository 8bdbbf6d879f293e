//! User exceptions, system exceptions, attributes.

use super::values::Echo;
use crate::generated::interop::*;
use crate::types::{mixed, owned, view};
use attribute_exceptions::{AlwaysFailsError, GuardedError, SetGuardedError};
use isorb::{Completion, Kind, Result, SystemException, Upcall};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use user_exceptions::{RaiseEmptyError, RaisePlainError, RaiseRichError};

impl UserExceptions for Echo {
    fn raise_empty(&self, _: Upcall<'_>) -> Result<(), RaiseEmptyError> {
        Err(Empty {}.into())
    }
    fn raise_plain<'u>(
        &'u self,
        _: Upcall<'u>,
        code: i32,
        why: &'u str,
    ) -> Result<(i32, &'u str), RaisePlainError> {
        if code != 0 {
            return Err(Plain { code, why: why.to_owned() }.into());
        }
        Ok((1, why))
    }
    fn raise_rich(
        &self,
        _: Upcall<'_>,
        paint: Colour,
        detail: MixedView<'_>,
        samples: DoublesView<'_>,
        choice: OverLongView<'_>,
    ) -> Result<(), RaiseRichError> {
        let (detail, choice) = (owned::<Mixed>(detail), owned::<OverLong>(choice));
        Err(Rich { paint, detail, samples: samples.to_vec(), choice }.into())
    }
}

impl SystemExceptions for Echo {
    fn raise_system(&self, _: Upcall<'_>, name: &str, minor: u32, completed: u32) -> Result<()> {
        let kind = Kind::ALL.iter().find(|kind| kind.name() == name).ok_or(Kind::BadParam)?;
        let completed = match completed {
            0 => Completion::Yes,
            1 => Completion::No,
            _ => Completion::Maybe,
        };
        Err(SystemException::new(*kind, minor, completed))
    }
    fn raise_native(&self, _: Upcall<'_>) -> Result<()> {
        // A panic or another failure that is not an exception.
        std::panic::resume_unwind(Box::new("no CORBA exception"))
    }
}

/// Attributes behind a lock.
#[derive(Default)]
pub(super) struct AttributesServant(Mutex<State>);

#[derive(Default)]
struct State {
    changes: u32,
    label: String,
    detail: Option<Mixed>,
    paint: Option<Colour>,
}

impl AttributesServant {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Attributes for AttributesServant {
    fn changes(&self, _: Upcall<'_>) -> Result<u32> {
        Ok(self.with(|state| state.changes))
    }
    fn label<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u str> {
        self.with(|state| cx.str(&state.label))
    }
    fn set_label(&self, _: Upcall<'_>, value: &str) -> Result<()> {
        self.with(|state| {
            state.label = value.to_owned();
            state.changes += 1;
        });
        Ok(())
    }
    fn detail<'u>(&'u self, cx: Upcall<'u>) -> Result<MixedView<'u>> {
        let kept = self.with(|state| state.detail.clone());
        let m = cx.keep(kept.unwrap_or_else(|| mixed("", Colour::Red, 0)))?;
        Ok(view(m))
    }
    fn set_detail(&self, _: Upcall<'_>, value: MixedView<'_>) -> Result<()> {
        self.with(|state| state.detail = Some(owned::<Mixed>(value)));
        Ok(())
    }
    fn paint(&self, _: Upcall<'_>) -> Result<Colour> {
        Ok(self.with(|state| state.paint).unwrap_or(Colour::Red))
    }
    fn set_paint(&self, _: Upcall<'_>, value: Colour) -> Result<()> {
        self.with(|state| state.paint = Some(value));
        Ok(())
    }
}

/// An attribute that raises an exception when set below zero or read as 13.
#[derive(Default)]
pub(super) struct Guarded(AtomicI32);

impl AttributeExceptions for Guarded {
    fn guarded(&self, _: Upcall<'_>) -> Result<i32, GuardedError> {
        match self.0.load(Ordering::SeqCst) {
            13 => Err(Empty {}.into()),
            value => Ok(value),
        }
    }
    fn set_guarded(&self, _: Upcall<'_>, value: i32) -> Result<(), SetGuardedError> {
        if value < 0 {
            return Err(Plain { code: value, why: "negative".into() }.into());
        }
        self.0.store(value, Ordering::SeqCst);
        Ok(())
    }
    fn always_fails(&self, _: Upcall<'_>) -> Result<i32, AlwaysFailsError> {
        Err(Plain { code: 1, why: "always".into() }.into())
    }
}
