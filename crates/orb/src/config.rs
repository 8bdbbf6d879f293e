//! The configuration of an ORB.
//!
//! It comes from defaults, a TOML file and `-ORB…` arguments; later sources override earlier ones.
//! The file is the one of `-ORBConfig FILE`, else of the variable `ISORB_CONFIG`, else `isorb.toml`
//! in the working folder if it exists.

use crate::connection::{AdmissionLimits, IdleLimits, Limits, PeerLimits, SlotLimits};
use crate::policy::Policies;
use crate::settings::{choice, settings};
use crate::{Result, SystemException};
use isorb_cdr::{Narrow, ValueLimits, Version, Wide};
use isorb_giop::Kind;
use isorb_giop::codeset::CodeSetComponentInfo;
use isorb_rt::sched::OnPanic;
use std::collections::BTreeMap;
#[cfg(feature = "config-file")]
use std::path::Path;
use std::time::Duration;

/// The longest name of a server, in octets.
pub(crate) const MAX_SERVER_NAME: usize = 255;

/// How a server's threads serve its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config-file", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum Concurrency {
    /// Each connection has a thread, which blocks in receive: the fastest for few clients.
    Connection,
    /// A fixed number of threads serves all connections of an endpoint. The kernel chooses the
    /// thread for an event.
    Lane,
}

choice!(Concurrency: "connection" Connection, "lane" Lane);

settings! {
    /// The configuration of an ORB. Each key of `isorb.toml` has the name of its field here.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// Where the ORB listens: `host:port`, `[v6]:port`, `giop:tcp:host:port` (the form of
        /// omniORB) or `iiop://host:port` (the form of TAO), where port 0 takes a free one;
        /// `unix:PATH`, `segment:PATH`, where no path takes a new one; `udp:host:port`;
        /// `giop:NAME:ADDRESS` for a transport of that name. Options follow, each behind a
        /// semicolon: `lane`, `lane=THREADS` or `connection` for the concurrency of this endpoint,
        /// `publish=HOST` or `publish=HOST:PORT` for the address in references. The argument is
        /// repeatable.
        endpoints: Vec<String> = vec!["127.0.0.1:0".into()],
            "-ORBEndPoint" | "-ORBendPoint" | "-ORBListenEndpoints";
        /// The host in references instead of the endpoint's own. A wildcard endpoint (`0.0.0.0`,
        /// `[::]`) needs it.
        publish: Option<String> = None, "-ORBPublish";
        /// A thread for each connection, or a lane: a fixed number of threads for all connections
        /// of an endpoint. An endpoint can choose its own.
        concurrency: Concurrency = Concurrency::Connection, "-ORBConcurrency";
        /// Threads of a lane.
        lane_threads: usize = 4, in 1.., "-ORBLaneThreads";
        /// Connections that an ORB, or a lane of a thread pool, accepts. At the limit a new one
        /// takes the place of an idle one, whatever that client has sent before: of the client with
        /// the most connections, the one that was not used for longest. It gets CloseConnection and
        /// opens another for its next call. A few more of the own user are accepted by local
        /// transports.
        max_connections: usize = 256, "-ORBMaxConnections";
        /// Connections of one client: one address, or one user of a local transport. A new one then
        /// takes the place of an idle one of the same client. Not for lanes. 0: no limit.
        max_peer_connections: usize = 0, "-ORBMaxPeerConnections";
        /// Requests of one client that may be at this server at a time, over all of its
        /// connections: those that wait in a lane, run, or are answered later. One client is one
        /// address, or one user of a local transport. A further request is refused (IMP_LIMIT),
        /// also by lanes. 0: no limit.
        max_peer_calls: usize = 0, "-ORBMaxPeerCalls";
        /// Octets that the messages of one client may have at this server at a time, over all of
        /// its connections: those of requests that wait in a lane or run, and of messages that are
        /// being received, with the memory that is committed for the rest of a long one. A further
        /// request is refused (IMP_LIMIT), a long one before its octets are kept. 0: no limit; else
        /// at least 1024.
        max_peer_octets: usize = 0, "-ORBMaxPeerOctets";
        /// Connections that calls to one server may open. Further calls share them.
        connections_per_server: usize = 5, "-ORBConnectionsPerServer";
        /// Calls that may be begun on a connection and not waited for yet. A further one is refused
        /// (IMP_LIMIT).
        pending_calls: usize = 64, in ..=1048576, "-ORBPendingCalls";
        /// Calls that wait while 64 others wait for replies on each connection to the server: so
        /// many a connection, the most urgent first, each until its time-out. A further one is
        /// refused (IMP_LIMIT).
        queued_calls: usize = 1024, "-ORBQueuedCalls";
        /// Operations with counts and times of their own in `Orb::requests_by_operation`; further
        /// ones are counted together. Requests are counted by lane, too. Each operation takes 400
        /// octets. 0: nothing is counted.
        request_statistics: usize = 0, in 0..=65536, "-ORBRequestStatistics";
        /// Requests of one connection that are answered after their upcall (`cx.defer()`). A
        /// further one is refused (IMP_LIMIT).
        deferred_replies_per_connection: usize = 64, "-ORBDeferredRepliesPerConnection";
        /// Requests to the objects of one POA that are answered after their upcall. A further one
        /// is refused (IMP_LIMIT).
        deferred_replies_per_poa: usize = 1024, "-ORBDeferredRepliesPerPoa";
        /// Largest message in octets, sent or received. A larger one ends its connection.
        message_limit: usize = 16 << 20, in 1024.., "-ORBMessageLimit";
        /// How deeply values (of valuetypes) may be nested in each other in a message that is
        /// received: each level takes up to two KiB of stack. A deeper message is refused
        /// (IMP_LIMIT).
        value_depth: u32 = 256, "-ORBValueDepth";
        /// Values (of valuetypes) in a message that is received. A message with more is refused
        /// (IMP_LIMIT).
        values_per_message: u32 = 100_000, "-ORBValuesPerMessage";
        /// Messages longer than this many octets are sent in fragments (GIOP 1.2). 0: never.
        fragment: usize = 0, "-ORBFragment";
        /// Octets in message blocks of all connections together; also the limit of those that one
        /// lane of a thread pool reserves. Once three quarters are in use, the ORB closes a
        /// connection: one of the least urgent lane or of none, stalled ones first, then the one
        /// that has held the most for longest. The block of a long message
        /// begins with 256 KiB and grows as octets arrive.
        memory_limit: usize = 256 << 20;
        /// Time for opening a connection, in milliseconds. 0: no limit.
        connect_timeout_ms: u64 = 10_000;
        /// Time that a send waits for a peer that does not read, in milliseconds. 0: no limit.
        send_timeout_ms: u64 = 30_000;
        /// Time from the first octet of a message to its last, fragments included, in milliseconds.
        /// A peer that stalls for longer loses its connection. 0: no limit.
        message_timeout_ms: u64 = 60_000, "-ORBMessageTimeout";
        /// Time from a client's connection to its first request, in milliseconds. A slower client
        /// gets CloseConnection. 0: no limit.
        first_request_timeout_ms: u64 = 60_000, "-ORBFirstRequestTimeout";
        /// Time that a client may leave a connection unused after a request, in milliseconds, up to
        /// a quarter longer in fact. The client then gets CloseConnection, and opens another
        /// connection for its next call. Connections that carry call-backs are exempt. 0: no limit.
        connection_idle_timeout_ms: u64 = 0, "-ORBConnectionIdleTimeout";
        /// Time for a call unless a policy gives another one, in milliseconds. 0: no limit.
        round_trip_timeout_ms: u64 = 60_000, "-ORBRoundTripTimeout";
        /// Whether call-backs may use the connections that the calls came over, in both roles
        /// (clause 9.8). Off, because a client could claim the address of another one.
        bidirectional: bool = false, "-ORBBidirectional";
        /// What follows when a thread of the process that the ORB needs panics: it begins again
        /// (`replace`), and a second panic of the thread within a second ends the process; it
        /// always begins again (`always-replace`); or the process ends (`abort`). Panics of
        /// servants are not meant: their callers get UNKNOWN. With several ORBs in a process, a
        /// setting other than `replace` applies to all.
        #[cfg_attr(feature = "config-file", serde(deserialize_with = "crate::sched::by_name"))]
        thread_panic: OnPanic = OnPanic::Replace, "-ORBThreadPanic";
        /// The preferred code set of `char` and `string`: `UTF-8` or `ISO-8859-1`. A peer that
        /// supports only the other one gets the other one.
        char_code_set: String = "UTF-8".into(), "-ORBNativeCharCodeSet";
        /// Whether wide text may hold units of UTF-16 that are no characters, which peers without
        /// checks send. An unpaired surrogate 0xD800 + n is then the private character U+10F800 + n
        /// in Rust text, and travels on as it came. Otherwise it is refused (DATA_CONVERSION).
        unpaired_surrogates: bool = false, "-ORBUnpairedSurrogates";
        /// Highest GIOP version that the ORB uses and publishes: `1.0`, `1.1` or `1.2`.
        giop: String = "1.2".into(), "-ORBGiop";
        /// URL of the implementation repository that starts this server, and finds it after a move:
        /// references of persistent POAs then lead there. Needs `server_name`.
        implementation_repository: Option<String> = None, "-ORBImplementationRepository";
        /// The name under which the implementation repository knows this server, up to 255 octets.
        server_name: Option<String> = None, "-ORBServerName";
        /// The table `[init_refs]`: initial references as URLs, by name.
        init_refs: BTreeMap<String, String> = BTreeMap::new(), "-ORBInitRef";
        /// Prefix of the URLs of all other initial references, such as `corbaloc::host`:
        /// `PREFIX/NAME`.
        default_init_ref: Option<String> = None, "-ORBDefaultInitRef";
        /// The table `[transport]`.
        transport: crate::TransportConfig = crate::TransportConfig::default();
        /// The table `[real_time]`.
        real_time: crate::sched::RealTimeConfig = crate::sched::RealTimeConfig::default();
    }
}

impl Config {
    /// Takes the `-ORB…` arguments out of a command line and returns the other arguments.
    ///
    /// # Errors
    /// BAD_PARAM for an unknown argument or one without a value, or an unreadable file; the
    /// sentence names it.
    pub fn from_args(args: impl IntoIterator<Item = String>) -> Result<(Config, Vec<String>)> {
        let (options, args) = split(args)?;
        let named = options.iter().rev().find(|(name, _)| name == "-ORBConfig").map(|(_, file)| file.clone());
        let named = named.or_else(|| std::env::var("ISORB_CONFIG").ok());
        Ok((Config::configured(named.as_deref())?.with_options(options)?, args))
    }

    /// This configuration with the `-ORB…` arguments of a command line over it, and the other
    /// arguments.
    ///
    /// # Errors
    /// As [`Config::from_args`]; BAD_PARAM for `-ORBConfig`.
    pub(crate) fn with_args(self, args: Vec<String>) -> Result<(Config, Vec<String>)> {
        let (options, args) = split(args)?;
        if options.iter().any(|(name, _)| name == "-ORBConfig") {
            return Err(bad("-ORBConfig: this program makes its configuration and reads no file".into()));
        }
        Ok((self.with_options(options)?, args))
    }

    /// The limits of values in a message.
    pub(crate) fn value_limits(&self) -> ValueLimits {
        ValueLimits { depth: self.value_depth, count: self.values_per_message }
    }

    fn with_options(mut self, options: Vec<(String, String)>) -> Result<Config> {
        let mut endpoints = Vec::new();
        for (name, value) in options {
            self.option(&name, value, &mut endpoints)?;
        }
        if !endpoints.is_empty() {
            self.endpoints = endpoints;
        }
        self.check()?;
        Ok(self)
    }

    #[cfg(feature = "config-file")]
    fn configured(named: Option<&str>) -> Result<Config> {
        match named {
            Some(file) => Config::from_file(Path::new(file)),
            None if Path::new("isorb.toml").exists() => {
                let file = Path::new("isorb.toml");
                owner::check(file)?;
                Config::from_file(file)
            }
            None => Ok(Config::default()),
        }
    }

    #[cfg(not(feature = "config-file"))]
    fn configured(named: Option<&str>) -> Result<Config> {
        match named {
            // Ignoring it would start a server with the wrong configuration.
            Some(file) => Err(bad(format!(
                "{file} cannot be read: this program was built without the feature config-file of isorb"
            ))),
            None => Ok(Config::default()),
        }
    }

    /// From a TOML file.
    ///
    /// # Errors
    /// BAD_PARAM with the file, the line and the error there.
    #[cfg(feature = "config-file")]
    pub fn from_file(file: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| bad(format!("cannot read {}: {error}", file.display())))?;
        let config: Config =
            toml::from_str(&text).map_err(|error| bad(format!("{}: {error}", file.display())))?;
        config.check()?;
        Ok(config)
    }

    fn option(&mut self, name: &str, value: String, endpoints: &mut Vec<String>) -> Result<()> {
        match name {
            "-ORBEndPoint" | "-ORBendPoint" | "-ORBListenEndpoints" => endpoints.push(value),
            // The file was read before. The others are arguments of other ORBs, and have no effect
            // here.
            "-ORBConfig" | "-ORBId" | "-ORBServerId" => {}
            _ => {
                let set = self.set_argument(name, &value);
                let set = set.or_else(|| self.transport.set_argument(name, &value));
                let set = set.or_else(|| self.real_time.set_argument(name, &value));
                set.ok_or_else(|| bad(format!("{name} is not known; see docs/reference/configuration.md")))?
                    .map_err(|error| bad(format!("{name} {error}")))?;
            }
        }
        Ok(())
    }

    /// Checks the constraints between values.
    ///
    /// # Errors
    /// BAD_PARAM; the sentence names the key.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_ranges().map_err(bad)?;
        if !["1.0", "1.1", "1.2"].contains(&self.giop.as_str()) {
            return Err(bad(format!("giop is 1.0, 1.1 or 1.2, not {}", self.giop)));
        }
        if !matches!(self.char_code_set.as_str(), "UTF-8" | "ISO-8859-1") {
            let other = &self.char_code_set;
            return Err(bad(format!("char_code_set is UTF-8 or ISO-8859-1, not {other}")));
        }
        for endpoint in &self.endpoints {
            self.endpoint(endpoint)?;
        }
        self.check_repository()?;
        self.transport.check().map_err(bad)?;
        self.real_time.check().map_err(bad)?;
        if self.max_peer_octets != 0 && self.max_peer_octets < 1024 {
            let octets = self.max_peer_octets;
            return Err(bad(format!("max_peer_octets is 0, for no limit, or at least 1024, not {octets}")));
        }
        if self.fragment != 0 && self.fragment < 64 {
            return Err(bad("fragment must be 0 or at least 64 bytes".into()));
        }
        Ok(())
    }

    fn check_repository(&self) -> Result<()> {
        if self.implementation_repository.is_some() && self.server_name.is_none() {
            return Err(bad(
                "implementation_repository needs server_name too, the name of the server there".into()
            ));
        }
        match &self.server_name {
            Some(name) if name.is_empty() || name.len() > MAX_SERVER_NAME => {
                Err(bad(format!("server_name has 1 to {MAX_SERVER_NAME} octets, not {}", name.len())))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            message: self.message_limit,
            // A fragment that is not the last has a length that is a multiple of 8.
            fragment: self.fragment & !7,
            send_timeout: milliseconds(self.send_timeout_ms),
            message_timeout: milliseconds(self.message_timeout_ms),
            slots: SlotLimits {
                pending: self.pending_calls,
                queued: self.queued_calls,
                accepted: self.bidirectional,
            },
            peer: PeerLimits::configured(self.max_peer_calls, self.max_peer_octets),
        }
    }

    pub(crate) fn idle_limits(&self) -> IdleLimits {
        IdleLimits {
            first: milliseconds(self.first_request_timeout_ms),
            between: milliseconds(self.connection_idle_timeout_ms),
        }
    }

    pub(crate) fn admission_limits(&self) -> AdmissionLimits {
        let peer = if self.max_peer_connections == 0 { usize::MAX } else { self.max_peer_connections };
        AdmissionLimits { all: self.max_connections, peer }
    }

    pub(crate) fn connect_timeout(&self) -> Option<Duration> {
        milliseconds(self.connect_timeout_ms)
    }

    pub(crate) fn giop_version(&self) -> Version {
        match self.giop.as_str() {
            "1.0" => Version::V1_0,
            "1.1" => Version::V1_1,
            _ => Version::V1_2,
        }
    }

    /// The form of wide text in a code set that was agreed.
    pub(crate) fn wide(&self, agreed: Wide) -> Wide {
        if agreed == Wide::Utf16 && self.unpaired_surrogates { Wide::Utf16Units } else { agreed }
    }

    pub(crate) fn code_sets(&self) -> CodeSetComponentInfo {
        CodeSetComponentInfo::ours_preferring(match self.char_code_set.as_str() {
            "ISO-8859-1" => Narrow::Latin1,
            _ => Narrow::Utf8,
        })
    }

    pub(crate) fn policies(&self) -> Policies {
        Policies { round_trip_timeout: milliseconds(self.round_trip_timeout_ms), ..Policies::default() }
    }
}

/// Name and value of a `-ORB…` option.
type OrbOption = (String, String);

/// The `-ORB…` options of a command line, and the other arguments.
fn split(args: impl IntoIterator<Item = String>) -> Result<(Vec<OrbOption>, Vec<String>)> {
    let (mut options, mut others) = (Vec::new(), Vec::new());
    let mut args = args.into_iter();
    while let Some(name) = args.next() {
        if name.starts_with("-ORB") {
            let value = args.next().ok_or_else(|| bad(format!("{name} needs a value")))?;
            options.push((name, value));
        } else {
            others.push(name);
        }
    }
    Ok((options, others))
}

fn milliseconds(ms: u64) -> Option<Duration> {
    (ms != 0).then(|| Duration::from_millis(ms))
}

fn bad(sentence: String) -> SystemException {
    SystemException::from(Kind::BadParam).detail(sentence)
}

/// An endpoint as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The name of its transport.
    pub protocol: String,
    /// In the transport's form; for TCP `host:port`, with brackets around an IPv6 host.
    pub address: String,
    /// Host and perhaps port in references.
    pub publish: Option<(String, Option<u16>)>,
    /// Threads of its lane; `None` for a thread for each connection.
    pub lane: Option<usize>,
}

impl Config {
    /// Reads an endpoint: an address in any of its forms, then options, each after a semicolon.
    pub(crate) fn endpoint(&self, endpoint: &str) -> Result<Endpoint> {
        let mut parts = endpoint.split(';');
        let (protocol, address) = endpoint_address(parts.next().unwrap_or_default())?;
        let mut lane = (self.concurrency == Concurrency::Lane).then_some(self.lane_threads);
        let mut publish = None;
        for option in parts {
            match option.split_once('=').unwrap_or((option, "")) {
                ("connection", "") => lane = None,
                ("lane", "") => lane = Some(self.lane_threads),
                ("lane", threads) => match threads.parse() {
                    Ok(threads @ 1..=1024) => lane = Some(threads),
                    _ => {
                        return Err(bad(format!(
                            "endpoint {endpoint}: a lane has 1 to 1024 threads, not {threads}"
                        )));
                    }
                },
                ("publish", at) if !at.is_empty() && matches!(&*protocol, "tcp" | "ssl" | "udp") => {
                    publish = Some(published(at)?)
                }
                _ => {
                    return Err(bad(format!(
                        "endpoint {endpoint}: after ; want lane, lane=THREADS, connection or (TCP, TLS and UDP) publish=HOST"
                    )));
                }
            }
        }
        Ok(Endpoint { protocol, address, publish, lane })
    }
}

/// `HOST`, `HOST:PORT` or `[V6]:PORT`.
fn published(at: &str) -> Result<(String, Option<u16>)> {
    let (host, port) = match at.rsplit_once(':') {
        // With several colons and without brackets, all belong to the host.
        Some((host, _)) if host.contains(':') && !at.starts_with('[') => (at, None),
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (at, None),
    };
    let port = port.map(|port| port.parse().map_err(|_| bad(format!("publish={at}: {port} is no port"))));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host.into(), port.transpose()?))
}

/// Transport and address of an endpoint in any of its forms.
fn endpoint_address(endpoint: &str) -> Result<(String, String)> {
    for (prefix, protocol) in
        [("unix:", "unix"), ("giop:unix:", "unix"), ("uiop://", "unix"), ("segment:", "segment")]
    {
        if let Some(path) = endpoint.strip_prefix(prefix) {
            return Ok((protocol.into(), path.into()));
        }
    }
    for prefix in ["udp:", "giop:udp:", "diop://", "giop:diop:"] {
        if let Some(address) = endpoint.strip_prefix(prefix) {
            return Ok(("udp".into(), tcp_address(address)?));
        }
    }
    match endpoint.strip_prefix("giop:").and_then(|rest| rest.split_once(':')) {
        Some((protocol, address)) if protocol != "tcp" => Ok((protocol.into(), address.into())),
        _ => Ok(("tcp".into(), tcp_address(endpoint)?)),
    }
}

/// Host and port of an endpoint in any of its forms.
fn tcp_address(endpoint: &str) -> Result<String> {
    let wrong = || {
        bad(format!("endpoint {endpoint}: want host:port, [v6]:port, giop:tcp:host:port or iiop://host:port"))
    };
    let rest =
        endpoint.strip_prefix("giop:tcp:").or_else(|| endpoint.strip_prefix("iiop://")).unwrap_or(endpoint);
    let rest = rest.trim_end_matches('/');
    let (host, port) = rest.rsplit_once(':').unwrap_or((rest, "0"));
    let port: u16 = if port.is_empty() { 0 } else { port.parse().map_err(|_| wrong())? };
    if host.contains(':') && !host.starts_with('[') {
        return Err(wrong());
    }
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    Ok(format!("{host}:{port}"))
}

/// Ownership of the file that is read without being named.
#[cfg(feature = "config-file")]
mod owner {
    use super::bad;
    use crate::Result;
    use rustix::process::{getegid, geteuid};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// Refuses a file that another user could have written, in a folder such as `/tmp`.
    ///
    /// # Errors
    /// BAD_PARAM with the file, its owner or mode, and what to do.
    pub fn check(file: &Path) -> Result<()> {
        let refuse = |why: String| {
            let folder = std::env::current_dir().unwrap_or_default();
            let file = folder.join(file);
            Err(bad(format!(
                "{} is not read: {why}; correct its owner or mode, start the program in another folder, \
                 or name the file with -ORBConfig or ISORB_CONFIG if you trust it",
                file.display()
            )))
        };
        let metadata = std::fs::metadata(file)
            .map_err(|error| bad(format!("cannot read {}: {error}", file.display())))?;
        let (owner, group, mode) = (metadata.uid(), metadata.gid(), metadata.mode() & 0o777);
        if !metadata.is_file() {
            return refuse("it is not a regular file".into());
        }
        if owner != geteuid().as_raw() && owner != 0 {
            return refuse(format!("it belongs to user {owner}"));
        }
        // Many systems give each user a group of the same name, and make files writable for it.
        let own_group = group == getegid().as_raw() || group == 0;
        if mode & 0o002 != 0 || mode & 0o020 != 0 && !own_group {
            return refuse(format!(
                "other users may write to it (owner {owner}, group {group}, mode {mode:o})"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Result<(Config, Vec<String>)> {
        Config::from_args(line.split_whitespace().map(String::from))
    }

    #[test]
    fn arguments_are_taken_out() {
        let (config, rest) =
            args("prog -x -ORBInitRef NameService=corbaloc::h/NS -ORBEndPoint giop:tcp::5000 y -ORBGiop 1.1")
                .unwrap();
        assert_eq!(rest, ["prog", "-x", "y"]);
        assert_eq!(config.init_refs["NameService"], "corbaloc::h/NS");
        assert_eq!(tcp_address(&config.endpoints[0]).unwrap(), "127.0.0.1:5000");
        assert_eq!(config.giop_version(), Version::V1_1);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let sentence = |line| args(line).unwrap_err().detail.unwrap().to_string();
        assert!(sentence("-ORBInitRef x").contains("Name=URL"));
        assert!(sentence("-ORBEndPoint").contains("needs a value"));
        assert!(sentence("-ORBNonsense 1").contains("-ORBNonsense"));
        assert!(sentence("-ORBNativeCharCodeSet EBCDIC").contains("EBCDIC"));
        assert!(sentence("-ORBLaneThreads 0").contains("lane_threads"));
        assert!(tcp_address("::1:80").is_err() && tcp_address("h:http").is_err());
        assert_eq!(tcp_address("iiop://[::1]:80/").unwrap(), "[::1]:80");
        assert!(sentence("-ORBEndPoint h:1;lane=0").contains("1 to 1024"));
        assert!(sentence("-ORBEndPoint h:1;fast").contains("want lane"));
    }

    #[test]
    fn an_endpoint_chooses_its_concurrency() {
        let config = Config { concurrency: Concurrency::Lane, lane_threads: 3, ..Config::default() };
        let lane = |endpoint| config.endpoint(endpoint).unwrap().lane;
        assert_eq!(
            [lane("h:1"), lane("h:1;lane=7"), lane("h:1;lane"), lane("h:1;connection")],
            [Some(3), Some(7), Some(3), None]
        );
    }

    #[test]
    fn an_endpoint_names_its_transport_and_what_to_publish() {
        let config = Config::default();
        let at = |endpoint| {
            let Endpoint { protocol, address, publish, .. } = config.endpoint(endpoint).unwrap();
            (protocol, address, publish)
        };
        let plain = |protocol: &str, address: &str| (protocol.to_string(), address.to_string(), None);
        assert_eq!(at("unix:/run/s"), plain("unix", "/run/s"));
        assert_eq!(at("giop:unix:/run/s;lane"), plain("unix", "/run/s"));
        assert_eq!(at("unix:"), plain("unix", ""));
        assert_eq!(at("segment:/run/s"), plain("segment", "/run/s"));
        assert_eq!(at("giop:wire:a:b"), plain("wire", "a:b"));
        assert_eq!(at("giop:tcp:h:1"), plain("tcp", "h:1"));
        let published = |endpoint| at(endpoint).2.unwrap();
        assert_eq!(published("h:1;publish=lab"), ("lab".into(), None));
        assert_eq!(published("h:1;lane=2;publish=lab:7"), ("lab".into(), Some(7)));
        assert_eq!(published("h:1;publish=[::1]:7"), ("::1".into(), Some(7)));
        assert_eq!(published("h:1;publish=[::1]"), ("::1".into(), None));
        assert_eq!(published("h:1;publish=fe80::1"), ("fe80::1".into(), None));
        assert!(config.endpoint("h:1;publish=lab:x").is_err());
        assert!(config.endpoint("unix:/s;publish=lab").is_err());
    }
}
