//! Stores of isorb's services on etcd: what one process acknowledged, every other one sees, and no
//! single machine can lose it.
//!
//! | store | of | trait |
//! |---|---|---|
//! | [`EtcdRegister`] | the memory coordinator: nodes and areas | `CoordinatorStore` |
//! | [`EtcdNames`] | the naming service: contexts and bindings | `Store` |
//!
//! Both talk to a [`Cluster`], which asks one member and goes on to the next when that one does not
//! answer. A call fails only when no member answered within the time-out of the cluster.
//!
//! ```no_run
//! use isorb_etcd::{Cluster, EtcdRegister};
//! use isorb_reflective_memory::coordinator::Coordinator;
//! use std::sync::Arc;
//!
//! let cluster = Cluster::new(["http://10.0.0.1:2379", "http://10.0.0.2:2379"], "plant")?;
//! let orb = isorb::Orb::init(["-ORBEndPoint".into(), "0.0.0.0:2810".into()])?;
//! let coordinator = Coordinator::start(&orb, Arc::new(EtcdRegister::new(Arc::new(cluster))))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Real-time
//! Not for real-time lanes: each call waits for the network and for etcd's disk.

mod cluster;
mod names;
mod register;

pub use cluster::Cluster;
pub use names::EtcdNames;
pub use register::EtcdRegister;
