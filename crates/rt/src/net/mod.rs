//! Sockets, one system call a function.
//!
//! Nothing here allocates or keeps state, and nothing hides a second call: a transport's cost can
//! be read off its source. Functions take anything that lends a file descriptor, so std's and
//! socket2's sockets both do.

mod connect;
mod interface;
mod options;
mod poller;
mod transfer;
mod wake_event;

pub use connect::{connect_tcp, connect_unix, connect_unix_packets};
pub use interface::interface_rate;
pub use options::{
    set_dontroute, set_dscp, set_keepalive, set_nodelay, set_priority, set_recv_buffer, set_recv_timeout,
    set_send_buffer, set_send_timeout,
};
pub use poller::{Event, Events, Interest, Poller, Trigger, wait_ready};
pub use transfer::{Wait, recv_into, recv_uninit, send, send_vectored};
pub use wake_event::{MOST_FILES, WakeEvent, wait_any_ready};
