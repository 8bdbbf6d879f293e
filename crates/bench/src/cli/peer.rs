//! The hidden commands by which the harness starts its own binary again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::exit_code;
use crate::event_peers::EventPeer;
use crate::process::{Scheduling, become_program};
use crate::subjects::isorb::Logging;
use crate::subjects::stderr_sink::{self, Sink};
use crate::subjects::{band, bare_echo, isorb, raw, raw_epoll, tls, tls_each_call};
use crate::workload::{attack, client, connection_storm, link_flood, many_clients, server};

const LOOPBACK: &str = "127.0.0.1";

/// The arguments of a peer.
#[derive(Args, Debug)]
pub struct PeerArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Schedules itself and becomes another program
    Start {
        /// Process id of the harness
        #[arg(long)]
        parent: u32,
        /// The processor
        #[arg(long)]
        cpu: Option<usize>,
        /// The native priority in SCHED_FIFO
        #[arg(long)]
        fifo: Option<u8>,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
    },
    /// isorb's server
    IsorbServer {
        /// Requests run at the priority that their client sends
        #[arg(long)]
        propagated: bool,
        /// Over TLS, with the certificates of this folder
        #[arg(long)]
        tls: Option<PathBuf>,
        /// Answers loans with loans
        #[arg(long)]
        loan: bool,
        /// The ORB's arguments
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// isorb's client
    IsorbClient {
        /// Calls have a priority
        #[arg(long)]
        propagated: bool,
        /// Over TLS, with the certificates of this folder
        #[arg(long)]
        tls: Option<PathBuf>,
        /// Sequences of octets are loans
        #[arg(long)]
        loan: bool,
        /// Sequences of octets are loans both ways, which neither side writes or reads
        #[arg(long)]
        loan_in_place: bool,
        /// Over TLS, with a connection for each call
        #[arg(long)]
        each_call: bool,
        /// The server's reference, over TLS
        reference: Option<String>,
        /// The ORB's arguments, and the server's reference
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// isorb's server with lanes
    IsorbBandServer {
        /// The address of this host
        #[arg(long, default_value = LOOPBACK)]
        host: String,
        /// What it writes at each void call
        #[arg(long, value_enum, default_value_t)]
        logging: Logging,
    },
    /// Becomes another program, with a standard error that takes nothing
    Stderr {
        sink: Sink,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        program: Vec<OsString>,
    },
    /// Reads standard input, 4 KiB in a quarter of a second
    Drain,
    /// isorb's client at a priority
    IsorbBandClient {
        /// The server's reference
        reference: String,
    },
    /// The server of a workload
    LoadServer(server::ServerArgs),
    /// The client of a workload
    LoadClient(client::ClientArgs),
    /// Sends more than a link carries
    Flood(link_flood::FloodArgs),
    /// The other process of an event channel
    #[command(subcommand)]
    Event(EventPeer),
    /// Clients that connect and send no request
    Storm(connection_storm::StormArgs),
    /// A client that attacks
    Attack(attack::AttackArgs),
    /// Sends back what it receives, a thread for each connection
    BareEcho {
        /// Over TLS, with the certificates of this folder
        #[arg(long)]
        tls: Option<PathBuf>,
    },
    /// Clients that one thread plays, each with a connection
    ManyClients(many_clients::ManyArgs),
    /// The control's server for many connections
    RawEpollServer,
    /// The control's server, over TCP unless something else is given
    RawServer {
        /// The address of this host
        #[arg(long, default_value = LOOPBACK)]
        host: String,
        /// Over a unix socket
        #[arg(long)]
        unix: bool,
        /// Over TLS, with the certificates of this folder
        #[arg(long)]
        tls: Option<PathBuf>,
    },
    /// The control's client
    RawClient {
        /// Over a unix socket
        #[arg(long)]
        unix: bool,
        /// Over TLS, with the certificates of this folder
        #[arg(long)]
        tls: Option<PathBuf>,
        /// The server's
        address: String,
    },
}

impl PeerArgs {
    /// Runs the peer; a failure has been written to standard error.
    pub fn run(self) -> ExitCode {
        let no_reference = || std::io::Error::other("no reference");
        exit_code(match self.command {
            Command::Start { parent, cpu, fifo, program } => {
                Err(become_program(parent, Scheduling { cpu, fifo }, &program))
            }
            Command::IsorbServer { tls: Some(folder), mut arguments, .. } => {
                arguments.extend(["-ORBEndPoint", "giop:ssl:127.0.0.1:0;connection"].map(str::to_owned));
                tls::orb(&folder, "server", &arguments).and_then(|orb| isorb::serve_by(&orb, false))
            }
            Command::IsorbServer { loan: true, arguments, .. } => isorb::serve_in_place(&arguments),
            Command::IsorbServer { propagated, arguments, .. } => isorb::serve(&arguments, propagated),
            Command::IsorbClient { tls: Some(folder), each_call, reference, .. } => {
                reference.ok_or_else(no_reference).and_then(|reference| match each_call {
                    true => tls_each_call::call(&folder, reference),
                    false => isorb::call_by(tls::orb(&folder, "client", &[])?, &reference),
                })
            }
            Command::IsorbClient { loan_in_place: true, arguments, .. } => isorb::call_in_place(&arguments),
            Command::IsorbClient { loan: true, arguments, .. } => isorb::call_with_loans(&arguments),
            Command::IsorbClient { propagated, arguments, .. } => isorb::call(&arguments, propagated),
            Command::IsorbBandServer { host, logging } => band::serve(&host, logging),
            Command::Stderr { sink, program } => Err(sink.exec(&program)),
            Command::Drain => stderr_sink::drain(),
            Command::IsorbBandClient { reference } => band::call(&reference),
            Command::LoadServer(args) => server::serve(&args),
            Command::LoadClient(args) => client::call(&args),
            Command::Flood(args) => link_flood::flood(&args),
            Command::Event(program) => program.run(),
            Command::Storm(args) => connection_storm::obey(&args),
            Command::Attack(args) => attack::attack(&args),
            Command::BareEcho { tls } => bare_echo::serve(tls),
            Command::ManyClients(args) => many_clients::obey(&args),
            Command::RawEpollServer => raw_epoll::serve(),
            Command::RawServer { host, unix, tls } => raw::serve(&host, unix, tls.as_deref()),
            Command::RawClient { unix, tls, address } => raw::call(unix, tls.as_deref(), &address),
        })
    }
}
