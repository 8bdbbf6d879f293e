//! Records of a log that are written and retrieved.

use isorb::{Orb, Policies, Reference, SyncScope};
use isorb_log_service::cos_lw_log::{ADMINISTRATIVE_EVENT, LogRef, ProducerLogRecord};

use super::{Client, Connected, text};

struct Records(LogRef);

pub(super) fn connect(orb: &Orb, url: &str) -> Connected {
    let log: LogRef = orb.resolve(url).map_err(text)?;
    // The standard's write operations are oneway: this one waits for the answer.
    let policies = Policies { sync_scope: Some(SyncScope::WithTarget), ..Policies::default() };
    Ok(Box::new(Records(log.object().with_policies(policies).unchecked_narrow())))
}

fn name(number: u32) -> String {
    format!("w{number}")
}

impl Client for Records {
    fn write(&mut self, number: u32) -> Result<(), String> {
        let record = ProducerLogRecord {
            producer_id: "campaign".to_owned(),
            producer_name: name(number),
            level: ADMINISTRATIVE_EVENT,
            log_data: "a write".to_owned(),
        };
        self.0.write_record(&record).map_err(text)
    }

    fn read(&mut self, number: u32) -> Result<bool, String> {
        let found = self.0.retrieve_records_by_producer_name(&mut 0, &mut 1, &[name(number)]);
        found.map(|records| !records.is_empty()).map_err(|error| format!("{error:?}"))
    }

    /// A log loses its oldest records when it is full, and no others.
    fn remove(&mut self, _: u32) -> Result<(), String> {
        Ok(())
    }
}
