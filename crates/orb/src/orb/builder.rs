//! What an ORB is made from.

use super::Orb;
use crate::config::Config;
use crate::interceptor::OrbInitInfo;
use crate::{Guard, Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::sched::{OnPanic, RealTime};
use std::sync::Arc;

type Initializer<'a> = Box<dyn FnOnce(&mut OrbInitInfo) -> Result<()> + 'a>;

/// Makes an ORB; from [`Orb::builder`].
///
/// ```
/// use isorb::{Config, Orb};
///
/// let orb = Orb::builder()
///     .config(Config::default())
///     .arguments(["program", "-ORBEndPoint", "127.0.0.1:0"].map(String::from))
///     .register(|info| {
///         assert_eq!(info.arguments(), ["program"]);
///         Ok(()) // info.add_transport(..), info.add_client_request_interceptor(..)
///     })
///     .build()?;
/// assert_eq!(orb.config().endpoints, ["127.0.0.1:0"]);
/// # Ok::<(), isorb::SystemException>(())
/// ```
#[derive(Default)]
#[must_use = "an ORB is made by `build`"]
pub struct OrbBuilder<'a> {
    config: Option<Config>,
    arguments: Vec<String>,
    initializers: Vec<Initializer<'a>>,
    guard: Option<Arc<dyn Guard>>,
}

impl<'a> OrbBuilder<'a> {
    /// Sets the configuration. Without this call it comes from the environment and `isorb.toml`, as
    /// with [`Orb::init`].
    pub fn config(mut self, config: Config) -> OrbBuilder<'a> {
        self.config = Some(config);
        self
    }

    /// Sets the command line. Its `-ORB…` arguments override the configuration; [`Orb::arguments`]
    /// has the others.
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = String>) -> OrbBuilder<'a> {
        self.arguments = arguments.into_iter().collect();
        self
    }

    /// Calls `initializer` before the ORB is made. This is where a program registers
    /// [interceptors](crate::interceptor), transports and initial references (an ORBInitializer's
    /// `pre_init`; what belongs into `post_init` follows [`OrbBuilder::build`]).
    /// Several initializers are called in the order of these calls.
    pub fn register(
        mut self,
        initializer: impl FnOnce(&mut OrbInitInfo) -> Result<()> + 'a,
    ) -> OrbBuilder<'a> {
        self.initializers.push(Box::new(initializer));
        self
    }

    /// Puts access control in front of all servants of the ORB. Without this call every client may
    /// call every operation.
    pub fn guard(mut self, guard: Arc<dyn Guard>) -> OrbBuilder<'a> {
        self.guard = Some(guard);
        self
    }

    /// Checks the configuration and makes the ORB.
    ///
    /// # Errors
    /// BAD_PARAM, with a sentence that names the wrong setting or argument. NO_PERMISSION when the
    /// configuration requires a real-time right that the process lacks, with the commands that
    /// grant it. The errors of the initializers.
    pub fn build(self) -> Result<Orb> {
        let (config, arguments) = match self.config {
            Some(config) => config.with_args(self.arguments)?,
            None => Config::from_args(self.arguments)?,
        };
        let mut info = OrbInitInfo::new(config, arguments);
        for initializer in self.initializers {
            initializer(&mut info)?;
        }
        let wrong = |sentence| SystemException::from(Kind::BadParam).detail(sentence);
        info.check().map_err(wrong)?;
        let (config, arguments, initial) = info.finish();
        let require = config.real_time.mode == RealTime::Require;
        // Of the process, so an ORB that has the default changes nothing for another one.
        if config.thread_panic != OnPanic::default() {
            config.thread_panic.set();
        }
        // Reads ISORB_LOG now, and not on a thread of a lane.
        isorb_rt::log::is_enabled(isorb_rt::log::Level::Error, "isorb");
        let orb = Orb::from_parts(config, arguments, initial, self.guard);
        if require {
            orb.sched().priorities.granted()?;
        }
        Ok(orb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_checked() {
        let kind = |built: Result<Orb>| built.unwrap_err().kind;
        let wrong = Config { lane_threads: 0, ..Config::default() };
        assert_eq!(kind(Orb::with_config(wrong.clone())), Kind::BadParam);
        assert_eq!(kind(Orb::builder().config(wrong).build()), Kind::BadParam);
        let over = |arguments: &[&str]| {
            let arguments: Vec<_> = arguments.iter().map(|argument| String::from(*argument)).collect();
            Orb::builder().config(Config::default()).arguments(arguments).build()
        };
        assert_eq!(kind(over(&["-ORBLaneThreads", "0"])), Kind::BadParam);
        assert_eq!(kind(over(&["-ORBConfig", "isorb.toml"])), Kind::BadParam);
        let orb = over(&["program", "-ORBLaneThreads", "7", "-x"]).unwrap();
        assert_eq!((orb.config().lane_threads, orb.arguments()), (7, &["program".into(), "-x".into()][..]));
    }

    #[test]
    fn initializers_are_called_in_order() {
        let calls = std::cell::RefCell::new(Vec::new());
        let note = |name| {
            let calls = &calls;
            move |_: &mut OrbInitInfo| {
                calls.borrow_mut().push(name);
                Ok(())
            }
        };
        Orb::builder().config(Config::default()).register(note("a")).register(note("b")).build().unwrap();
        assert_eq!(*calls.borrow(), ["a", "b"]);
    }
}
