//! A log service in an ORB of its own, and clients of it.
#![allow(dead_code)]

use isorb::{Config, Orb, Policies, Reference, SyncScope};
use isorb_log_service::cos_lw_log::{LogRef, ProducerLogRecord};
use isorb_log_service::store::FullAction;
use isorb_log_service::{Limits, LogService, LogStore, Settings};
use isorb_testkit::RunningOrb;

/// A running log service.
pub struct Served {
    pub orb: RunningOrb,
    pub service: LogService,
}

impl Served {
    pub fn start(store: LogStore, limits: Limits) -> Served {
        Served::at(store, limits, 0)
    }

    pub fn at(store: LogStore, limits: Limits, port: u16) -> Served {
        let config = Config { endpoints: vec![format!("127.0.0.1:{port}")], ..Config::default() };
        let orb = RunningOrb::with_config(config);
        let service = LogService::start(&orb, store, limits).unwrap();
        Served { orb, service }
    }

    /// In memory, with a size for a few records of [`record`].
    pub fn memory(max_size: u64, full_action: FullAction) -> Served {
        Served::start(LogStore::memory(Settings { max_size, full_action }).unwrap(), Limits::default())
    }

    pub fn port(&self) -> u16 {
        self.orb.endpoint_addresses()[0].1
    }

    pub fn url(&self) -> String {
        format!("corbaloc::1.2@127.0.0.1:{}/LogService", self.port())
    }

    /// The log as another ORB sees it; its writes wait until they are stored.
    pub fn far(&self) -> LogRef {
        waiting(&Orb::with_config(Config::default()).unwrap().resolve(&self.url()).unwrap())
    }
}

/// The log with writes that wait until they are stored.
pub fn waiting(log: &LogRef) -> LogRef {
    let policies = Policies { sync_scope: Some(SyncScope::WithTarget), ..Policies::default() };
    log.object().with_policies(policies).unchecked_narrow()
}

/// A record of 40 octets, for a text of 8.
pub fn record(producer: &str, level: u16, text: &str) -> ProducerLogRecord {
    ProducerLogRecord {
        producer_id: producer.into(),
        producer_name: "n".into(),
        level,
        log_data: text.into(),
    }
}

/// The numbers of all records from one on.
pub fn numbers(log: &LogRef, from: u64) -> Vec<u64> {
    let (mut current, mut how_many) = (from, u32::MAX);
    let records = log.retrieve_records(&mut current, &mut how_many).unwrap();
    assert_eq!(how_many as usize, records.len());
    records.iter().map(|record| record.id).collect()
}
