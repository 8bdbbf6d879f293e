//! Servants of interfaces that are known at run time.

use super::{DynamicOperation, DynamicReply, intern};
use crate::interface::{Interface, Operations, operation_hash};
use crate::servant::{Outcome, Servant};
use crate::upcall::Upcall;
use crate::{Any, Result, SystemException};
use isorb_cdr::{Decoder, Encoder};
use isorb_giop::{Completion, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A servant that gets the operations of its interface as data.
pub trait DynamicServant: Send + Sync + 'static {
    /// Serves a request. The arguments are those of [`DynamicOperation::arguments`]; the reply has
    /// the values of [`DynamicOperation::results`], or one of [`DynamicOperation::exceptions`].
    ///
    /// # Errors
    /// The system exception for the client. It gets BAD_TYPECODE, COMPLETED_YES, for a reply of
    /// other types than the operation's.
    fn invoke(
        &self,
        cx: Upcall<'_>,
        operation: &DynamicOperation,
        arguments: Vec<Any>,
    ) -> Result<DynamicReply>;
}

/// An interface that is known at run time.
#[derive(Debug)]
pub struct DynamicInterface {
    interface: &'static Interface,
    operations: Vec<DynamicOperation>,
}

/// Most interfaces that a process may make at run time: they are kept for good.
const MOST_INTERFACES: usize = 4096;
/// Most operations of one.
const MOST_OPERATIONS: usize = 4096;

struct Handler {
    interface: Arc<DynamicInterface>,
    servant: Arc<dyn DynamicServant>,
}

impl DynamicInterface {
    /// An interface by its repository id, those of all its bases, and all its operations, inherited
    /// ones included.
    ///
    /// # Errors
    /// BAD_PARAM for two operations of one name; IMP_LIMIT for more than 4,096 operations, and when
    /// the process has made 4,096 interfaces, which it keeps.
    ///
    /// # Real-time
    /// Allocates, and searches for a hash function.
    pub fn new(id: &str, bases: &[&str], operations: Vec<DynamicOperation>) -> Result<DynamicInterface> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let names: Vec<&'static str> = operations.iter().map(DynamicOperation::name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SystemException::from(Kind::BadParam)
                .detail(format!("the interface {id} has two operations {}", twice[0])));
        }
        let too_many = |what: String| SystemException::from(Kind::ImpLimit).detail(what);
        if names.len() > MOST_OPERATIONS {
            return Err(too_many(format!("the interface {id} has more than {MOST_OPERATIONS} operations")));
        }
        let (seed, slots) =
            table(&names).ok_or_else(|| too_many(format!("no hash function fits the operations of {id}")))?;
        let (id, bases) = (intern(id)?, bases.iter().map(|base| intern(base)).collect::<Result<Vec<_>>>()?);
        if MADE.fetch_add(1, Ordering::Relaxed) >= MOST_INTERFACES {
            MADE.fetch_sub(1, Ordering::Relaxed);
            return Err(too_many(format!("the process has made {MOST_INTERFACES} interfaces at run time")));
        }
        let interface = Interface {
            id,
            bases: bases.leak(),
            operations: Operations::new(names.leak(), seed, slots.leak()),
        };
        Ok(DynamicInterface { interface: Box::leak(Box::new(interface)), operations })
    }

    /// The operation of this name.
    pub fn operation(&self, name: &str) -> Option<&DynamicOperation> {
        self.operations.get(usize::from(self.interface.operations.find(name)?))
    }

    /// A servant of this interface, for [`Poa::activate_object`](crate::Poa::activate_object).
    ///
    /// # Real-time
    /// Allocates. So does each of its requests, for the values of arguments and results.
    pub fn servant(self: &Arc<Self>, servant: Arc<dyn DynamicServant>) -> Servant {
        let handler = Handler { interface: self.clone(), servant };
        Servant::from_parts(
            Arc::new(handler),
            |object, index, cx, arguments, results| match object.downcast_ref::<Handler>() {
                Some(handler) => handler.dispatch(index, cx, arguments, results),
                None => Err(Kind::BadOperation.into()),
            },
            self.interface,
        )
    }
}

impl Handler {
    fn dispatch<'u>(
        &self,
        index: u16,
        cx: Upcall<'u>,
        arguments: &mut Decoder<'u>,
        results: &mut Encoder<'u>,
    ) -> Result<Outcome> {
        let operation = self.interface.operations.get(usize::from(index)).ok_or(Kind::BadOperation)?;
        let read = operation.arguments().map(|(_, type_code)| Any::take(type_code.clone(), arguments));
        let read = read.collect::<isorb_cdr::Result<Vec<Any>>>()?;
        let reply = cx.keep(self.servant.invoke(cx, operation, read)?)?;
        match reply {
            DynamicReply::Results(values) => {
                let fit = operation.results().count() == values.len()
                    && operation.results().zip(values).all(|((_, type_code), value)| value.holds(type_code));
                if !fit {
                    return Err(other_type(operation, "results"));
                }
                values.iter().for_each(|value| value.write_value(results));
                Ok(Outcome::Results)
            }
            DynamicReply::Exception(value) => {
                if !operation.exceptions().iter().any(|exception| value.holds(exception)) {
                    return Err(other_type(operation, "an exception"));
                }
                results.string(value.type_code().id().map_err(|_| other_type(operation, "an exception"))?);
                value.write_value(results);
                Ok(Outcome::Exception)
            }
        }
    }
}

#[cold]
fn other_type(operation: &DynamicOperation, what: &str) -> SystemException {
    let name = operation.name();
    SystemException::new(Kind::BadTypecode, 0, Completion::Yes)
        .detail(format!("the servant replied to {name} with {what} of other types than the operation's"))
}

/// A perfect hash of names that differ: its seed and table.
fn table(names: &[&str]) -> Option<(u32, Vec<u16>)> {
    let least = (2 * names.len()).next_power_of_two();
    let sizes = std::iter::successors(Some(least), |size| Some(2 * size)).take_while(|size| *size <= 1 << 24);
    sizes.flat_map(|size| (0..64).map(move |seed| (size, seed))).find_map(|(size, seed)| {
        let mut slots = vec![u16::MAX; size];
        for (index, name) in (0..).zip(names) {
            let slot = &mut slots[operation_hash(seed, name.as_bytes()) as usize & (size - 1)];
            if *slot != u16::MAX {
                return None;
            }
            *slot = index;
        }
        Some((seed, slots))
    })
}
