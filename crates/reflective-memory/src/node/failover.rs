//! Another server by each of its addresses: a call that gets no answer by one is made again by the next.

use super::timed;
use crate::Error;
use isorb::{Kind, Object, Reference};
use isorb_giop::component::TAG_ALTERNATE_IIOP_ADDRESS;
use isorb_giop::{IiopProfile, Ior};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// At most so many addresses of one server are tried.
const MOST: usize = 4;

/// A reference that names several addresses, and a reference to each of the others. Operations that are called by it can be repeated: their
/// answer may have been lost.
#[derive(Clone, Debug)]
pub(crate) struct FailoverRef<T> {
    ways: Vec<T>,
    /// The one that answered last; shared by all that lead to the same server.
    best: Arc<AtomicUsize>,
}

impl<T: Reference> FailoverRef<T> {
    /// Each may take so long to answer.
    pub fn of(reference: &T, answer: Duration, best: Arc<AtomicUsize>) -> FailoverRef<T> {
        let mut ways = vec![timed(reference, answer)];
        ways.extend(others(reference.object()).map(|object| timed(&object.unchecked_narrow(), answer)));
        FailoverRef { ways, best }
    }

    /// The same with another patience.
    pub fn within(&self, answer: Duration) -> FailoverRef<T> {
        let ways = self.ways.iter().map(|way| timed(way, answer)).collect();
        FailoverRef { ways, best: self.best.clone() }
    }

    /// Do both lead to the same object?
    pub fn is_of_same(&self, other: &FailoverRef<T>) -> bool {
        self.ways[0].object() == other.ways[0].object()
    }

    /// Is there more than one?
    pub fn are_several(&self) -> bool {
        self.ways.len() > 1
    }

    /// The one that answered last.
    pub fn best(&self) -> &T {
        &self.ways[self.best.load(Ordering::Relaxed) % self.ways.len()]
    }

    /// Calls by the best, and where that gets no answer by the others.
    ///
    /// # Errors
    /// What the call ends in by the best where no other gets an answer.
    pub fn call<R, E>(&self, call: impl Fn(&T) -> Result<R, E>) -> Result<R, Error>
    where
        Error: From<E>,
    {
        let first = self.best.load(Ordering::Relaxed);
        let mut unanswered = None;
        for way in (0..self.ways.len()).map(|offset| (first + offset) % self.ways.len()) {
            match call(&self.ways[way]).map_err(Error::from) {
                Err(error) if is_silence(&error) => {
                    unanswered.get_or_insert(error);
                }
                answer => {
                    self.best.store(way, Ordering::Relaxed);
                    return answer;
                }
            }
        }
        // There is one way at least.
        Err(unanswered.unwrap_or_else(|| Error::unavailable("there is no way")))
    }
}

fn is_silence(error: &Error) -> bool {
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
    use isorb::{Config, Orb, SystemException};

    #[test]
    fn what_gets_no_answer_by_one_address_is_tried_by_the_next() {
        let orb = Orb::with_config(Config::default()).unwrap();
        let url = "corbaloc::1.2@10.1.2.3:7,:1.2@10.1.2.4:8,:1.2@10.1.2.3:7/node";
        let reference: CRM_CommRef = orb.string_to_object(url).unwrap().unchecked_narrow();
        let ways = FailoverRef::of(&reference, Duration::from_secs(1), Arc::default());
        assert!(ways.are_several());
        let hosts = |reference: &CRM_CommRef| {
            let profiles = reference.object().ior().iiop_profiles();
            profiles.flat_map(|profile| profile.unwrap().addresses().collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        let only = |reference: &CRM_CommRef| hosts(reference) == [("10.1.2.4".to_owned(), 8)];
        let silent = || Err(SystemException::from(Kind::Timeout));
        let by =
            |good: fn(bool) -> bool| ways.call(|way| if good(only(way)) { Ok(only(way)) } else { silent() });
        assert!(!by(|_| true).unwrap(), "the first as long as it answers");
        assert!(by(|second| second).unwrap());
        assert!(only(ways.best()) && by(|_| true).unwrap(), "from then on the other");
        assert!(matches!(by(|_| false), Err(Error::System(error)) if error.kind == Kind::Timeout));
        assert!(!by(|second| !second).unwrap(), "and back");
        // An answer is an answer, whatever it says.
        let refused: Result<bool, Error> = ways.call(|way| match only(way) {
            true => Ok(true),
            false => Err(SystemException::from(Kind::NoPermission)),
        });
        assert!(matches!(refused, Err(Error::System(error)) if error.kind == Kind::NoPermission));
    }
}
