//! The servant of all contexts.

use super::problem::{Problem, rest};
use super::url::{UrlProblem, to_url};
use super::{Shared, ids, iterating, problem, references};
use crate::binding::{Binding, BindingKind, ContextId, Target};
use crate::cos_naming::naming_context::{
    BindContextError, BindError, BindNewContextError, CannotProceed, DestroyError, InvalidName, NotEmpty,
    RebindContextError, RebindError, ResolveError, UnbindError,
};
use crate::cos_naming::naming_context_ext::{
    InvalidAddress, ResolveStrError, ToNameError, ToStringError, ToUrlError,
};
use crate::cos_naming::{
    BindingIteratorRef, BindingListView, Name, NameComponentView, NameView, NamingContext, NamingContextExt,
    NamingContextRef,
};
use crate::iterators::Position;
use crate::store::{Mode, Refusal};
use crate::tree::{self, Failure, Progress};
use isorb::{Kind, Object, Poa, Policies, Reference, Result, SystemException, Upcall};
use isorb_access::{Permission, Subject, authorize};
use isorb_giop::NameComponent as Step;
use std::sync::Arc;

/// Stands behind all contexts.
pub struct Contexts {
    pub shared: Arc<Shared>,
    pub iterators: Poa,
}

impl Contexts {
    /// The context that a request is for.
    fn here(&self, cx: Upcall<'_>) -> Result<ContextId> {
        ids::context(self.shared.store.stamp(), cx.object_id()).ok_or(Kind::ObjectNotExist.into())
    }

    fn reference(&self, cx: Upcall<'_>, context: ContextId) -> Result<NamingContextRef> {
        let object = references::of_context(poa(cx)?, &*self.shared.store, context)?;
        Ok(NamingContextRef::from_object(object))
    }

    /// The steps of a name; InvalidName for one that is longer than this service takes.
    fn steps(&self, name: NameView<'_>) -> Result<Vec<Step>, Problem> {
        let limits = &self.shared.limits;
        let fits = |step: &NameComponentView<'_>| step.id.len().max(step.kind.len()) <= limits.text;
        if name.is_empty() || name.len() > limits.steps || !name.iter().all(fits) {
            return Err(Problem::InvalidName);
        }
        Ok(name.iter().map(|step| Step::new(step.id, step.kind)).collect())
    }

    /// Runs an operation on a name: here, or at the context elsewhere that the name leads through.
    fn run<T>(
        &self,
        cx: Upcall<'_>,
        name: NameView<'_>,
        here: impl FnOnce(ContextId, &[Step]) -> Result<Result<Progress<T>, Failure>>,
        there: impl FnOnce(&NamingContextRef, &Name) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let name = self.steps(name)?;
        let progress = here(self.here(cx)?, &name)?
            .map_err(|failure| Problem::of(failure, &name, |context| self.reference(cx, context)))?;
        match progress {
            Progress::Done(value) => Ok(value),
            Progress::Onward { context, steps } => {
                let rest_of_name = rest(&name, steps);
                let context = references::of_octets(cx.orb(), &context)?.ok_or(Kind::InvObjref)?;
                let context: NamingContextRef = context.unchecked_narrow();
                if !self.shared.limits.follow {
                    return Err(Problem::CannotProceed(CannotProceed { cxt: Some(context), rest_of_name }));
                }
                let policies =
                    Policies { round_trip_timeout: Some(self.shared.limits.onward), ..Policies::default() };
                let patient = NamingContextRef::from_object(context.object().with_policies(policies));
                there(&patient, &rest_of_name).map_err(|problem| problem.onward(context, rest_of_name))
            }
        }
    }

    /// Checks that the caller may change the binding of a name. Names count from the root; a policy
    /// for some names holds for no name in another context, which may be bound anywhere.
    fn authorize(&self, cx: Upcall<'_>, name: NameView<'_>) -> Result<(), Problem> {
        let text = isorb_giop::Name::new(self.steps(name)?).map(|name| name.to_string()).unwrap_or_default();
        let text = match self.here(cx)? {
            ContextId::ROOT => text,
            ContextId(number) => format!("context:{number:x}/{text}"),
        };
        Ok(authorize(cx, Permission::Bind, Subject::Name(&text))?)
    }

    fn bind(
        &self,
        cx: Upcall<'_>,
        start: ContextId,
        name: &[Step],
        binding: &Binding,
        mode: Mode,
    ) -> Result<Result<Progress<()>, Failure>> {
        let store = &*self.shared.store;
        let bind = || tree::bind(store, start, name, binding, mode);
        self.shared.owners.bind(cx, store, (start, name), mode, bind)
    }

    fn put(
        &self,
        cx: Upcall<'_>,
        name: NameView<'_>,
        object: Option<&Object>,
        mode: Mode,
    ) -> Result<(), Problem> {
        self.authorize(cx, name)?;
        let store = &*self.shared.store;
        let target = references::to_target(poa(cx)?, store, &self.shared.limits, object)?;
        let binding = Binding { kind: BindingKind::Object, target };
        self.run(
            cx,
            name,
            |context, name| self.bind(cx, context, name, &binding, mode),
            |there, rest| match mode {
                Mode::New => Ok(there.bind(rest, object)?),
                Mode::Replace => Ok(there.rebind(rest, object)?),
            },
        )
    }

    fn put_context(
        &self,
        cx: Upcall<'_>,
        name: NameView<'_>,
        context: Option<&NamingContextRef>,
        mode: Mode,
    ) -> Result<(), Problem> {
        self.authorize(cx, name)?;
        let store = &*self.shared.store;
        let object = context.map(Reference::object).ok_or_else(|| {
            SystemException::from(Kind::BadParam)
                .detail("a nil reference cannot be bound as a naming context")
        })?;
        let target = references::to_target(poa(cx)?, store, &self.shared.limits, Some(object))?;
        let binding = Binding { kind: BindingKind::Context, target };
        self.run(
            cx,
            name,
            |context, name| self.bind(cx, context, name, &binding, mode),
            |there, rest| match mode {
                Mode::New => Ok(there.bind_context(rest, context)?),
                Mode::Replace => Ok(there.rebind_context(rest, context)?),
            },
        )
    }

    fn find<'u>(&self, cx: Upcall<'u>, name: NameView<'_>) -> Result<Option<&'u Object>, Problem> {
        let store = &*self.shared.store;
        let target = |target: &Target| references::of_target(poa(cx)?, cx.orb(), store, target);
        let found = self.run(
            cx,
            name,
            |context, name| Ok(tree::resolve(store, context, name).map(|found| found.map(Resolved::Local))),
            |there, rest| Ok(Resolved::Remote(there.resolve(rest)?)),
        )?;
        let object = match found {
            Resolved::Local(found) => target(&found)?,
            Resolved::Remote(object) => object,
        };
        Ok(match object {
            Some(object) => Some(cx.keep(object)?),
            None => None,
        })
    }
}

/// The result of resolving a name, in this service or in another one.
enum Resolved {
    Local(Target),
    Remote(Option<Object>),
}

impl NamingContext for Contexts {
    fn bind(&self, cx: Upcall<'_>, n: NameView<'_>, obj: Option<&Object>) -> Result<(), BindError> {
        Ok(self.put(cx, n, obj, Mode::New)?)
    }

    fn rebind(&self, cx: Upcall<'_>, n: NameView<'_>, obj: Option<&Object>) -> Result<(), RebindError> {
        Ok(self.put(cx, n, obj, Mode::Replace)?)
    }

    fn bind_context(
        &self,
        cx: Upcall<'_>,
        n: NameView<'_>,
        nc: Option<&NamingContextRef>,
    ) -> Result<(), BindContextError> {
        Ok(self.put_context(cx, n, nc, Mode::New)?)
    }

    fn rebind_context(
        &self,
        cx: Upcall<'_>,
        n: NameView<'_>,
        nc: Option<&NamingContextRef>,
    ) -> Result<(), RebindContextError> {
        Ok(self.put_context(cx, n, nc, Mode::Replace)?)
    }

    fn resolve<'u>(&'u self, cx: Upcall<'u>, n: NameView<'u>) -> Result<Option<&'u Object>, ResolveError> {
        Ok(self.find(cx, n)?)
    }

    fn unbind(&self, cx: Upcall<'_>, n: NameView<'_>) -> Result<(), UnbindError> {
        self.authorize(cx, n)?;
        Ok(self.run(
            cx,
            n,
            |context, name| Ok(self.shared.owners.unbind(&*self.shared.store, context, name)),
            |there, rest| Ok(there.unbind(rest)?),
        )?)
    }

    fn new_context<'u>(&'u self, cx: Upcall<'u>) -> Result<Option<&'u NamingContextRef>> {
        let Shared { store, owners, .. } = &*self.shared;
        let context = owners.new_context(cx, || store.create())?.map_err(problem::system)?;
        Ok(Some(cx.keep(self.reference(cx, context)?)?))
    }

    fn bind_new_context<'u>(
        &'u self,
        cx: Upcall<'u>,
        n: NameView<'u>,
    ) -> Result<Option<&'u NamingContextRef>, BindNewContextError> {
        self.authorize(cx, n)?;
        let made = self.run(
            cx,
            n,
            |context, name| {
                let made = self.shared.owners.bind_new_context(cx, &*self.shared.store, context, name)?;
                Ok(made.map(|made| made.map(NewContext::Here)))
            },
            |there, rest| Ok(NewContext::There(there.bind_new_context(rest)?)),
        )?;
        let context = match made {
            NewContext::Here(context) => Some(self.reference(cx, context)?),
            NewContext::There(context) => context,
        };
        Ok(match context {
            Some(context) => Some(cx.keep(context)?),
            None => None,
        })
    }

    fn destroy(&self, cx: Upcall<'_>) -> Result<(), DestroyError> {
        let context = self.here(cx)?;
        if context == ContextId::ROOT {
            let exception = SystemException::from(Kind::NoPermission);
            return Err(exception.detail("the root context cannot be destroyed").into());
        }
        self.shared.store.destroy(context).map_err(|refusal| match refusal {
            Refusal::NotEmpty => DestroyError::from(NotEmpty {}),
            other => problem::system(other).into(),
        })?;
        self.shared.owners.destroyed(context);
        Ok(())
    }

    fn list<'u>(
        &'u self,
        cx: Upcall<'u>,
        how_many: u32,
    ) -> Result<(BindingListView<'u>, Option<&'u BindingIteratorRef>)> {
        let context = self.here(cx)?;
        let limit = (how_many as usize).min(self.shared.batch(cx));
        let (entries, more) = self.shared.first(context, limit)?;
        let iterator = match more {
            false => None,
            true => {
                let position = Position { context, after: entries.last().map(|(name, _)| name.clone()) };
                let number = self.shared.iterators.lock().open(isorb_rt::time::now_ns(), position);
                let id = ids::of_iterator(number);
                let object = self.iterators.create_reference_with_id(id, BindingIteratorRef::INTERFACE.id)?;
                Some(cx.keep(BindingIteratorRef::from_object(object))?)
            }
        };
        Ok((iterating::views(cx, entries)?, iterator))
    }
}

/// A context that was made.
enum NewContext {
    Here(ContextId),
    There(Option<NamingContextRef>),
}

impl NamingContextExt for Contexts {
    fn to_string<'u>(&'u self, cx: Upcall<'u>, n: NameView<'u>) -> Result<&'u str, ToStringError> {
        let invalid = |_| ToStringError::from(InvalidName {});
        let steps = self.steps(n).map_err(invalid)?;
        let name = isorb_giop::Name::new(steps).ok_or(InvalidName {})?;
        Ok(cx.keep(name.to_string())?)
    }

    fn to_name<'u>(&'u self, cx: Upcall<'u>, sn: &'u str) -> Result<NameView<'u>, ToNameError> {
        let name: isorb_giop::Name = sn.parse().map_err(|_| InvalidName {})?;
        Ok(name_view(cx, name.into_components())?)
    }

    fn to_url<'u>(&'u self, cx: Upcall<'u>, addr: &'u str, sn: &'u str) -> Result<&'u str, ToUrlError> {
        let url = to_url(addr, sn).map_err(|problem| match problem {
            UrlProblem::Address => ToUrlError::from(InvalidAddress {}),
            UrlProblem::Name => ToUrlError::from(InvalidName {}),
        })?;
        Ok(cx.keep(url)?)
    }

    fn resolve_str<'u>(&'u self, cx: Upcall<'u>, sn: &'u str) -> Result<Option<&'u Object>, ResolveStrError> {
        let name: isorb_giop::Name = sn.parse().map_err(|_| Problem::InvalidName)?;
        let name = name_view(cx, name.into_components())?;
        Ok(self.find(cx, name)?)
    }
}

fn poa<'u>(cx: Upcall<'u>) -> Result<&'u Poa> {
    cx.poa().ok_or(Kind::Internal.into())
}

/// A name in the upcall's scope.
fn name_view<'u>(cx: Upcall<'u>, steps: Vec<Step>) -> Result<NameView<'u>> {
    let steps: &'u Vec<Step> = cx.keep(steps)?;
    let view = |i: usize| -> Result<_> { Ok(NameComponentView { id: &steps[i].id, kind: &steps[i].kind }) };
    Ok(cx.scope().fill(steps.len(), view)?)
}
