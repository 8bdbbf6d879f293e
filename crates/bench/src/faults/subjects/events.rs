//! Consumers that connect, and get the events that a supplier pushes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use isorb::{Orb, Upcall};
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};

use super::{Client, Connected, text, within};

/// An event that has not come then is lost. A push to a consumer is tried for half a second.
const DELIVERY: Duration = Duration::from_secs(2);
/// A consumer that gets none of so many is.
const PUSHES: u32 = 4;
/// The first type of events that users may take.
const FIRST_TYPE: i32 = 16;

/// Keeps the number of the latest event.
#[derive(Default)]
struct Latest(AtomicU64);

impl comm::PushConsumer for Latest {
    fn push(&self, _: Upcall<'_>, data: comm::EventSetView<'_>) -> isorb::Result<()> {
        for event in data {
            self.0.fetch_max(event.header.creation_time, Ordering::Relaxed);
        }
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> isorb::Result<()> {
        Ok(())
    }
}

struct Events {
    orb: Orb,
    channel: admin::EventChannelRef,
    supplier: Option<admin::ProxyPushConsumerRef>,
    connected: BTreeMap<u32, (admin::ProxyPushSupplierRef, Arc<Latest>)>,
    pushed: u64,
}

pub(super) fn connect(orb: &Orb, url: &str) -> Connected {
    let channel = orb.resolve(url).map_err(text)?;
    let (supplier, connected) = (None, BTreeMap::new());
    Ok(Box::new(Events { orb: orb.clone(), channel, supplier, connected, pushed: 0 }))
}

fn event(number: u32, pushed: u64) -> comm::Event {
    let type_ = FIRST_TYPE + number as i32;
    let header = comm::EventHeader { type_, source: 1, ttl: 4, creation_time: pushed, ..Default::default() };
    comm::Event { header, data: Default::default() }
}

impl Events {
    /// A supplier that does not say what it pushes.
    fn supplier(&mut self) -> Result<&admin::ProxyPushConsumerRef, String> {
        if self.supplier.is_none() {
            let proxies = self.channel.for_suppliers().map_err(text)?.ok_or("nil")?;
            let proxy = proxies.obtain_push_consumer().map_err(text)?.ok_or("nil")?;
            proxy
                .connect_push_supplier(None::<&comm::PushSupplierRef>, &admin::SupplierQOS::default())
                .map_err(|error| format!("{error:?}"))?;
            self.supplier = Some(proxy);
        }
        self.supplier.as_ref().ok_or_else(|| "nil".to_owned())
    }
}

impl Client for Events {
    fn write(&mut self, number: u32) -> Result<(), String> {
        // Its registration is a write, and a read must be none.
        self.supplier()?;
        let latest = Arc::new(Latest::default());
        let poa = self.orb.root_poa().map_err(text)?;
        let consumer: comm::PushConsumerRef = poa.activate(latest.clone()).map_err(text)?;
        let mut wanted = event(number, 0);
        // From any source.
        wanted.header.source = 0;
        let dependencies = vec![admin::Dependency { event: wanted, rt_info: 0 }];
        let qos = admin::ConsumerQOS { dependencies, is_gateway: false };
        let proxies = self.channel.for_consumers().map_err(text)?.ok_or("nil")?;
        let proxy = proxies.obtain_push_supplier().map_err(text)?.ok_or("nil")?;
        proxy.connect_push_consumer(&consumer, &qos).map_err(|error| format!("{error:?}"))?;
        self.connected.insert(number, (proxy, latest));
        Ok(())
    }

    fn read(&mut self, number: u32) -> Result<bool, String> {
        let Some((_, latest)) = self.connected.get(&number) else { return Ok(false) };
        let latest = Arc::clone(latest);
        // An event on a connection that breaks is lost, so that several go.
        for _ in 0..PUSHES {
            self.pushed += 1;
            let pushed = self.pushed;
            self.supplier()?.push(&vec![event(number, pushed)]).map_err(text)?;
            let got = || Ok((latest.0.load(Ordering::Relaxed) >= pushed).then_some(()));
            if within(DELIVERY, got)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn remove(&mut self, number: u32) -> Result<(), String> {
        let Some((proxy, _)) = self.connected.remove(&number) else { return Ok(()) };
        proxy.disconnect_push_supplier().map_err(text)?;
        // A supplier without a reference is not asked whether it exists, and would stay.
        match self.supplier.take_if(|_| self.connected.is_empty()) {
            Some(supplier) => supplier.disconnect_push_consumer().map_err(text),
            None => Ok(()),
        }
    }
}
