//! The servant of the log.

use super::{Shared, TARGET, system};
use crate::cos_lw_log::log_administrator::SetMaxSizeError;
use crate::cos_lw_log::log_consumer::GetRecordIdFromTimeError;
use crate::cos_lw_log::{
    AdministrativeState, AvailabilityStatus, InvalidParam, Log, LogAdministrator, LogConsumer, LogFullAction,
    LogProducer, LogRecord, LogRecordSequenceView, LogStatus, LogTime, OperationalState, ProducerLogRecord,
    ProducerLogRecordView,
};
use crate::store::{Entry, FullAction, Refusal, Time};
use isorb::{Completion, Kind, Result, SystemException, Upcall};
use isorb_access::{Permission, Subject, authorize_unrecorded};
use isorb_rt::log;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// Stands behind the log.
pub struct LogServant {
    pub shared: Arc<Shared>,
}

impl LogServant {
    /// Writes records, counts those that are not written, and says why to a client that waits.
    fn write(&self, cx: Upcall<'_>, records: &[ProducerLogRecordView<'_>]) -> Result<()> {
        let result = self.append(cx, records);
        let written = *result.as_ref().unwrap_or_else(|(written, _)| written);
        result.map(|_| ()).map_err(|(_, exception)| {
            self.shared.discard((records.len() - written) as u64, cx.caller(), &exception);
            exception
        })
    }

    /// The number of records that were written: all of them, or what goes with the exception.
    fn append(
        &self,
        cx: Upcall<'_>,
        records: &[ProducerLogRecordView<'_>],
    ) -> Result<usize, (usize, SystemException)> {
        let none = |exception| (0, exception);
        let mut producer = None;
        let mut entries = Vec::with_capacity(records.len());
        for record in records {
            // The records of a request have one producer as a rule.
            if producer != Some(record.producer_id) {
                authorize_unrecorded(cx, Permission::Write, Subject::Name(record.producer_id))
                    .map_err(none)?;
                producer = Some(record.producer_id);
            }
            let entry = Entry {
                producer_id: record.producer_id,
                producer_name: record.producer_name,
                level: record.level,
                data: record.log_data,
            };
            let (octets, limit) = (entry.text(), self.shared.limits.record);
            if octets > limit {
                let why = format!("a record of {octets} octets; the log service takes at most {limit}");
                return Err(none(SystemException::from(Kind::ImpLimit).detail(why)));
            }
            entries.push(entry);
        }
        let shared = &self.shared;
        let appended = match shared.store.append(now(), &entries) {
            Ok(appended) => appended,
            Err(Refusal::Full { max_size }) => {
                return Err(none(full(max_size, entries.len(), entries.len())));
            }
            Err(refusal) => return Err(none(system(refusal))),
        };
        let missing = entries.len() - appended.written;
        shared.alarm.update(appended.size, appended.settings, missing > 0 || appended.lost > 0);
        match missing {
            0 => Ok(appended.written),
            _ => Err((appended.written, full(appended.settings.max_size, missing, entries.len()))),
        }
    }

    /// The records that a filter wants, from `current_id` on.
    fn retrieve<'u>(
        &self,
        cx: Upcall<'u>,
        current_id: &mut u64,
        how_many: &mut u32,
        wanted: &dyn Fn(&Entry<'_>) -> bool,
    ) -> Result<LogRecordSequenceView<'u>> {
        let limits = &self.shared.limits;
        let limit = limits.records.min(*how_many as usize);
        let page = self.shared.store.read(*current_id, limit, limits.reply, wanted, &record);
        let page = page.map_err(system)?;
        *current_id = page.next;
        *how_many = page.records.len() as u32;
        cx.give(page.records)
    }

    /// Refuses a list of values that is too long to compare each record with.
    fn check_values(&self, number: usize) -> Result<()> {
        let limit = self.shared.limits.values;
        if number <= limit {
            return Ok(());
        }
        let why = format!("a list of {number} values; the log service takes at most {limit}");
        Err(SystemException::from(Kind::ImpLimit).detail(why))
    }

    /// Lets the alarm know of more or less space.
    fn size_changed(&self) {
        if let Ok(status) = self.shared.store.status() {
            self.shared.alarm.update(status.size, status.settings, false);
        }
    }

    fn status(&self) -> Result<crate::store::Status> {
        self.shared.store.status().map_err(system)
    }
}

impl LogStatus for LogServant {
    fn get_max_size(&self, _: Upcall<'_>) -> Result<u64> {
        Ok(self.status()?.settings.max_size)
    }

    fn get_current_size(&self, _: Upcall<'_>) -> Result<u64> {
        Ok(self.status()?.size)
    }

    fn get_n_records(&self, _: Upcall<'_>) -> Result<u64> {
        Ok(self.status()?.records)
    }

    fn get_log_full_action(&self, _: Upcall<'_>) -> Result<LogFullAction> {
        Ok(match self.status()?.settings.full_action {
            FullAction::Wrap => LogFullAction::Wrap,
            FullAction::Halt => LogFullAction::Halt,
        })
    }

    fn get_availability_status(&self, _: Upcall<'_>) -> Result<AvailabilityStatus> {
        let status = self.status()?;
        Ok(AvailabilityStatus {
            off_duty: status.locked || self.shared.store.suspended().is_some(),
            log_full: status.full,
        })
    }

    fn get_administrative_state(&self, _: Upcall<'_>) -> Result<AdministrativeState> {
        let locked = self.status()?.locked;
        Ok(if locked { AdministrativeState::Locked } else { AdministrativeState::Unlocked })
    }

    fn get_operational_state(&self, _: Upcall<'_>) -> Result<OperationalState> {
        Ok(match self.shared.store.suspended() {
            Some(_) => OperationalState::Disabled,
            None => OperationalState::Enabled,
        })
    }
}

impl LogConsumer for LogServant {
    fn get_record_id_from_time(
        &self,
        _: Upcall<'_>,
        from_time: LogTime,
    ) -> Result<u64, GetRecordIdFromTimeError> {
        let LogTime { seconds, nanoseconds } = from_time;
        let nanoseconds = u32::try_from(nanoseconds).ok().filter(|nanoseconds| *nanoseconds < 1_000_000_000);
        let Some(nanoseconds) = nanoseconds else {
            let details = format!("{} nanoseconds: give 0 to 999,999,999", from_time.nanoseconds);
            return Err(InvalidParam { details }.into());
        };
        let time = Time { seconds: seconds.into(), nanoseconds };
        Ok(self.shared.store.first_at(time).map_err(system)?)
    }

    fn retrieve_records<'u>(
        &'u self,
        cx: Upcall<'u>,
        current_id: &mut u64,
        how_many: &mut u32,
    ) -> Result<LogRecordSequenceView<'u>, GetRecordIdFromTimeError> {
        Ok(self.retrieve(cx, current_id, how_many, &|_| true)?)
    }

    fn retrieve_records_by_level<'u>(
        &'u self,
        cx: Upcall<'u>,
        current_id: &mut u64,
        how_many: &mut u32,
        value_list: &[u16],
    ) -> Result<LogRecordSequenceView<'u>, GetRecordIdFromTimeError> {
        self.check_values(value_list.len())?;
        Ok(self.retrieve(cx, current_id, how_many, &|entry| value_list.contains(&entry.level))?)
    }

    fn retrieve_records_by_producer_id<'u>(
        &'u self,
        cx: Upcall<'u>,
        current_id: &mut u64,
        how_many: &mut u32,
        value_list: &[&str],
    ) -> Result<LogRecordSequenceView<'u>, GetRecordIdFromTimeError> {
        self.check_values(value_list.len())?;
        Ok(self.retrieve(cx, current_id, how_many, &|entry| value_list.contains(&entry.producer_id))?)
    }

    fn retrieve_records_by_producer_name<'u>(
        &'u self,
        cx: Upcall<'u>,
        current_id: &mut u64,
        how_many: &mut u32,
        value_list: &[&str],
    ) -> Result<LogRecordSequenceView<'u>, GetRecordIdFromTimeError> {
        self.check_values(value_list.len())?;
        Ok(self.retrieve(cx, current_id, how_many, &|entry| value_list.contains(&entry.producer_name))?)
    }
}

impl LogProducer for LogServant {
    fn write_records(&self, cx: Upcall<'_>, records: &[ProducerLogRecordView<'_>]) -> Result<()> {
        self.write(cx, records)
    }

    fn write_record(&self, cx: Upcall<'_>, record: ProducerLogRecordView<'_>) -> Result<()> {
        self.write(cx, &[record])
    }
}

impl LogAdministrator for LogServant {
    fn set_max_size(&self, _: Upcall<'_>, size: u64) -> Result<(), SetMaxSizeError> {
        match self.shared.store.set_max_size(size) {
            Ok(()) => {
                self.size_changed();
                Ok(())
            }
            Err(refusal @ Refusal::BelowCurrentSize { .. }) => {
                Err(InvalidParam { details: refusal.to_string() }.into())
            }
            Err(refusal) => Err(system(refusal).into()),
        }
    }

    fn set_log_full_action(&self, _: Upcall<'_>, action: LogFullAction) -> Result<()> {
        let action = match action {
            LogFullAction::Wrap => FullAction::Wrap,
            LogFullAction::Halt => FullAction::Halt,
        };
        self.shared.store.set_full_action(action).map_err(system)
    }

    fn set_administrative_state(&self, _: Upcall<'_>, state: AdministrativeState) -> Result<()> {
        self.shared.store.set_locked(state == AdministrativeState::Locked).map_err(system)
    }

    fn clear_log(&self, _: Upcall<'_>) -> Result<()> {
        self.shared.store.clear().map_err(system)?;
        self.size_changed();
        Ok(())
    }

    fn destroy(&self, cx: Upcall<'_>) -> Result<()> {
        self.shared.store.destroy().map_err(system)?;
        self.shared.destroyed.store(true, Ordering::Relaxed);
        log::warn(TARGET, format_args!("{} has destroyed the log; a restart begins a new one", cx.caller()));
        if let Some(poa) = cx.poa() {
            // An error means that another request has destroyed it meanwhile.
            let _ = poa.deactivate_object(cx.object_id());
        }
        Ok(())
    }
}

impl Log for LogServant {}

/// The exception of a log that halts.
fn full(max_size: u64, missing: usize, of: usize) -> SystemException {
    let why = format!(
        "the log is full with {max_size} octets: {missing} of {of} records are not written; clear it, or change \
         its greatest size or what it does when it is full"
    );
    let completed = if missing == of { Completion::No } else { Completion::Yes };
    SystemException::from(Kind::NoResources).completed(completed).detail(why)
}

fn now() -> Time {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => Time {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos(),
        },
        // A clock that is before 1970 was never set.
        Err(_) => Time::default(),
    }
}

/// A record in the standard's form.
fn record(id: u64, time: Time, entry: &Entry<'_>) -> LogRecord {
    LogRecord {
        id,
        time: LogTime {
            seconds: time.seconds.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            nanoseconds: time.nanoseconds as i32,
        },
        info: ProducerLogRecord {
            producer_id: entry.producer_id.to_owned(),
            producer_name: entry.producer_name.to_owned(),
            level: entry.level,
            log_data: entry.data.to_owned(),
        },
    }
}
