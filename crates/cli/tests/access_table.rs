//! The table of access rules against the interfaces that the services serve.

use isorb::{Interface, Reference};
use isorb_access::operations_of;
use isorb_event::servants::isorb_link::isorb_event as link;
use isorb_event::servants::stamped::isorb_rtec_event_channel_admin as numbered;
use isorb_event::servants::stamped::rtec_event_channel_admin as rtec;
use isorb_event::servants::standard::cos_event_channel_admin as cos;
use isorb_implementation_repository::isorb_implementation_repository as repository;
use isorb_log_service::cos_lw_log::LogRef;
use isorb_naming::cos_naming as naming;
use isorb_reflective_memory::idl as memory;
use isorb_sched_service::rtec_scheduler::SchedulerRef;

#[test]
fn every_interface_of_a_service_has_its_rules() {
    let interfaces: [&Interface; 29] = [
        naming::NamingContextRef::INTERFACE,
        naming::NamingContextExtRef::INTERFACE,
        naming::BindingIteratorRef::INTERFACE,
        LogRef::INTERFACE,
        repository::RepositoryRef::INTERFACE,
        repository::ServerRef::INTERFACE,
        rtec::EventChannelRef::INTERFACE,
        rtec::ConsumerAdminRef::INTERFACE,
        rtec::SupplierAdminRef::INTERFACE,
        rtec::ProxyPushConsumerRef::INTERFACE,
        numbered::ProxyPushConsumerRef::INTERFACE,
        rtec::ProxyPushSupplierRef::INTERFACE,
        numbered::ProxyPushSupplierRef::INTERFACE,
        cos::EventChannelRef::INTERFACE,
        cos::ConsumerAdminRef::INTERFACE,
        cos::SupplierAdminRef::INTERFACE,
        cos::ProxyPushConsumerRef::INTERFACE,
        cos::ProxyPullConsumerRef::INTERFACE,
        cos::ProxyPushSupplierRef::INTERFACE,
        cos::ProxyPullSupplierRef::INTERFACE,
        link::NeighbourRef::INTERFACE,
        link::LinkRef::INTERFACE,
        link::LaneRef::INTERFACE,
        link::OperatorRef::INTERFACE,
        SchedulerRef::INTERFACE,
        memory::Lib_CommRef::INTERFACE,
        memory::CRM_CommRef::INTERFACE,
        memory::Glob_CommRef::INTERFACE,
        memory::RIORef::INTERFACE,
    ];
    for interface in interfaces {
        let rules = operations_of(interface.id).unwrap_or_else(|| panic!("{} has no rules", interface.id));
        // `SUPPLIER` and `CHANNEL` hold the operations of several interfaces.
        let known =
            rules.iter().filter(|(operation, _)| interface.operations.find(operation).is_some()).count();
        let shared = interface.id.contains("EventChannelAdmin");
        assert!(shared || known == rules.len(), "{}: {rules:?}", interface.id);
        assert!(rules.is_empty() || known > 0, "{}: {rules:?}", interface.id);
    }
}
