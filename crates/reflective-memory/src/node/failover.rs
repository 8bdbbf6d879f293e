//! References to another server by each of its addresses.

use super::timed;
use crate::Error;
use isorb::rt::Overrides;
use isorb::{Kind, Object, Reference, SystemException};
use isorb_giop::component::TAG_ALTERNATE_IIOP_ADDRESS;
use isorb_giop::{IiopProfile, Ior};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The most addresses of one server that are tried.
const MOST: usize = 4;

/// A reference by each of its addresses. A call that gets no answer at one address is repeated at
/// the next, so only idempotent operations are called by it: an answer may have been lost.
#[derive(Clone, Debug)]
pub(crate) struct FailoverRef<T> {
    references: Vec<T>,
    /// The one that answered last, shared by all references to the same server.
    preferred: Arc<AtomicUsize>,
}

impl<T: Reference> FailoverRef<T> {
    /// `answer` is the time-out at each address.
    pub fn of(reference: &T, answer: Duration, preferred: Arc<AtomicUsize>) -> FailoverRef<T> {
        let mut references = vec![timed(reference, answer)];
        references.extend(others(reference.object()).map(|object| timed(&object.unchecked_narrow(), answer)));
        FailoverRef { references, preferred }
    }

    /// The same with another time-out.
    pub fn within(&self, answer: Duration) -> FailoverRef<T> {
        let references = self.references.iter().map(|reference| timed(reference, answer)).collect();
        FailoverRef { references, preferred: self.preferred.clone() }
    }

    /// The same with other real-time policies.
    pub fn overriding(&self, overrides: &Overrides) -> FailoverRef<T> {
        let with = |reference: &T| reference.object().with_rt_overrides(overrides).unchecked_narrow();
        FailoverRef {
            references: self.references.iter().map(with).collect(),
            preferred: self.preferred.clone(),
        }
    }

    pub fn is_same_object(&self, other: &FailoverRef<T>) -> bool {
        self.references[0].object() == other.references[0].object()
    }

    pub fn has_alternatives(&self) -> bool {
        self.references.len() > 1
    }

    /// The reference that answered last.
    pub fn preferred(&self) -> &T {
        &self.references[self.preferred.load(Ordering::Relaxed) % self.references.len()]
    }

    /// Calls at the preferred address, then at the others until one answers.
    ///
    /// # Errors
    /// The result at the preferred address where no other answers.
    pub fn call<R, E>(&self, call: impl Fn(&T) -> Result<R, E>) -> Result<R, Error>
    where
        Error: From<E>,
    {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut unanswered = None;
        for index in (0..self.references.len()).map(|offset| (first + offset) % self.references.len()) {
            match call(&self.references[index]).map_err(Error::from) {
                Err(error) if is_no_answer(&error) => {
                    unanswered.get_or_insert(error);
                }
                answer => {
                    self.preferred.store(index, Ordering::Relaxed);
                    return answer;
                }
            }
        }
        // There is at least one reference, so there was an error.
        Err(unanswered.unwrap_or_else(|| SystemException::from(Kind::Transient).into()))
    }
}

fn is_no_answer(error: &Error) -> bool {
    matches!(error, Error::System(error) if matches!(error.kind, Kind::Timeout | Kind::Transient | Kind::CommFailure))
}

/// References to each address but the first.
fn others(object: &Object) -> impl Iterator<Item = Object> {
    let profiles: Vec<IiopProfile> = object.ior().iiop_profiles().filter_map(Result::ok).collect();
    let mut known: Vec<(String, u16)> = Vec::new();
    let mut found = Vec::new();
    for profile in profiles {
        for (host, port) in profile.addresses() {
            if known.contains(&(host.clone(), port)) || known.len() == MOST {
                continue;
            }
            known.push((host.clone(), port));
            let mut other = IiopProfile { host, port, ..profile.clone() };
            other.components.retain(|component| component.tag != TAG_ALTERNATE_IIOP_ADDRESS);
            let made = Ior::iiop(object.type_id(), &other).ok();
            found.extend(made.and_then(|ior| Object::from_ior(object.orb(), ior).ok()));
        }
    }
    found.into_iter().skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idl::CRM_CommRef;
    use isorb::{Config, Orb};

    #[test]
    fn a_call_without_an_answer_is_repeated_at_the_next_address() {
        let orb = Orb::with_config(Config::default()).unwrap();
        let url = "corbaloc::1.2@10.1.2.3:7,:1.2@10.1.2.4:8,:1.2@10.1.2.3:7/node";
        let reference: CRM_CommRef = orb.string_to_object(url).unwrap().unchecked_narrow();
        let failover = FailoverRef::of(&reference, Duration::from_secs(1), Arc::default());
        assert!(failover.has_alternatives());
        let hosts = |reference: &CRM_CommRef| {
            let profiles = reference.object().ior().iiop_profiles();
            profiles.flat_map(|profile| profile.unwrap().addresses().collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let only = |reference: &CRM_CommRef| hosts(reference) == [("10.1.2.4".to_owned(), 8)];
        let no_answer = || Err(SystemException::from(Kind::Timeout));
        let by = |good: fn(bool) -> bool| {
            failover.call(|reference| if good(only(reference)) { Ok(only(reference)) } else { no_answer() })
        };
        assert!(!by(|_| true).unwrap(), "the first as long as it answers");
        assert!(by(|second| second).unwrap());
        assert!(only(failover.preferred()) && by(|_| true).unwrap(), "from then on the other");
        assert!(matches!(by(|_| false), Err(Error::System(error)) if error.kind == Kind::Timeout));
        assert!(!by(|second| !second).unwrap(), "and back");
        // An exception is an answer.
        let refused: Result<bool, Error> = failover.call(|reference| match only(reference) {
            true => Ok(true),
            false => Err(SystemException::from(Kind::NoPermission)),
        });
        assert!(matches!(refused, Err(Error::System(error)) if error.kind == Kind::NoPermission));
    }
}
