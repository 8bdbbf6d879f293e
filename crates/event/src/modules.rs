//! The row of modules that an event passes, chosen by type or replaced while events flow (paper 001, section 4.4).

use crate::dispatch::{Direct, Dispatch};
use crate::view::View;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Which modules a channel has. Dispatching is chosen beside it, but for the two that leave it out by definition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Configuration {
    /// Filtering, correlation, dispatching.
    #[default]
    Full,
    /// Filtering and correlation; consumers run on the supplier's thread.
    ForwardingDiscriminator,
    /// Filtering; a conjunction is served as a disjunction, event by event.
    SubscriptionAndFiltering,
    /// Neither: every consumer gets every event, on the supplier's thread.
    Broadcaster,
}

impl Configuration {
    pub(crate) fn filters(self) -> bool {
        self != Configuration::Broadcaster
    }

    pub(crate) fn correlates(self) -> bool {
        matches!(self, Configuration::Full | Configuration::ForwardingDiscriminator)
    }

    /// Does it leave the dispatching out?
    pub(crate) fn is_direct(self) -> bool {
        self != Configuration::Full
    }
}

/// The modules as an event meets them.
pub trait Modules: Send + Sync + 'static {
    /// The dispatching module.
    type Dispatch: Dispatch + ?Sized;

    /// Do consumers get only what they subscribed to?
    fn filters(&self) -> bool;

    /// Are conjunctions waited for?
    fn correlates(&self) -> bool;

    /// The dispatching module.
    fn dispatch(&self) -> &Self::Dispatch;
}

/// How a channel comes by its modules.
pub trait Rack: Send + Sync + 'static {
    /// Their type.
    type Modules: Modules;

    /// Those that an event meets which came under this view.
    #[doc(hidden)]
    fn modules<'a>(&'a self, view: &'a View) -> &'a Self::Modules;
}

/// A yes or no that is a type.
pub trait Choice: Send + Sync + 'static {
    /// Which.
    const YES: bool;
}

/// The module is there.
#[derive(Clone, Copy, Debug)]
pub enum With {}

/// It is not.
#[derive(Clone, Copy, Debug)]
pub enum Without {}

impl Choice for With {
    const YES: bool = true;
}

impl Choice for Without {
    const YES: bool = false;
}

/// Modules that are chosen by type, so that what is left out costs nothing, not even a question.
pub struct Fixed<Filtering, Correlation, D> {
    dispatch: D,
    chosen: PhantomData<fn() -> (Filtering, Correlation)>,
}

/// Filtering and correlation on the supplier's thread, by type.
pub type FixedDiscriminator = Fixed<With, With, Direct>;
/// Filtering on the supplier's thread, by type.
pub type FixedFiltering = Fixed<With, Without, Direct>;
/// Everything to everybody on the supplier's thread, by type.
pub type FixedBroadcaster = Fixed<Without, Without, Direct>;

impl<F: Choice, C: Choice, D: Dispatch> Fixed<F, C, D> {
    /// With this dispatching.
    pub fn new(dispatch: D) -> Self {
        Fixed { dispatch, chosen: PhantomData }
    }
}

impl<F, C, D: fmt::Debug> fmt::Debug for Fixed<F, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fixed").field("dispatch", &self.dispatch).finish()
    }
}

impl<F: Choice, C: Choice, D: Dispatch> Modules for Fixed<F, C, D> {
    type Dispatch = D;

    #[inline]
    fn filters(&self) -> bool {
        F::YES
    }

    #[inline]
    fn correlates(&self) -> bool {
        C::YES
    }

    #[inline]
    fn dispatch(&self) -> &D {
        &self.dispatch
    }
}

impl<F: Choice, C: Choice, D: Dispatch> Rack for Fixed<F, C, D> {
    type Modules = Self;

    #[inline]
    fn modules<'a>(&'a self, _: &'a View) -> &'a Self {
        self
    }
}

/// Modules that can be replaced: they are a part of the view that an event comes under.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replaceable(());

/// The modules of a [`Replaceable`] row.
#[derive(Clone)]
pub struct Row {
    pub(crate) configuration: Configuration,
    pub(crate) dispatch: Arc<dyn Dispatch>,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("configuration", &self.configuration).finish_non_exhaustive()
    }
}

impl Default for Row {
    fn default() -> Self {
        Row { configuration: Configuration::Full, dispatch: Arc::new(Direct) }
    }
}

impl Modules for Row {
    type Dispatch = dyn Dispatch;

    #[inline]
    fn filters(&self) -> bool {
        self.configuration.filters()
    }

    #[inline]
    fn correlates(&self) -> bool {
        self.configuration.correlates()
    }

    #[inline]
    fn dispatch(&self) -> &dyn Dispatch {
        &*self.dispatch
    }
}

impl Rack for Replaceable {
    type Modules = Row;

    #[inline]
    fn modules<'a>(&'a self, view: &'a View) -> &'a Row {
        &view.row
    }
}
