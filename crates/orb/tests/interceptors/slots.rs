//! Slots: from the caller's thread to its request, to the servant's thread, and back.

use crate::FIRST;
use crate::common::{EchoRef, Parrot};
use crate::recorder::*;
use isorb::interceptor::*;
use isorb::poa::{
    Cookie, ObjectId, PoaPolicies, Refusal, ServantLocator, ServantManager, policies::RequestProcessing,
    policies::ServantRetention,
};
use isorb::{Any, Config, Poa, Servant};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// From a slot of the caller's thread through a context to a slot of the servant's.
struct Carry {
    slot: SlotId,
    /// Calls out at the starting point of a request, to check that the call does not look like the
    /// application's.
    call: Mutex<Option<EchoRef>>,
    nested: AtomicU64,
    left_by_servant: Mutex<Vec<Option<u64>>>,
}

impl ClientRequestInterceptor for Carry {
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        let here = info.orb().pi_current();
        let value: Option<u64> = info.slot(self.slot)?.get();
        assert_eq!(here.slot(self.slot)?, Any::null(), "an interceptor has a fresh table");
        let Some(value) = value else { return Ok(()) };
        if value == 99 {
            // Our own call, marked below.
            self.nested.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        info.add_request_service_context(FIRST, &value.to_be_bytes(), false)?;
        let call = self.call.lock().unwrap().clone();
        if let Some(echo) = call {
            here.set_slot(self.slot, Any::new(&99_u64).unwrap())?;
            echo.ping()?;
        }
        Ok(())
    }
    fn receive_reply(&self, info: &ClientRequestInfo<'_>) -> isorb::Result<()> {
        assert_eq!(info.orb().pi_current().slot(self.slot)?, Any::null(), "fresh again at the end");
        Ok(())
    }
}

impl ServerRequestInterceptor for Carry {
    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        assert_eq!(info.slot(self.slot)?, Any::null());
        if let Ok(Some(octets)) = info.request_service_context(FIRST).map(<[u8]>::first_chunk) {
            let value = u64::from_be_bytes(*octets);
            info.set_slot(self.slot, Any::new(&value).unwrap())?;
        }
        assert_eq!(info.orb().pi_current().slot(self.slot)?, Any::null(), "not the servant's thread yet");
        Ok(())
    }
    fn receive_request(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        assert_eq!(info.slot(self.slot)?, info.orb().pi_current().slot(self.slot)?, "one scope by now");
        Ok(())
    }
    fn send_reply(&self, info: &mut ServerRequestInfo<'_>) -> isorb::Result<()> {
        self.left_by_servant.lock().unwrap().push(info.slot(self.slot)?.get());
        Ok(())
    }
}

/// Doubles the value in its thread's slot.
struct Doubler(Arc<Mutex<Option<SlotId>>>);

impl ServantLocator for Doubler {
    fn preinvoke(&self, _: &[u8], poa: &Poa, _: &str) -> Result<(Servant, Cookie), Refusal> {
        let _ = poa;
        Ok((Servant::new::<EchoRef, Parrot>(Arc::default()), None))
    }
    fn postinvoke(&self, _: &[u8], _: &Poa, _: &str, _: Cookie, servant: Servant) -> isorb::Result<()> {
        let _ = servant;
        let orb = isorb::poa::Current.reference()?.orb().clone();
        let slot = self.0.lock().unwrap().unwrap();
        if let Some(value) = orb.pi_current().slot(slot)?.get::<u64>() {
            orb.pi_current().set_slot(slot, Any::new(&(2 * value)).unwrap())?;
        }
        Ok(())
    }
}

#[test]
fn slots_go_from_thread_to_request_to_thread_and_back() {
    for way in WAYS {
        let slot: Arc<Mutex<Option<SlotId>>> = Arc::default();
        let carriers: Mutex<Vec<Arc<Carry>>> = Mutex::default();
        let make = |info: &mut OrbInitInfo| {
            // A collocated ORB registers twice, for the same slot.
            let id = *slot.lock().unwrap().get_or_insert_with(|| info.allocate_slot_id());
            if format!("{info:?}").contains("slots: 0") {
                info.allocate_slot_id();
            }
            let carry = Arc::new(Carry {
                slot: id,
                call: Mutex::default(),
                nested: AtomicU64::new(0),
                left_by_servant: Mutex::default(),
            });
            carriers.lock().unwrap().push(carry.clone());
            carry
        };
        let mut client: Option<Arc<Carry>> = None;
        let mut server: Option<Arc<Carry>> = None;
        let bed = Bed::with(
            way,
            Config::default(),
            &mut |info| {
                let carry = client.insert(make(info)).clone();
                Ok(info.add_client_request_interceptor(carry)?)
            },
            &mut |info| {
                let carry = server.insert(make(info)).clone();
                Ok(info.add_server_request_interceptor(carry)?)
            },
        );
        let (client, server, slot_id) = (client.unwrap(), server.unwrap(), slot.lock().unwrap().unwrap());
        let policies = PoaPolicies::new()
            .id_assignment(isorb::poa::policies::IdAssignment::User)
            .servant_retention(ServantRetention::NonRetain)
            .request_processing(RequestProcessing::ServantManager);
        let poa = bed.server.root_poa().unwrap();
        let poa = poa.create_poa("doubling", Some(&poa.manager()), policies).unwrap();
        poa.set_servant_manager(ServantManager::locator(Doubler(slot.clone()))).unwrap();
        let object = poa.create_reference_with_id(ObjectId::from("x"), "IDL:Test/Echo:1.0").unwrap();
        let doubling: EchoRef = bed.client.resolve(&object.to_string()).unwrap();
        let current = bed.client.pi_current();

        doubling.ping().unwrap();
        current.set_slot(slot_id, Any::new(&21_u64).unwrap()).unwrap();
        doubling.ping().unwrap();
        *client.call.lock().unwrap() = Some(bed.other.clone());
        doubling.ping().unwrap();
        assert_eq!(client.nested.load(Ordering::SeqCst), 1);
        let left = server.left_by_servant.lock().unwrap().clone();
        assert_eq!(left, [None, Some(42), None, Some(42)], "{way:?}");
        assert_eq!(current.slot(slot_id).unwrap().get::<u64>(), Some(21), "the caller's own is as it was");
        let none = bed.client.pi_current();
        let elsewhere = std::thread::spawn(move || none.slot(slot_id)).join().unwrap();
        assert_eq!(elsewhere, Ok(Any::null()));
    }
}
