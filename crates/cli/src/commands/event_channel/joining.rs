//! The neighbours that `--join` names, and which hosts may be neighbours.

use super::LOG;
use super::arguments::Args;
use isorb::{Kind, Orb};
use isorb_event::federation::{Federation, LinkId, MIN_KEY, MemberKey, Security};
use isorb_event::servants::{FederationServant, LinkError, beyond_this_host};
use isorb_rt::log;
use std::error::Error;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// Announcements missed before a neighbour is forgotten. Its state is lost then, so that a busy
/// machine must not look like a silent one.
const TIMEOUT: u64 = 30;

/// The hosts that the channel exchanges events with.
pub fn security(args: &Args) -> Result<Security, Box<dyn Error>> {
    if let Some(file) = &args.key_file {
        return Ok(Security::Key(read_key(file).map_err(|why| format!("{}: {why}", file.display()))?));
    }
    if args.insecure {
        log::warn(
            LOG,
            format_args!(
                "--insecure: any host that reaches this channel can join its federation, and forge and read events"
            ),
        );
        return Ok(Security::Insecure);
    }
    Ok(Security::Loopback)
}

/// The key of a file that only its user reads, without white space at its end.
fn read_key(file: &Path) -> Result<MemberKey, String> {
    let mode = std::fs::metadata(file).map_err(|error| error.to_string())?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(format!("others can read or write this key (mode {:o}); chmod 600 it", mode & 0o777));
    }
    let octets = std::fs::read(file).map_err(|error| error.to_string())?;
    let octets = octets.trim_ascii_end();
    MemberKey::new(octets)
        .ok_or_else(|| format!("a key has at least {MIN_KEY} octets, this one {}", octets.len()))
}

/// Refuses a URL that can never become a reference, or is beyond this host without a key. An
/// unreachable host or an unbound name may be there later.
pub fn is_reference(orb: &Orb, url: &str, security: &Security) -> Result<(), String> {
    if url.starts_with("corbaname:") {
        return Ok(());
    }
    match orb.string_to_object(url) {
        Err(error)
            if matches!(
                error.kind,
                Kind::BadParam | Kind::InvObjref | Kind::DataConversion | Kind::Marshal
            ) =>
        {
            Err(format!("--join {url}: {error}"))
        }
        Ok(object) if matches!(security, Security::Loopback) => match beyond_this_host(&object) {
            Some(host) => Err(format!("--join {url}: {}", LinkError::BeyondThisHost(host))),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// A neighbour of `--join`.
struct Joined<'a> {
    url: &'a str,
    link: Option<LinkId>,
    /// Why it is not joined, as it was logged.
    logged: Option<String>,
}

impl Joined<'_> {
    /// Joins the neighbour if it is not. Logs why it cannot, once for each reason.
    fn keep(&mut self, orb: &Orb, federation: &Federation, neighbourhood: &FederationServant) {
        if let Some(lost) = self.link.take_if(|link| !federation.is_up(*link)) {
            // The neighbour may have restarted; its old link is of no use then.
            federation.leave(lost);
        }
        if self.link.is_some() {
            return;
        }
        let object = orb.string_to_object(self.url).map_err(|error| error.to_string());
        let joined = object.and_then(|object| neighbourhood.join(&object).map_err(|error| error.to_string()));
        let why = joined.map(|link| self.link = Some(link)).err();
        if let Some(why) = why.as_ref().filter(|why| self.logged.as_ref() != Some(why)) {
            log::warn(
                "isorb::federation",
                format_args!(
                    "channel {}: not linked to {}: {why}; it is tried again with each tick",
                    federation.id(),
                    self.url
                ),
            );
        }
        self.logged = why;
    }
}

/// Joins the neighbours that are not joined yet, repeatedly, and announces this channel to all.
pub fn keep_joined(
    orb: &Orb,
    federation: &Federation,
    neighbourhood: &FederationServant,
    join: &[String],
    tick: Duration,
) {
    let mut neighbours: Vec<_> = join.iter().map(|url| Joined { url, link: None, logged: None }).collect();
    while !orb.is_shut_down() {
        neighbours.iter_mut().for_each(|neighbour| neighbour.keep(orb, federation, neighbourhood));
        let ns = u64::try_from(tick.as_nanos()).unwrap_or(u64::MAX);
        federation.tick(isorb_rt::time::now_ns(), ns.saturating_mul(TIMEOUT));
        std::thread::sleep(tick);
    }
}
