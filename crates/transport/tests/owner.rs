//! The user behind a connection inside this host is found at the same cost however many sockets
//! there are.

use isorb_rt::alloc_count::{CountingAllocator, allocations_during};
use isorb_transport::{PeerProcess, Tcp, Transport, Wait};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const CONNECTIONS: usize = 200;

/// Octets that this process has read from files. Those of sockets are not among them.
fn octets_read() -> u64 {
    let counts = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

#[test]
fn among_many_sockets_one_query_finds_the_user() {
    let own = PeerProcess::this().user;
    for host in ["127.0.0.1", "[::1]"] {
        let Ok(listener) = Tcp.listen(&format!("{host}:0")) else {
            println!("skipped: no {host} here");
            continue;
        };
        let connections: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let client = Tcp.connect(listener.address(), None).unwrap();
                (client, listener.accept(Wait::Block).unwrap())
            })
            .collect();
        let identities: Vec<_> = connections.iter().map(|(_, stream)| stream.identity()).collect();
        let table = if host == "[::1]" { "/proc/net/tcp6" } else { "/proc/net/tcp" };
        let before = octets_read();
        let table = std::fs::read_to_string(table).unwrap().len() as u64;
        let with_table = octets_read();
        assert!(with_table - before > table && table > 100 * CONNECTIONS as u64, "the counter counts");
        let allocated = allocations_during(|| {
            for identity in &identities {
                assert_eq!(identity.user(), Some(own));
            }
        });
        // Less than one table for all of them.
        let read = octets_read() - with_table;
        assert!(read < table, "{read} octets of files were read, the table has {table}");
        assert_eq!(allocated, 0);
    }
}
