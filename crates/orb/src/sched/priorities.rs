//! From CORBA priorities to scheduling classes: the mapping and the transform of an ORB, and the
//! rights of the process.

use super::config::{Mapping, RealTimeClass, RealTimeConfig};
use crate::{Result, SystemException};
use isorb_giop::{Kind, minor};
use isorb_rt::priority::{Priority, PriorityMapping};
use isorb_rt::sched::{Granted, Need, SchedClass};
use isorb_rt::sync::PiMutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Changes the priority of a request on its way (`RTCORBA::PriorityTransform`, RT-CORBA 1.2,
/// priority transforms). `None` from either method is DATA_CONVERSION for the caller.
///
/// # Real-time
/// Called on the path of every request: implementations neither allocate nor block.
pub trait PriorityTransform: Send + Sync {
    /// The priority of an upcall, for a request with (or declared at) `priority` to the object with
    /// this id.
    fn inbound(&self, priority: Priority, object_id: &[u8]) -> Option<Priority>;

    /// The priority of a call that is made at `priority` from inside an upcall of the object with
    /// this id.
    fn outbound(&self, priority: Priority, object_id: &[u8]) -> Option<Priority>;
}

/// The priority mapping of one ORB.
#[allow(dead_code)] // Used by the dispatcher and RTCurrent, which come next.
pub(crate) struct Priorities {
    mapping: PiMutex<Arc<dyn PriorityMapping>>,
    transform: PiMutex<Option<Arc<dyn PriorityTransform>>>,
    /// Whether there is one; read for each request.
    transforms: AtomicBool,
    granted: OnceLock<Granted>,
    config: RealTimeConfig,
}

#[allow(dead_code)]
impl Priorities {
    pub fn new(config: &RealTimeConfig) -> Priorities {
        Priorities {
            mapping: PiMutex::new(config.mapping()),
            transform: PiMutex::default(),
            transforms: AtomicBool::new(false),
            granted: OnceLock::new(),
            config: config.clone(),
        }
    }

    pub fn mapping(&self) -> Arc<dyn PriorityMapping> {
        self.mapping.lock().clone()
    }

    pub fn set_mapping(&self, mapping: Arc<dyn PriorityMapping>) {
        let before = std::mem::replace(&mut *self.mapping.lock(), mapping);
        drop(before);
    }

    pub fn transform(&self) -> Option<Arc<dyn PriorityTransform>> {
        if !self.transforms() {
            return None;
        }
        self.transform.lock().clone()
    }

    pub fn set_transform(&self, transform: Option<Arc<dyn PriorityTransform>>) {
        self.transforms.store(transform.is_some(), Ordering::Release);
        let before = std::mem::replace(&mut *self.transform.lock(), transform);
        drop(before);
    }

    /// Whether there is a transform.
    #[inline]
    pub fn transforms(&self) -> bool {
        self.transforms.load(Ordering::Acquire)
    }

    /// The priority of a request for an object.
    ///
    /// # Errors
    /// DATA_CONVERSION with minor code OMG|2.
    #[inline]
    pub fn inbound(&self, priority: Priority, object_id: &[u8]) -> Result<Priority> {
        match self.transform() {
            None => Ok(priority),
            Some(transform) => transform.inbound(priority, object_id).ok_or_else(unmappable),
        }
    }

    /// The priority of a call from inside an upcall of an object.
    ///
    /// # Errors
    /// DATA_CONVERSION with minor code OMG|2.
    #[inline]
    pub fn outbound(&self, priority: Priority, object_id: &[u8]) -> Result<Priority> {
        match self.transform() {
            None => Ok(priority),
            Some(transform) => transform.outbound(priority, object_id).ok_or_else(unmappable),
        }
    }

    /// The rights of the process, determined by the first call.
    ///
    /// # Errors
    /// NO_PERMISSION under `require`; the sentence names the missing right and how to grant it.
    pub fn granted(&self) -> Result<Granted> {
        if let Some(granted) = self.granted.get() {
            return Ok(*granted);
        }
        let need = Need { native_priority: self.config.native_max, lock_memory: self.config.memory_lock() };
        let granted = self.config.mode.resolve(need).map_err(|missing| {
            SystemException::from(Kind::NoPermission).detail(format!("real_time.mode is require: {missing}"))
        })?;
        if self.granted.set(granted).is_ok() {
            for missing in granted.missing() {
                crate::log::warn("isorb::sched", format_args!("going on without real time: {missing}"));
            }
        }
        Ok(granted)
    }

    /// The scheduling class of a thread at a CORBA priority.
    ///
    /// # Errors
    /// DATA_CONVERSION with minor code OMG|2 if the mapping has no native priority for it; as
    /// [`granted`](Self::granted).
    ///
    /// # Real-time
    /// One PI lock, and the cost of the mapping.
    pub fn class(&self, priority: Priority) -> Result<SchedClass> {
        let granted = match self.granted.get() {
            Some(granted) => *granted,
            None => self.granted()?,
        };
        if priority.get() < self.config.ordinary_below {
            return Ok(SchedClass::Other);
        }
        let native = match self.mapping().to_native(priority) {
            Some(native) => native,
            // 0 is the native priority of ordinary threads.
            None if priority == Priority::MIN && self.config.mapping == Mapping::Direct => {
                return Ok(SchedClass::Other);
            }
            None => return Err(unmappable()),
        };
        Ok(granted.class(match self.config.class {
            RealTimeClass::Fifo => SchedClass::Fifo(native),
            RealTimeClass::Rr => SchedClass::Rr(native),
        }))
    }

    /// Whether threads can get real-time classes.
    pub fn are_schedulable(&self) -> bool {
        self.granted.get().is_some_and(|granted| granted.scheduling)
    }
}

#[cold]
pub(crate) fn unmappable() -> SystemException {
    SystemException::from(Kind::DataConversion)
        .minor(minor::DATA_CONVERSION_PRIORITY)
        .detail("the priority mapping, or the priority transform, has no priority for this one")
}

/// A CORBA priority from a number.
///
/// # Errors
/// BAD_PARAM for a negative one.
#[allow(dead_code)]
pub(crate) fn checked(priority: i16) -> Result<Priority> {
    Priority::new(priority).ok_or_else(|| {
        SystemException::from(Kind::BadParam)
            .detail(format!("a CORBA priority is 0 to 32767, not {priority}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_rt::sched::RealTime;

    struct Shift;
    impl PriorityTransform for Shift {
        fn inbound(&self, priority: Priority, id: &[u8]) -> Option<Priority> {
            Priority::new(priority.get().checked_add(id.len() as i16)?)
        }
        fn outbound(&self, priority: Priority, _: &[u8]) -> Option<Priority> {
            Priority::new(priority.get() - 10)
        }
    }

    #[test]
    fn transforms_are_set_and_taken_away() {
        let p = Priorities::new(&RealTimeConfig::default());
        let hundred = checked(100).unwrap();
        assert_eq!(p.inbound(hundred, b"id"), Ok(hundred));
        p.set_transform(Some(Arc::new(Shift)));
        assert_eq!(p.inbound(hundred, b"id").map(Priority::get), Ok(102));
        assert_eq!(p.outbound(hundred, b"id").map(Priority::get), Ok(90));
        let error = p.inbound(Priority::MAX, b"id").unwrap_err();
        assert_eq!((error.kind, error.minor), (Kind::DataConversion, minor::DATA_CONVERSION_PRIORITY));
        assert!(p.outbound(Priority::MIN, b"").is_err());
        p.set_transform(None);
        assert_eq!(p.inbound(Priority::MAX, b"id"), Ok(Priority::MAX));
    }

    #[test]
    fn a_band_of_priorities_is_ordinary() {
        let config = RealTimeConfig { ordinary_below: 1000, ..RealTimeConfig::default() };
        let p = Priorities::new(&config);
        assert_eq!(p.class(checked(999).unwrap()), Ok(SchedClass::Other));
        let class = p.class(Priority::MAX).unwrap();
        if p.are_schedulable() {
            assert_eq!(class, SchedClass::Fifo(config.native_max));
        } else {
            println!("skipped: no right to real-time scheduling here");
            assert_eq!(class, SchedClass::Other);
        }
    }

    #[test]
    fn without_real_time_all_is_ordinary_and_still_checked() {
        let config = RealTimeConfig { mode: RealTime::Off, mapping: Mapping::Direct, ..Default::default() };
        let p = Priorities::new(&config);
        assert_eq!(p.class(checked(5).unwrap()), Ok(SchedClass::Other));
        assert_eq!(p.class(Priority::MAX).unwrap_err().kind, Kind::DataConversion);
        assert_eq!(p.class(Priority::MIN), Ok(SchedClass::Other));
        assert_eq!(checked(-1).unwrap_err().kind, Kind::BadParam);
    }
}
