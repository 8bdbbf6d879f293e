//! The members of an etcd cluster, and the one that is asked at present.

use etcd_client::{Client, ConnectOptions, Error, GetResponse, KvClient, Txn, TxnOp, TxnOpResponse};
use isorb_rt::log;
use isorb_rt::sync::PiMutex;
use isorb_store::Fault;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How long one member may take. A member that lives but has no leader holds its answer back.
const ATTEMPT: Duration = Duration::from_millis(700);
/// Between two rounds of all members.
const PAUSE: Duration = Duration::from_millis(20);
const TARGET: &str = "isorb::etcd";

/// An etcd cluster, and a prefix of its keys.
pub struct Cluster {
    runtime: Runtime,
    endpoints: Vec<String>,
    prefix: String,
    answer: Duration,
    members: PiMutex<Members>,
}

impl Debug for Cluster {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Cluster { endpoints, prefix, .. } = self;
        f.debug_struct("Cluster")
            .field("endpoints", endpoints)
            .field("prefix", prefix)
            .finish_non_exhaustive()
    }
}

struct Members {
    current: usize,
    clients: Vec<Option<KvClient>>,
    /// No member has answered for as long as a call waits; said once.
    silent: bool,
}

/// What a transaction ended in.
pub(crate) struct Answer {
    /// Whether its comparisons held.
    pub succeeded: bool,
    /// The results of its reads, in order.
    pub reads: Vec<GetResponse>,
    /// An earlier attempt got no answer, and may have been carried out.
    pub repeated: bool,
}

impl Cluster {
    /// The cluster with these members (`http://host:port`). All keys begin with `prefix`. Calls
    /// wait 3 s for an answer. Connects on first use.
    ///
    /// # Errors
    /// `InvalidInput` without a member; the error of the operating system.
    pub fn new<E: Into<String>>(
        endpoints: impl IntoIterator<Item = E>,
        prefix: impl Into<String>,
    ) -> io::Result<Cluster> {
        let endpoints: Vec<String> = endpoints.into_iter().map(Into::into).collect();
        if endpoints.is_empty() {
            let sentence = "no member of an etcd cluster is named; name one or more as http://host:2379";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        // Connections are served while a call waits, and in between.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("isorb-etcd")
            .enable_io()
            .enable_time()
            .build()?;
        let clients = endpoints.iter().map(|_| None).collect();
        let members = PiMutex::new(Members { current: 0, clients, silent: false });
        let answer = Duration::from_secs(3);
        Ok(Cluster { runtime, endpoints, prefix: prefix.into(), answer, members })
    }

    /// Calls wait so long for an answer, instead of 3 s. An election takes one to two election
    /// time-outs of the servers.
    #[must_use]
    pub fn answer_within(mut self, answer: Duration) -> Cluster {
        self.answer = answer;
        self
    }

    /// A key of this cluster.
    pub(crate) fn key(&self, parts: &[&[u8]]) -> Vec<u8> {
        let mut key = self.prefix.clone().into_bytes();
        for part in parts {
            key.push(b'/');
            key.extend_from_slice(part);
        }
        key
    }

    /// Reads, all at one revision.
    pub(crate) fn read(&self, reads: impl Into<Vec<TxnOp>>) -> Result<Vec<GetResponse>, Fault> {
        Ok(self.txn(Txn::new().and_then(reads))?.reads)
    }

    /// Carries out a transaction, more than once where a member does not answer:
    /// [`Answer::repeated`].
    pub(crate) fn txn(&self, txn: Txn) -> Result<Answer, Fault> {
        let end = Instant::now() + self.answer;
        let mut repeated = false;
        for attempt in 1.. {
            let member = self.members.lock().current;
            let failure = match self.attempt(member, &txn) {
                Ok(response) => {
                    self.answered(member);
                    let reads = response.op_responses().into_iter().filter_map(|response| match response {
                        TxnOpResponse::Get(read) => Some(read),
                        _ => None,
                    });
                    return Ok(Answer { succeeded: response.succeeded(), reads: reads.collect(), repeated });
                }
                Err(Some(error)) if let Some(fault) = refusal(&error) => {
                    log::error(
                        TARGET,
                        format_args!("{} refused a transaction: {error}", self.endpoints[member]),
                    );
                    return Err(fault);
                }
                Err(failure) => failure,
            };
            repeated = true;
            self.leave_member(member);
            if Instant::now() >= end {
                self.log_silent(failure.as_ref());
                return Err(Fault::Io(io::ErrorKind::TimedOut));
            }
            if attempt % self.endpoints.len() == 0 {
                std::thread::sleep(PAUSE);
            }
        }
        unreachable!("attempts end with the time")
    }

    /// Asks one member; `None` where it did not answer in time.
    fn attempt(&self, member: usize, txn: &Txn) -> Result<etcd_client::TxnResponse, Option<Error>> {
        let known = self.members.lock().clients[member].clone();
        let endpoint = &self.endpoints[member];
        let query = async {
            let mut client = match known {
                Some(client) => client,
                None => {
                    let options = ConnectOptions::new().with_connect_timeout(ATTEMPT / 2);
                    let client = Client::connect([endpoint], Some(options)).await?.kv_client();
                    self.members.lock().clients[member] = Some(client.clone());
                    client
                }
            };
            client.txn(txn.clone()).await
        };
        // The timer is made inside of the runtime.
        let answered = self.runtime.block_on(async { timeout(ATTEMPT, query).await });
        answered.map_err(|_| None)?.map_err(Some)
    }

    /// Asks another member from now on.
    fn leave_member(&self, member: usize) {
        let mut members = self.members.lock();
        members.clients[member] = None;
        if members.current == member {
            members.current = (member + 1) % self.endpoints.len();
        }
    }

    fn answered(&self, member: usize) {
        if std::mem::take(&mut self.members.lock().silent) {
            log::info(TARGET, format_args!("{} answers again", self.endpoints[member]));
        }
    }

    fn log_silent(&self, failure: Option<&Error>) {
        if !std::mem::replace(&mut self.members.lock().silent, true) {
            let reason = failure.map_or("no answer".to_string(), ToString::to_string);
            let (members, answer) = (self.endpoints.join(", "), self.answer);
            log::error(
                TARGET,
                format_args!(
                    "no member of {members} answered within {answer:?} ({reason}); calls fail until one does"
                ),
            );
        }
    }
}

/// The fault of an answer that another member would give too.
fn refusal(error: &Error) -> Option<Fault> {
    const INVALID_ARGUMENT: i32 = 3;
    const PERMISSION_DENIED: i32 = 7;
    const RESOURCE_EXHAUSTED: i32 = 8;
    const UNAUTHENTICATED: i32 = 16;
    let kind = match error {
        Error::GRpcStatus(status) => match status.code() as i32 {
            INVALID_ARGUMENT => io::ErrorKind::InvalidInput,
            PERMISSION_DENIED | UNAUTHENTICATED => io::ErrorKind::PermissionDenied,
            // etcd's quota. It says the same of a member with too many requests, which passes.
            RESOURCE_EXHAUSTED if status.message().contains("space") => io::ErrorKind::StorageFull,
            _ => return None,
        },
        Error::InvalidArgs(_) | Error::InvalidUri(_) => io::ErrorKind::InvalidInput,
        _ => return None,
    };
    Some(Fault::Io(kind))
}
