//! Registrations of remote consumers and suppliers in a file, so that they outlive the process.

use super::any;
use crate::content::{ContentFilter, ContentLimits};
use crate::dispatch::Strategy;
use crate::event::Header;
use crate::filter::Dependency;
use crate::modules::Configuration;
use crate::ownership::Ownership;
use isorb::poa::ObjectId;
use isorb::{Any, Completion, Kind, SystemException, TypeCode};
use isorb_store::redb::{
    self, ReadTransaction, ReadableTable, TableDefinition, TableHandle, WriteTransaction,
};
use isorb_store::{Database, Fault, OpenError, Schema, copy_table, missing_table};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The connected proxies of a service, in a file.
///
/// A registration is on disk before the peer learns that it is connected. After a restart, a
/// `kill -9` or a loss of power, the service serves the proxies of all such peers, under their old
/// references. While the disk takes no writes, peers are not connected (PERSIST_STORE), and events
/// go on.
#[derive(Debug, Clone)]
pub struct RegistrationStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    database: Database<Registrations>,
    /// The first octets of the ids that this process gives: no other process gave them.
    stamp: u64,
    next: AtomicU32,
}

/// A connected proxy.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Registration {
    pub role: Role,
    /// The stringified reference of the peer; empty for none.
    pub reference: String,
    pub gateway: bool,
    pub suspended: bool,
    /// A consumer's dependencies, or a supplier's publications.
    pub dependencies: Vec<Dependency>,
    /// A consumer's condition on the payload.
    pub content: Option<StoredContent>,
    /// A consumer's time-based filter.
    pub min_separation: Duration,
    /// A consumer's deadline of each instance.
    pub instance_period: Option<Duration>,
    /// How a supplier competes for instances.
    pub ownership: Option<Ownership>,
}

/// The condition of a content filter, as it is stored.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct StoredContent {
    pub expression: String,
    /// The type code of the payload, as an encapsulated any.
    pub payload: Vec<u8>,
}

impl StoredContent {
    pub fn of(filter: &ContentFilter) -> StoredContent {
        let payload = any::pack_value(&Any::from(filter.payload().clone()));
        StoredContent { expression: filter.expression().to_owned(), payload }
    }

    /// Compiles it again.
    ///
    /// # Errors
    /// A sentence: the limits changed, or the store holds another version's.
    pub fn compile(&self, limits: ContentLimits) -> Result<ContentFilter, Box<dyn std::error::Error>> {
        let payload: TypeCode =
            any::unpack(&self.payload).get().ok_or("its content filter has no type code")?;
        Ok(ContentFilter::within(limits, &self.expression, &payload)?)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Consumer,
    Supplier,
}

/// Flags, the peer's reference, and the list of dependencies.
type Record<'r> = (u8, &'r str, &'r [u8]);

/// Records by the proxy's id.
const TABLE: TableDefinition<'_, &[u8], Record<'static>> = TableDefinition::new("event-registrations-1");

/// In the flags: the list of dependencies ends with eight octets, the consumer's time-based filter
/// in nanoseconds.
const SEPARATED: u8 = 1 << 3;

/// In the flags: before those octets the list ends with what the peer declares of instances. A
/// consumer's eight octets are their deadline in nanoseconds; a supplier's twelve are its strength
/// and its lease in nanoseconds.
const INSTANCES: u8 = 1 << 5;

/// Octets of a dependency: type, source, creation time, handle.
const ENTRY: usize = 20;

/// The flag of a record with a content filter. There the list of dependencies is preceded by its
/// length in octets, and followed by the expression, preceded by its length, and the type code.
const HAS_CONTENT: u8 = 1 << 4;

/// The id and the flags of the record of the channel's modules. No proxy has an empty id.
const MODULES: &[u8] = &[];
const MODULES_FLAGS: u8 = 1 << 7;

struct Registrations;

impl Schema for Registrations {
    fn create(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        transaction.open_table(TABLE)?;
        Ok(())
    }

    fn verify(&self, transaction: &ReadTransaction) -> Result<(), OpenError> {
        let table = transaction.open_table(TABLE).map_err(|_| missing_table(transaction, TABLE.name()))?;
        for entry in table.iter().map_err(Fault::from)? {
            let (id, record) = entry.map_err(Fault::from)?;
            let known = match id.value() {
                MODULES => read_modules(record.value()).is_some(),
                _ => Registration::read(record.value()).is_some(),
            };
            known.then_some(()).ok_or(OpenError::Corrupt)?;
        }
        Ok(())
    }

    fn copy(&self, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), redb::Error> {
        copy_table(from, into, TABLE)
    }
}

impl RegistrationStore {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// Those of [`Database::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<RegistrationStore, OpenError> {
        let database = Database::open(path, Registrations)?;
        let (stamp, next) = (isorb_rt::random_u64(), AtomicU32::new(0));
        Ok(RegistrationStore(Arc::new(Inner { database, stamp, next })))
    }

    /// Keeps the channel's modules for the next process.
    ///
    /// # Errors
    /// PERSIST_STORE: the disk does not take them.
    pub fn put_modules(
        &self,
        configuration: Configuration,
        strategy: Strategy,
    ) -> Result<(), SystemException> {
        let octets = write_modules(configuration, strategy);
        let put = |transaction: &WriteTransaction| -> Result<(), Fault> {
            transaction.open_table(TABLE)?.insert(MODULES, (MODULES_FLAGS, "", &octets[..]))?;
            Ok(())
        };
        self.0.database.write(put).map_err(|fault| failed(&fault))
    }

    /// The modules that were put last.
    ///
    /// # Errors
    /// PERSIST_STORE: the file cannot be read.
    pub fn modules(&self) -> Result<Option<(Configuration, Strategy)>, SystemException> {
        let read = |transaction: &ReadTransaction| -> Result<_, Fault> {
            let table = transaction.open_table(TABLE)?;
            let record = table.get(MODULES)?;
            Ok(record.and_then(|record| read_modules(record.value())))
        };
        self.0.database.read(read).map_err(|fault| failed(&fault))
    }

    /// An id that no proxy had.
    pub(super) fn new_id(&self) -> ObjectId {
        let mut id = self.0.stamp.to_be_bytes().to_vec();
        id.extend(self.0.next.fetch_add(1, Relaxed).to_be_bytes());
        ObjectId::from(&id[..])
    }

    pub(super) fn put(&self, id: &ObjectId, registration: &Registration) -> Result<(), SystemException> {
        let list = registration.list();
        let put = |transaction: &WriteTransaction| -> Result<(), Fault> {
            let record = (registration.flags(), registration.reference.as_str(), &list[..]);
            transaction.open_table(TABLE)?.insert(id.as_bytes(), record)?;
            Ok(())
        };
        self.0.database.write(put).map_err(|fault| failed(&fault))
    }

    /// Forgets a proxy. After a fault it comes back with the next process, where the ping of its
    /// peer removes it.
    pub(super) fn remove(&self, id: &ObjectId) {
        let remove = |transaction: &WriteTransaction| -> Result<(), Fault> {
            transaction.open_table(TABLE)?.remove(id.as_bytes())?;
            Ok(())
        };
        // The store logs the first fault.
        let _ = self.0.database.write(remove);
    }

    /// Forgets all proxies: the channel was destroyed.
    pub(super) fn clear(&self) {
        let clear = |transaction: &WriteTransaction| -> Result<(), Fault> {
            transaction.open_table(TABLE)?.retain(|id, _| id == MODULES)?;
            Ok(())
        };
        let _ = self.0.database.write(clear);
    }

    pub(super) fn all(&self) -> Result<Vec<(ObjectId, Registration)>, SystemException> {
        let read = |transaction: &ReadTransaction| -> Result<_, Fault> {
            let table = transaction.open_table(TABLE)?;
            let proxies = table.range(&[0][..]..)?;
            let entries = proxies.map(|entry| {
                let (id, record) = entry?;
                let registration = Registration::read(record.value()).ok_or(Fault::Corrupt)?;
                Ok((ObjectId::from(id.value()), registration))
            });
            entries.collect()
        };
        self.0.database.read(read).map_err(|fault| failed(&fault))
    }
}

/// One octet each, and the number of threads.
fn write_modules(configuration: Configuration, strategy: Strategy) -> [u8; 6] {
    let configuration = match configuration {
        Configuration::Full => 0,
        Configuration::ForwardingDiscriminator => 1,
        Configuration::SubscriptionAndFiltering => 2,
        Configuration::Broadcaster => 3,
    };
    let (strategy, threads) = match strategy {
        Strategy::Direct => (0, 0),
        Strategy::SingleThreaded => (1, 0),
        Strategy::Threads { per_level } => (2, per_level),
        Strategy::Upcalls => (3, 0),
        Strategy::ByHand { upcalls } => (4, usize::from(upcalls)),
    };
    let [a, b, c, d] = u32::try_from(threads).unwrap_or(u32::MAX).to_be_bytes();
    [configuration, strategy, a, b, c, d]
}

/// `None` for a record that [`write_modules`] never makes.
fn read_modules((flags, reference, octets): Record<'_>) -> Option<(Configuration, Strategy)> {
    let &[configuration, strategy, ref threads @ ..] = octets else { return None };
    let threads = u32::from_be_bytes(threads.try_into().ok()?) as usize;
    if flags != MODULES_FLAGS || !reference.is_empty() {
        return None;
    }
    let configuration = match configuration {
        0 => Configuration::Full,
        1 => Configuration::ForwardingDiscriminator,
        2 => Configuration::SubscriptionAndFiltering,
        3 => Configuration::Broadcaster,
        _ => return None,
    };
    let strategy = match (strategy, threads) {
        (0, 0) => Strategy::Direct,
        (1, 0) => Strategy::SingleThreaded,
        (2, 1..) => Strategy::Threads { per_level: threads },
        (3, 0) => Strategy::Upcalls,
        (4, 0 | 1) => Strategy::ByHand { upcalls: threads == 1 },
        _ => return None,
    };
    Some((configuration, strategy))
}

fn failed(fault: &Fault) -> SystemException {
    SystemException::new(Kind::PersistStore, 0, Completion::No).detail(fault.to_string())
}

impl Registration {
    fn flags(&self) -> u8 {
        let content = if self.content.is_some() { HAS_CONTENT } else { 0 };
        let is_for_instances = match self.role {
            Role::Consumer => self.instance_period.is_some(),
            Role::Supplier => self.ownership.is_some(),
        };
        u8::from(self.role == Role::Supplier)
            | u8::from(self.gateway) << 1
            | u8::from(self.suspended) << 2
            | u8::from(!self.min_separation.is_zero()) << 3
            | u8::from(is_for_instances) << 5
            | content
    }

    fn list(&self) -> Vec<u8> {
        let entry = |Dependency { header, rt_info }: &Dependency| {
            let mut octets = [0; ENTRY];
            octets[..4].copy_from_slice(&header.event_type.to_be_bytes());
            octets[4..8].copy_from_slice(&header.source.to_be_bytes());
            octets[8..16].copy_from_slice(&header.creation_time.to_be_bytes());
            octets[16..].copy_from_slice(&rt_info.to_be_bytes());
            octets
        };
        let mut list: Vec<u8> = self.dependencies.iter().flat_map(entry).collect();
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).to_be_bytes();
        match (self.role, self.instance_period, self.ownership) {
            (Role::Consumer, Some(period), _) => list.extend(ns(period)),
            (Role::Supplier, _, Some(ownership)) => {
                list.extend(ownership.strength.to_be_bytes());
                list.extend(ns(ownership.lease));
            }
            _ => {}
        }
        if !self.min_separation.is_zero() {
            list.extend(ns(self.min_separation));
        }
        let Some(content) = &self.content else { return list };
        let length = |octets: &[u8]| u32::try_from(octets.len()).unwrap_or(u32::MAX).to_be_bytes();
        let expression = content.expression.as_bytes();
        [&length(&list), &list[..], &length(expression), expression, &content.payload].concat()
    }

    /// `None` for a record that no registration makes.
    fn read((flags, reference, list): Record<'_>) -> Option<Registration> {
        let (list, content) = match flags & HAS_CONTENT {
            0 => (list, None),
            _ => {
                let (list, rest) = counted(list)?;
                let (expression, payload) = counted(rest)?;
                let expression = std::str::from_utf8(expression).ok()?.to_owned();
                (list, Some(StoredContent { expression, payload: payload.to_vec() }))
            }
        };
        let (list, separation) = match flags & SEPARATED {
            0 => (list, 0),
            _ => {
                let (list, separation) = list.split_last_chunk::<8>()?;
                (list, Some(u64::from_be_bytes(*separation)).filter(|separation| *separation != 0)?)
            }
        };
        let role = if flags & 1 == 0 { Role::Consumer } else { Role::Supplier };
        let (mut instance_period, mut ownership) = (None, None);
        let list = match (flags & INSTANCES, role) {
            (0, _) => list,
            (_, Role::Consumer) => {
                let (list, period) = list.split_last_chunk::<8>()?;
                instance_period = Some(Duration::from_nanos(u64::from_be_bytes(*period)));
                list
            }
            (_, Role::Supplier) => {
                let (list, lease) = list.split_last_chunk::<8>()?;
                let (list, strength) = list.split_last_chunk::<4>()?;
                let lease = Duration::from_nanos(u64::from_be_bytes(*lease));
                ownership = Some(Ownership { strength: i32::from_be_bytes(*strength), lease });
                list
            }
        };
        let (entries, rest) = list.as_chunks::<ENTRY>();
        if flags & !(HAS_CONTENT | SEPARATED | INSTANCES) > 7 || !rest.is_empty() {
            return None;
        }
        let number = |octets: &[u8]| octets.try_into().map_or(0, i32::from_be_bytes);
        let entry = |octets: &[u8; ENTRY]| Dependency {
            header: Header {
                event_type: number(&octets[..4]),
                source: number(&octets[4..8]),
                creation_time: octets[8..16].try_into().map_or(0, u64::from_be_bytes),
                ..Header::default()
            },
            rt_info: number(&octets[16..]),
        };
        Some(Registration {
            role,
            gateway: flags & 2 != 0,
            suspended: flags & 4 != 0,
            reference: reference.to_owned(),
            dependencies: entries.iter().map(entry).collect(),
            content,
            min_separation: Duration::from_nanos(separation),
            instance_period,
            ownership,
        })
    }
}

/// Octets that are preceded by their length, and what follows.
fn counted(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = octets.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_come_back_from_their_records() {
        let point = [("x", TypeCode::DOUBLE)];
        let point = TypeCode::new_struct("IDL:Point:1.0", "Point", &point).unwrap();
        let filter = ContentFilter::new("x > 0.5", &point).unwrap();
        let dependency =
            Dependency { header: Header { event_type: 20, source: 7, ..Header::default() }, rt_info: 3 };
        let plain = Registration {
            role: Role::Consumer,
            reference: "IOR:00".to_owned(),
            gateway: false,
            suspended: true,
            dependencies: vec![
                Dependency { header: Header { ttl: 1, ..dependency.header }, ..dependency };
                2
            ],
            content: None,
            min_separation: Duration::ZERO,
            instance_period: None,
            ownership: None,
        };
        let filtered = Registration { content: Some(StoredContent::of(&filter)), ..plain.clone() };
        let both = Registration { min_separation: Duration::from_millis(5), ..filtered.clone() };
        let all = Registration { instance_period: Some(Duration::from_secs(1)), ..both.clone() };
        for registration in [plain, filtered.clone(), both, all] {
            let list = registration.list();
            let read = Registration::read((registration.flags(), &registration.reference, &list));
            assert_eq!(read, Some(registration));
        }
        let compiled = filtered.content.as_ref().unwrap().compile(ContentLimits::default()).unwrap();
        assert_eq!(compiled, filter);
        let list = filtered.list();
        for length in 0..list.len() - filtered.content.as_ref().unwrap().payload.len() {
            assert_eq!(Registration::read((filtered.flags(), "", &list[..length])), None, "{length}");
        }
    }

    #[test]
    fn a_registration_is_read_as_it_was_written() {
        let header = Header { event_type: 20, source: 1, creation_time: 7, ..Header::default() };
        let plain = Registration {
            role: Role::Consumer,
            reference: "IOR:00".to_owned(),
            gateway: true,
            suspended: true,
            dependencies: vec![Dependency { header, rt_info: 3 }, Dependency { header, rt_info: 0 }],
            content: None,
            min_separation: Duration::ZERO,
            instance_period: None,
            ownership: None,
        };
        let separated = Registration { min_separation: Duration::from_millis(5), ..plain.clone() };
        let watching = Registration { instance_period: Some(Duration::from_millis(40)), ..plain.clone() };
        let ownership = Some(Ownership { strength: -3, lease: Duration::from_millis(200) });
        let owning = Registration { role: Role::Supplier, ownership, ..plain.clone() };
        for registration in [&plain, &separated, &watching, &owning] {
            let list = registration.list();
            let read =
                |list: &[u8]| Registration::read((registration.flags(), &registration.reference, list));
            assert_eq!(read(&list).as_ref(), Some(registration));
            assert!(
                (0..list.len())
                    .filter(|cut| cut % ENTRY != list.len() % ENTRY)
                    .all(|cut| read(&list[..cut]).is_none())
            );
        }
        // One without a filter is as before.
        assert_eq!((plain.flags(), plain.list().len()), (6, 2 * ENTRY));
        assert_eq!(Registration::read((SEPARATED, "", &[0; 8])), None, "a filter of no time is none");
    }
}
