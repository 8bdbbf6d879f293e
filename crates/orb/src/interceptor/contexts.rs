//! Service contexts of interceptors, in memory that is kept from request to request.

use crate::{Result, SystemException};
use isorb_giop::message::{ServiceContext, ServiceContexts};
use isorb_giop::{Kind, minor};
use isorb_scope::Scope;
use std::cell::RefCell;

/// Limit of contexts that interceptors add to one message.
const MAX_CONTEXTS: usize = 32;
/// Sets that a thread keeps for later requests.
const MAX_SPARE: usize = 8;
/// A set larger than this many bytes is freed.
const STAY: usize = 64 << 10;

#[derive(Default)]
struct Store {
    bytes: Vec<u8>,
    /// Id, start and end of the octets.
    entries: Vec<(u32, usize, usize)>,
}

thread_local! {
    static SPARE: RefCell<Vec<Store>> = const { RefCell::new(Vec::new()) };
}

/// A set of service contexts of one message.
pub(crate) struct Contexts(Store);

impl Contexts {
    /// An empty set.
    ///
    /// # Real-time
    /// Allocates nothing; a set that this thread used before still has its memory.
    pub fn new() -> Contexts {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        Contexts(spare.unwrap_or_default())
    }

    /// Adds one.
    ///
    /// # Errors
    /// BAD_INV_ORDER with minor code OMG|15 when there is one with this id and `replace` is false;
    /// IMP_LIMIT for too many.
    pub fn add(&mut self, id: u32, data: &[u8], replace: bool) -> Result<()> {
        let Store { bytes, entries } = &mut self.0;
        let place = match entries.iter().position(|(known, ..)| *known == id) {
            Some(_) if !replace => {
                return Err(SystemException::from(Kind::BadInvOrder)
                    .minor(minor::BAD_INV_ORDER_CONTEXT_EXISTS)
                    .detail(format!(
                        "there is a service context {id} already; say replace to take its place"
                    )));
            }
            Some(place) => place,
            None if entries.len() == MAX_CONTEXTS => {
                return Err(SystemException::from(Kind::ImpLimit)
                    .detail(format!("interceptors may add {MAX_CONTEXTS} service contexts to a message")));
            }
            None => {
                entries.push((id, 0, 0));
                entries.len() - 1
            }
        };
        entries[place] = (id, bytes.len(), bytes.len() + data.len());
        bytes.extend_from_slice(data);
        Ok(())
    }

    /// The octets of the one with this id.
    pub fn get(&self, id: u32) -> Option<&[u8]> {
        self.iter().find(|context| context.id == id).map(|context| context.data)
    }

    pub fn is_empty(&self) -> bool {
        self.0.entries.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = ServiceContext<'_>> {
        let Store { bytes, entries } = &self.0;
        entries.iter().map(|(id, from, to)| ServiceContext { id: *id, data: &bytes[*from..*to] })
    }

    /// Copies the contexts of a message before it is freed. The first of several with one id
    /// counts.
    pub fn copy(&mut self, of: &ServiceContexts<'_>) {
        for context in of.iter().take(MAX_CONTEXTS) {
            let _ = self.add(context.id, context.data, false);
        }
    }
}

impl Drop for Contexts {
    fn drop(&mut self) {
        let mut store = std::mem::take(&mut self.0);
        if store.entries.capacity() == 0 || store.bytes.capacity() > STAY {
            return;
        }
        store.bytes.clear();
        store.entries.clear();
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MAX_SPARE {
                spare.push(store);
            }
        });
    }
}

/// The ORB's own contexts of a request, followed by those of interceptors.
///
/// # Real-time
/// A test if no interceptor added any; else a list in the scope.
#[inline]
pub(crate) fn join<'x>(
    own: &'x [ServiceContext<'x>],
    added: Option<&'x Contexts>,
    scope: &'x Scope<'_>,
) -> Result<&'x [ServiceContext<'x>]> {
    match added {
        Some(added) if !added.is_empty() => joined(own, added, scope),
        _ => Ok(own),
    }
}

#[cold]
fn joined<'x>(
    own: &'x [ServiceContext<'x>],
    added: &'x Contexts,
    scope: &'x Scope<'_>,
) -> Result<&'x [ServiceContext<'x>]> {
    let mut all = own.iter().copied().chain(added.iter());
    let none = || SystemException::from(Kind::Internal);
    let joined = scope.fill(own.len() + added.0.entries.len(), |_| all.next().ok_or_else(none))?;
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_context_an_id() {
        let mut contexts = Contexts::new();
        contexts.add(7, b"seven", false).unwrap();
        contexts.add(8, b"eight", true).unwrap();
        let twice = contexts.add(7, b"again", false).unwrap_err();
        assert_eq!((twice.kind, twice.minor), (Kind::BadInvOrder, minor::BAD_INV_ORDER_CONTEXT_EXISTS));
        contexts.add(7, b"new", true).unwrap();
        assert_eq!(contexts.get(7), Some(&b"new"[..]));
        assert_eq!(contexts.get(8), Some(&b"eight"[..]));
        assert_eq!(contexts.get(9), None);
        assert_eq!(contexts.iter().map(|context| context.id).collect::<Vec<_>>(), [7, 8]);
    }

    #[test]
    fn their_number_is_bounded() {
        let mut contexts = Contexts::new();
        for id in 0..MAX_CONTEXTS as u32 {
            contexts.add(id, &[], false).unwrap();
        }
        assert_eq!(contexts.add(99, &[], false).unwrap_err().kind, Kind::ImpLimit);
        contexts.add(3, b"x", true).unwrap();
    }

    #[test]
    fn a_kept_set_is_empty() {
        let mut contexts = Contexts::new();
        contexts.add(7, b"seven", false).unwrap();
        drop(contexts);
        assert!(Contexts::new().is_empty());
    }
}
