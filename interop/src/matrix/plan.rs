//! The pairs and their modes.

use super::Selection;
use super::naming::Service;
use super::pair::Pairing;
use super::peers::Peer;

/// The modes by name; naming services are `omninames`, `isorb-naming`, `jacorb-naming`.
pub const MODES: &[&str] = &[
    "plain",
    "lane",
    "giop10",
    "giop11",
    "utf8",
    "mixed-codesets",
    "bidir",
    "shared",
    "fragments",
    "lane-fragments",
    "tls",
    "unix",
    "real-time",
    "dii",
    "dsi",
    "interleaving",
];

/// The cases with small fragments.
const LONG: &str = "strings,sequences,anys,recursive,user_exceptions,oneways,large,parallel";
const BIDIRECTIONAL: &str = "bidirectional,oneways,large";
const TEXT: &str = "strings,sequences,structs,wides";
/// The cases of dynamic calls and servants: without fragments and call-backs over the connection,
/// which do not depend on them, and contexts, which dynamic operations do not have.
const DYNAMIC: &str = "scalars,floats,strings,wides,wide_chars,enums,structs,unions,union_labels,sequences,arrays,fixeds,\
                       fixed_zeros,recursive,typedefs,anys,typecodes,references,factories,inheritance,objects,\
                       user_exceptions,system_exceptions,attributes,attribute_exceptions,oneways,callbacks,\
                       timeouts,parallel";

/// isorb with itself and with each of the present peers, both ways.
pub(super) fn pairings(present: &[Peer], selection: &Selection, certificates: &str) -> Vec<Pairing> {
    let isorb = std::iter::once((Peer::Isorb, Peer::Isorb));
    let others = present.iter().flat_map(|peer| [(*peer, Peer::Isorb), (Peer::Isorb, *peer)]);
    let mut all = Vec::new();
    for (server, client) in isorb.chain(others) {
        for mode in MODES {
            if Selection::wants(&selection.modes, mode) {
                all.extend(pairing(server, client, mode, certificates));
            }
        }
    }
    all
}

fn pairing(server: Peer, client: Peer, mode: &str, certificates: &str) -> Option<Pairing> {
    let mut p = Pairing::new(server, client, mode);
    let own_server = server == Peer::Isorb;
    match mode {
        "plain" => p.server(own_server, "-ORBConcurrency connection"),
        "lane" if own_server => p.server(true, "-ORBConcurrency lane -ORBLaneThreads 8"),
        "giop10" => p.both("--giop 1.0"),
        "giop11" => p.both("--giop 1.1"),
        "utf8" => p.both("--utf8").only("scalars,utf8_strings,strings,sequences,anys"),
        "mixed-codesets" => p.server(true, "--utf8").only(TEXT),
        "bidir" => p.both("--bidir").only(BIDIRECTIONAL),
        "shared" => {
            let omni = matches!(client, Peer::OmniOrb | Peer::OmniOrbPy);
            p.client(client == Peer::Isorb, "-ORBConnectionsPerServer 1")
                .client(omni, "-ORBoneCallPerConnection 0 -ORBmaxGIOPConnectionPerServer 1")
                .server(own_server, "-ORBConcurrency lane")
                .only("parallel,large,oneways,callbacks,timeouts")
        }
        "fragments" => p
            .server(own_server, "-ORBFragment 1024")
            .client(client == Peer::Isorb, "-ORBFragment 1024")
            .only(LONG),
        "lane-fragments" if own_server => p.server(true, "-ORBConcurrency lane -ORBFragment 4096").only(LONG),
        // Python's omniORB is based on the C++ one, and its package lacks this transport.
        "tls" if server != Peer::OmniOrbPy && client != Peer::OmniOrbPy => {
            p.both(&format!("--tls {certificates}")).only("scalars,strings,sequences,oneways,large,parallel")
        }
        // omniORB's references name sockets in its own form; no other ORB has any.
        "unix" if [server, client].iter().all(|peer| matches!(peer, Peer::Isorb | Peer::OmniOrb)) => {
            let socket = format!("--unix {certificates}/{}-{}", server.name(), client.name());
            p.both(&socket).only("scalars,strings,sequences,oneways,large,parallel")
        }
        "dii" if client == Peer::Isorb => p.client(true, "--dynamic").only(DYNAMIC),
        "dsi" if own_server => p.server(true, "--dynamic").only(DYNAMIC),
        "interleaving" => p.client(true, "--interleave").only("interleaving"),
        "real-time" if own_server => {
            p.server(true, "--rt").only("scalars,strings,sequences,oneways,large,parallel,timeouts")
        }
        _ => return None,
    };
    Some(p)
}

/// A server that binds itself and a client that finds it by name, with isorb on either side; the
/// client then uses the whole service.
pub(super) fn through_naming(service: Service, url: &str, present: &[Peer]) -> Vec<Pairing> {
    let isorb = std::iter::once((Peer::Isorb, Peer::Isorb));
    let others = present.iter().flat_map(|peer| [(*peer, Peer::Isorb), (Peer::Isorb, *peer)]);
    // Pairs of other ORBs with isorb's own service test the service, too.
    let strangers = present.iter().filter(|_| service == Service::Isorb).map(|peer| (*peer, *peer));
    isorb
        .chain(others)
        .chain(strangers)
        .map(|(server, client)| {
            let path = format!("interop/{}-{}", server.name(), client.name());
            let mut p = Pairing::new(server, client, service.name());
            // JacORB's service differs in to_url and changes references; binding and resolving
            // work.
            p.only(if service == Service::JacOrb { "scalars" } else { "scalars,naming" });
            p.server(true, &format!("--ns {url} --name {path}")).client(true, &format!("--ns {url}"));
            let name = url.replacen("corbaloc:", "corbaname:", 1).replace("/NameService", "");
            p.reference = Some(format!("{name}#{path}"));
            p
        })
        .collect()
}
