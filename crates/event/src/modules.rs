//! The modules that an event passes: chosen by type, or replaced while events flow (TAO event
//! service paper, section 4.4).

use crate::dispatch::{Direct, Dispatch};
use crate::view::View;
use std::fmt;
use std::sync::Arc;

/// Which modules a channel has. The dispatching module is chosen beside it
/// ([`Strategy`](crate::Strategy)); all configurations but the full one do without.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Configuration {
    /// Filtering, correlation and dispatching.
    #[default]
    Full,
    /// Filtering and correlation. Consumers run on the supplier's thread.
    ForwardingDiscriminator,
    /// Filtering only. A conjunction is served as a disjunction, event by event.
    SubscriptionAndFiltering,
    /// No modules: every consumer gets every event, on the supplier's thread.
    Broadcaster,
}

impl Configuration {
    /// Returns true if consumers run on the supplier's thread.
    pub(crate) fn is_direct(self) -> bool {
        self != Configuration::Full
    }
}

/// A composition of modules, as an event meets it: [`Replaceable`] or [`Fixed`].
pub trait ModuleSet: Send + Sync + 'static {
    /// The dispatching module.
    type Dispatch: Dispatch + ?Sized;

    /// Returns true if consumers get only the events that they subscribed to.
    #[doc(hidden)]
    fn filters(&self, view: &View) -> bool;

    /// Returns true if conjunctions wait for all their events.
    #[doc(hidden)]
    fn correlates(&self, view: &View) -> bool;

    /// The dispatching module.
    #[doc(hidden)]
    fn dispatch<'a>(&'a self, view: &'a View) -> &'a Self::Dispatch;
}

/// Modules that are chosen by type, so that a module that is left out costs not even a branch.
#[derive(Debug)]
pub struct Fixed<const FILTERING: bool, const CORRELATION: bool, D> {
    dispatch: D,
}

/// Filtering and correlation on the supplier's thread, by type.
pub type FixedDiscriminator = Fixed<true, true, Direct>;
/// Filtering on the supplier's thread, by type.
pub type FixedFiltering = Fixed<true, false, Direct>;
/// Every event to every consumer on the supplier's thread, by type.
pub type FixedBroadcaster = Fixed<false, false, Direct>;

impl<const F: bool, const C: bool, D: Dispatch> Fixed<F, C, D> {
    /// Modules with this dispatcher.
    pub fn new(dispatch: D) -> Self {
        Fixed { dispatch }
    }
}

impl<const F: bool, const C: bool, D: Dispatch> ModuleSet for Fixed<F, C, D> {
    type Dispatch = D;

    #[inline]
    fn filters(&self, _: &View) -> bool {
        F
    }

    #[inline]
    fn correlates(&self, _: &View) -> bool {
        C
    }

    #[inline]
    fn dispatch<'a>(&'a self, _: &'a View) -> &'a D {
        &self.dispatch
    }
}

/// Modules that can be replaced: they are in the `Pipeline` of the view that an event reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replaceable(());

/// The modules of a [`Replaceable`] set at one moment.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub(crate) configuration: Configuration,
    pub(crate) dispatch: Arc<dyn Dispatch>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("configuration", &self.configuration).finish_non_exhaustive()
    }
}

impl Default for Pipeline {
    fn default() -> Self {
        Pipeline { configuration: Configuration::Full, dispatch: Arc::new(Direct) }
    }
}

impl ModuleSet for Replaceable {
    type Dispatch = dyn Dispatch;

    #[inline]
    fn filters(&self, view: &View) -> bool {
        view.pipeline.configuration != Configuration::Broadcaster
    }

    #[inline]
    fn correlates(&self, view: &View) -> bool {
        matches!(view.pipeline.configuration, Configuration::Full | Configuration::ForwardingDiscriminator)
    }

    #[inline]
    fn dispatch<'a>(&'a self, view: &'a View) -> &'a dyn Dispatch {
        &*view.pipeline.dispatch
    }
}
