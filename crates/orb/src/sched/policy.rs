//! The policies of Real-Time CORBA (RT-CORBA 1.2): made here, carried by references in
//! TAG_POLICIES.

pub use isorb_giop::context::PriorityRange as PriorityBand;
pub use isorb_giop::policy::{
    CLIENT_PROTOCOL, PRIORITY_BANDED_CONNECTION, PRIORITY_MODEL, PRIVATE_CONNECTION, PolicyError,
    PriorityModel, PriorityModelPolicy, Protocol, ProtocolProperties, RtPolicy, SERVER_PROTOCOL,
    SharedMemoryProperties, THREAD_POOL, TcpProperties, UdpProperties, UnixProperties, from_components,
    to_component,
};
