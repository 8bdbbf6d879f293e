//! Changes of an area as events of a real-time event channel.
//!
//! The reflective memory gives readers the latest value. The event channel notifies consumers of a
//! change. A program that reacts to state wants both. A notifier is a reader with a thread of its
//! own, because a push may wait for its channel: one that hangs delays neither values nor other
//! notifiers. Values that it missed meanwhile are counted in the next event (`Sample::missed`).

use super::attached::AreaReader;
use crate::Error;
use crate::error::{CallerError, PeerError};
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{AreaEvent, EventQoS, Sample as IdlSample, Statistics};
use crate::memory::{ReadError, Sample, State, WaitError};
use crate::node::idl_state;
use isorb::{Any, Reference, SyncScope};
use isorb_cdr::{Encoder, Text};
use isorb_event::servants::stamped::rtec_event_channel_admin::{
    EventChannelRef, ProxyPushConsumerRef, SupplierQOS,
};
use isorb_event::servants::stamped::rtec_event_comm::{self as comm, PushSupplierRef};
use isorb_event::{Data, Event, Header, ProxyPushConsumer};
use isorb_rt::time::now_ns;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The longest time that a thread outlives its notifier.
const CHECK_STOP: Duration = Duration::from_millis(200);
/// The pause after a push that the channel did not accept.
const RETRY_NS: u64 = 1_000_000_000;
/// The interval at which a remote channel is pinged: a push is oneway and would not report its end.
const CHECK_NS: u64 = 5_000_000_000;
/// The time-out of calls to a remote channel.
const CALL: Duration = Duration::from_secs(2);
/// The most notifiers of one library: each has a thread.
pub(super) const NOTIFIERS: usize = 256;

/// A change of an area, on its way to a channel.
#[derive(Debug)]
pub struct Notice<'a> {
    /// The event's type and source, and the time of the change on the clock of values.
    pub header: Header,
    /// The kind of change, and its area.
    pub about: &'a AreaEvent,
    /// The value, if the notifier includes values.
    pub value: &'a [u8],
}

/// The destination of events: a channel in this process ([`ProxyPushConsumer`]) or in another
/// ([`RemoteChannel`]).
pub trait EventSink: Send + 'static {
    /// Pushes an event.
    ///
    /// # Errors
    /// When it was not accepted. The notifier counts it and continues with the next change.
    ///
    /// # Real-time
    /// Runs on the notifier's thread; may block.
    fn push(&mut self, notice: &Notice<'_>) -> Result<(), Error>;
}

impl EventSink for ProxyPushConsumer {
    fn push(&mut self, notice: &Notice<'_>) -> Result<(), Error> {
        let any = packed(notice.about)?;
        let data = Data { pad1: 0, octets: notice.value, any: &any };
        let event = Event { header: notice.header, data, ..Event::default() };
        match ProxyPushConsumer::push(self, &event) {
            pushed if pushed.refused > 0 => Err(PeerError::Full.into()),
            _ => Ok(()),
        }
    }
}

/// A channel by its reference, with TAO's default layout of events. It may end and be started
/// again.
#[derive(Debug)]
pub struct RemoteChannel {
    channel: EventChannelRef,
    proxy: Option<ProxyPushConsumerRef>,
    failed_ns: u64,
    checked_ns: u64,
}

impl RemoteChannel {
    /// Connects as a supplier.
    ///
    /// # Errors
    /// `Unavailable` when the channel does not answer.
    pub fn connect(channel: &EventChannelRef) -> Result<RemoteChannel, Error> {
        let timed = channel.object().with_policies(isorb::Policies {
            sync_scope: Some(SyncScope::WithTransport),
            round_trip_timeout: Some(CALL),
            ..isorb::Policies::default()
        });
        let mut remote =
            RemoteChannel { channel: timed.unchecked_narrow(), proxy: None, failed_ns: 0, checked_ns: 0 };
        remote.proxy = Some(remote.supply()?);
        remote.checked_ns = now_ns();
        Ok(remote)
    }

    fn supply(&self) -> Result<ProxyPushConsumerRef, Error> {
        let nil = || Error::from(PeerError::Protocol("the event channel gave no proxy"));
        let admin = self.channel.for_suppliers()?.ok_or_else(nil)?;
        let proxy = admin.obtain_push_consumer()?.ok_or_else(nil)?;
        proxy
            .connect_push_supplier(None::<&PushSupplierRef>, &SupplierQOS::default())
            .map_err(Error::setup)?;
        Ok(proxy)
    }

    fn proxy(&mut self) -> Result<&ProxyPushConsumerRef, Error> {
        let now = now_ns();
        if let Some(proxy) = &self.proxy
            && now.saturating_sub(self.checked_ns) >= CHECK_NS
        {
            self.checked_ns = now;
            let gone = proxy.object().non_existent();
            if gone.unwrap_or_else(|exception| !exception.is_shortage()) {
                self.proxy = None;
            }
        }
        if self.proxy.is_none() {
            if now.saturating_sub(self.failed_ns) < RETRY_NS {
                return Err(PeerError::Ended("the event channel".into()).into());
            }
            self.failed_ns = now;
            self.proxy = Some(self.supply()?);
            self.checked_ns = now;
        }
        self.proxy.as_ref().ok_or(Error::Peer(PeerError::Protocol("the event channel gave no proxy")))
    }
}

impl EventSink for RemoteChannel {
    fn push(&mut self, notice: &Notice<'_>) -> Result<(), Error> {
        let header = notice.header;
        let event = comm::Event {
            header: comm::EventHeader {
                type_: header.event_type,
                source: header.source,
                ttl: header.ttl,
                creation_time: header.creation_time,
                ec_recv_time: 0,
                ec_send_time: 0,
            },
            data: comm::EventData {
                pad1: 0,
                payload: notice.value.to_vec(),
                any_value: Any::new(notice.about).map_err(Error::setup)?,
            },
        };
        let pushed = self.proxy()?.push(&vec![event]);
        // The channel knows nothing of this process's want of a descriptor, and keeps the proxy.
        if pushed.as_ref().is_err_and(|exception| !exception.is_shortage()) {
            self.proxy = None;
        }
        Ok(pushed?)
    }
}

impl Drop for RemoteChannel {
    fn drop(&mut self) {
        if let Some(proxy) = &self.proxy {
            let _ = proxy.disconnect_push_consumer();
        }
    }
}

/// The counters of a notifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NoticeCounts {
    /// Events that the channel accepted.
    pub pushed: u64,
    /// Events that it did not accept.
    pub failed: u64,
}

/// Pushes an area's changes until it is dropped.
pub struct Notifier {
    shared: Arc<Shared>,
    reader: AreaReader,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    pushed: AtomicU64,
    failed: AtomicU64,
}

impl Notifier {
    pub(super) fn start(
        reader: AreaReader,
        sink: Box<dyn EventSink>,
        what: EventQoS,
        running: Arc<AtomicUsize>,
    ) -> Result<Notifier, Error> {
        let place = NotifierPermit::take(running)?;
        let shared = Arc::new(Shared::default());
        let size = if what.with_value { reader.size() } else { 0 };
        let work = NotifierThread {
            reader: reader.again()?,
            sink,
            what,
            shared: shared.clone(),
            value: vec![0; size],
            last: None,
            due_ns: 0,
            _place: place,
        };
        std::thread::Builder::new().name("memory-events".into()).spawn(move || work.run())?;
        Ok(Notifier { shared, reader })
    }

    /// Its counters so far.
    pub fn counts(&self) -> NoticeCounts {
        NoticeCounts {
            pushed: self.shared.pushed.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
        }
    }

    /// The server's statistics of the attachment.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.reader.statistics()
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").field("area", &self.reader.name()).finish_non_exhaustive()
    }
}

/// A permit for one of the library's threads.
struct NotifierPermit(Arc<AtomicUsize>);

impl NotifierPermit {
    fn take(running: Arc<AtomicUsize>) -> Result<NotifierPermit, Error> {
        let before = running.fetch_add(1, Ordering::Relaxed);
        let place = NotifierPermit(running);
        match before {
            0..NOTIFIERS => Ok(place),
            _ => Err(Error::wrong_size("the number of notifiers", before + 1, NOTIFIERS)),
        }
    }
}

impl Drop for NotifierPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state of the thread.
struct NotifierThread {
    reader: AreaReader,
    sink: Box<dyn EventSink>,
    what: EventQoS,
    shared: Arc<Shared>,
    value: Vec<u8>,
    last: Option<Sample>,
    /// When the next event for a value may be pushed.
    due_ns: u64,
    _place: NotifierPermit,
}

impl NotifierThread {
    fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            match self.reader.wait(CHECK_STOP) {
                Ok(()) => self.value_came(),
                Err(WaitError::Changed(state)) => {
                    self.push_notice(self.what.on_state, Some(state), 0);
                    if state == State::Destroyed {
                        return;
                    }
                    if state.is_final() {
                        std::thread::sleep(CHECK_STOP);
                    }
                }
                Err(WaitError::TimedOut) => {}
                // The memory is corrupted: its values mean nothing.
                Err(WaitError::Damaged) => std::thread::sleep(CHECK_STOP),
            }
        }
    }

    fn value_came(&mut self) {
        let early = self.due_ns.saturating_sub(now_ns());
        if early > 0 {
            // The next event also counts the values that arrive meanwhile.
            std::thread::sleep(Duration::from_nanos(early).min(CHECK_STOP));
            return;
        }
        let read = match self.what.with_value {
            true => self.reader.latest(&mut self.value),
            false => self.reader.read_with(|_| ()).map(|((), sample)| sample),
        };
        match read {
            Ok(sample) => {
                fail_point(FailPoint::NoticeRead);
                self.last = Some(sample);
                self.due_ns = now_ns().saturating_add(self.what.spacing);
                self.push_notice(self.what.on_value, None, sample.len);
            }
            Err(ReadError::Lapped) => {}
            Err(_) => std::thread::sleep(CHECK_STOP),
        }
    }

    fn push_notice(&mut self, event_type: i32, state: Option<State>, len: usize) {
        // No event is pushed after the notifier's end.
        if event_type == 0 || self.shared.stop.load(Ordering::Acquire) {
            return;
        }
        let now = state.or_else(|| self.reader.state());
        let about = AreaEvent {
            area: self.reader.name().into(),
            now: idl_state(now),
            about: self.last.as_ref().map_or(NOTHING, super::rio::idl_sample),
        };
        let header = Header { event_type, source: self.what.source, ttl: 1, creation_time: now_ns() / 100 };
        let value = if self.what.with_value { &self.value[..len] } else { &[] };
        fail_point(FailPoint::NoticeMade);
        let counter = match self.sink.push(&Notice { header, about: &about, value }) {
            Ok(()) => &self.shared.pushed,
            Err(_) => &self.shared.failed,
        };
        fail_point(FailPoint::NoticePushed);
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

const NOTHING: IdlSample = IdlSample { number: 0, source: 0, writer: 0, age: 0, age_bound: 0, missed: 0 };

/// As the channel carries an any: an encapsulation.
fn packed(about: &AreaEvent) -> Result<Vec<u8>, Error> {
    let any = Any::new(about).map_err(Error::setup)?;
    let mut encoder = Encoder::new(Vec::new(), Text::DEFAULT);
    encoder.put(u8::from(cfg!(target_endian = "little")));
    any.write(&mut encoder);
    encoder.flatten().map_err(|_| CallerError::Name.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb::Config;
    use isorb_event::servants::{EventServiceOptions, RtecEventService};
    use isorb_event::{Channel, Limits};
    use isorb_testkit::{RunningOrb, ScarceTransport, retry};

    #[test]
    fn a_proxy_stays_while_this_process_has_no_descriptor() {
        let endpoints = vec![ScarceTransport::ENDPOINT.into()];
        let config = Config { endpoints, ..Config::default() };
        let server = RunningOrb::with_transport(config, ScarceTransport::new());
        // It has no place for a second proxy.
        let limits = Limits { suppliers: 1, ..Limits::default() };
        let channel = Channel::builder().limits(limits).build().unwrap();
        let service = RtecEventService::start(&server, &channel, EventServiceOptions::default()).unwrap();
        let transport = ScarceTransport::new();
        let client = RunningOrb::with_transport(Config::default(), transport.clone());
        let reference: EventChannelRef = client.resolve(&service.object().to_string()).unwrap();
        let mut remote = RemoteChannel::connect(&reference).unwrap();
        let about = AreaEvent::default();
        let push = |remote: &mut RemoteChannel| {
            remote.push(&Notice { header: Header::default(), about: &about, value: &[] })
        };
        push(&mut remote).unwrap();

        transport.set_exhausted(true);
        // Until the end of the connection has arrived.
        isorb_testkit::wait_until("a push fails", || push(&mut remote).is_err());
        // The proxy is checked again.
        remote.checked_ns = 0;
        remote.proxy().unwrap();
        transport.set_exhausted(false);
        retry("it pushes again", || push(&mut remote));

        // The control: a channel that is gone.
        drop(server);
        remote.checked_ns = 0;
        let _ = remote.proxy().unwrap_err();
    }
}
