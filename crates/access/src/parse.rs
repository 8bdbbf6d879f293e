//! Policy files.

use crate::policy::{Grant, Member, Policy, PolicyError, Role};
use crate::scope::{Permission, Scope};
use isorb_transport::PeerProcess;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// The most octets of a policy file.
const LONGEST: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    roles: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    members: Vec<Spanned<String>>,
    may: Vec<Spanned<String>>,
}

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// A file that cannot be read, that other users may write to, or that is no policy: with the
    /// line and a mark below the wrong part.
    pub fn read(file: &Path) -> Result<Policy, PolicyError> {
        let wrong = |why: String| PolicyError(format!("{}: {why}", file.display()));
        let metadata = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?;
        if !metadata.is_file() || metadata.len() > LONGEST {
            return Err(wrong("a policy is a regular file of at most 1 MiB".into()));
        }
        check_owner(&metadata).map_err(wrong)?;
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        Policy::parse(&text, &file.display().to_string())
    }

    /// The policy in `text`; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`Policy::read`].
    pub fn parse(text: &str, name: &str) -> Result<Policy, PolicyError> {
        let wrong = |span: Range<usize>, why: &str| PolicyError(marked(text, name, span, why));
        let file: File = toml::from_str(text)
            .map_err(|error| wrong(error.span().unwrap_or(0..0), error.message().trim_end()))?;
        let mut roles = Vec::new();
        for (role, entry) in file.roles {
            let mut members = Vec::new();
            for text in &entry.members {
                members.push(member(text.get_ref()).map_err(|why| wrong(text.span(), &why))?);
            }
            let mut grants = Vec::new();
            for text in &entry.may {
                grants.push(grant(text.get_ref()).map_err(|why| wrong(text.span(), &why))?);
            }
            roles.push(Role { name: role, members, grants });
        }
        Ok(Policy { roles })
    }
}

fn check_owner(metadata: &std::fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    if owner != 0 && owner != PeerProcess::this().user {
        return Err(format!("it belongs to user {owner}; a policy belongs to the service's user or to root"));
    }
    if mode & 0o022 != 0 {
        return Err(format!("others may write to it (mode {mode:o}); chmod 600 it"));
    }
    Ok(())
}

fn member(text: &str) -> Result<Member, String> {
    let (kind, value) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "anyone" if value.is_empty() => Ok(Member::Anyone),
        "same-user" if value.is_empty() => Ok(Member::User(PeerProcess::this().user)),
        "user" => value.parse().ok().or_else(|| user_number(value)).map(Member::User).ok_or_else(|| {
            format!("this host has no user {value:?} (/etc/passwd); give a name or a number, as in user:1000")
        }),
        "principal" if !value.is_empty() => Ok(Member::Principal(value.into())),
        "certificate" if !value.is_empty() => Ok(Member::Certificate(value.into())),
        "address" => {
            network(value).ok_or_else(|| "give an address or a network, as in address:10.1.0.0/16".into())
        }
        _ => Err(
            "members are anyone, same-user, user:NAME, certificate:NAME, principal:NAME and address:NETWORK"
                .into(),
        ),
    }
}

fn network(text: &str) -> Option<Member> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(width), |bits| bits.parse().ok().filter(|bits| *bits <= width))?;
    Some(Member::Network(address, bits))
}

/// The number of a user of this host.
fn user_number(name: &str) -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

fn grant(text: &str) -> Result<Grant, String> {
    let (name, scope) = text.split_once(':').map_or((text, None), |(name, scope)| (name, Some(scope)));
    let permission =
        Permission::ALL.into_iter().find(|permission| permission.name() == name).ok_or_else(|| {
            let names = Permission::ALL.map(Permission::name).join(", ");
            format!("there is no permission {name:?}; permissions are {names}")
        })?;
    let scope = scope.map(|scope| Scope::parse(permission, scope)).transpose()?;
    Ok(Grant { permission, scope })
}

/// An error with its line, and a mark below the wrong part.
fn marked(text: &str, name: &str, span: Range<usize>, why: &str) -> String {
    let start = text.floor_char_boundary(span.start);
    let begin = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line = text[begin..].lines().next().unwrap_or("");
    let (number, column) = (text[..start].matches('\n').count() + 1, text[begin..start].chars().count());
    let end = text.floor_char_boundary(span.end.min(begin + line.len())).max(start);
    let width = text[start..end].chars().count().max(1);
    let margin = " ".repeat(number.to_string().len());
    format!(
        "{name}:{number}:{}: {why}\n{number} | {line}\n{margin} | {}{}",
        column + 1,
        " ".repeat(column),
        "^".repeat(width)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Caller;
    use crate::scope::Subject;
    use isorb_transport::{PeerCertificate, PeerIdentity};
    use std::sync::Arc;

    const GOOD: &str = r#"
[roles.radar]
members = ["certificate:radar", "user:0"]
may = ["read", "supply:16..31", "write:radar*", "bind:lab/*"]

[roles.everyone]
members = ["anyone"]
may = ["read"]
"#;

    #[test]
    fn what_no_role_grants_is_denied() {
        let policy = Policy::parse(GOOD, "p").unwrap();
        let certificate = PeerCertificate { common_name: "radar".into(), ..PeerCertificate::default() };
        let radar = PeerIdentity { certificate: Some(Arc::new(certificate)), ..PeerIdentity::default() };
        let (radar, unknown) = (Caller::Peer(&radar, None), Caller::Unknown);
        for (permission, subject, expected) in [
            (Permission::Read, None, [true, true]),
            (Permission::Supply, Some(Subject::EventType(16)), [true, false]),
            (Permission::Supply, Some(Subject::EventType(32)), [false, false]),
            (Permission::Supply, None, [false, false]),
            (Permission::Write, Some(Subject::Name("radar/front")), [true, false]),
            (Permission::Write, Some(Subject::Name("sonar")), [false, false]),
            (Permission::Bind, Some(Subject::Name("lab/t1")), [true, false]),
            (Permission::Administer, None, [false, false]),
        ] {
            let found = [radar, unknown].map(|caller| policy.allows(caller, permission, subject));
            assert_eq!(found, expected, "{permission:?} {subject:?}");
        }
        assert!(policy.allows(Caller::Process, Permission::Administer, None));
    }

    #[test]
    fn a_principal_is_another_member_than_a_user_or_certificate_of_its_name() {
        let text = "[roles.a]\nmembers = [\"principal:radar\"]\nmay = [\"bind\"]\n";
        let policy = Policy::parse(text, "p").unwrap();
        let certificate = PeerCertificate { common_name: "radar".into(), ..PeerCertificate::default() };
        let peer = PeerIdentity { certificate: Some(Arc::new(certificate)), ..PeerIdentity::default() };
        let may = |caller| policy.allows(caller, Permission::Bind, None);
        assert!(may(Caller::Principal(&peer, None, "radar")));
        assert!(!may(Caller::Principal(&peer, None, "sonar")) && !may(Caller::Peer(&peer, Some(0))));
    }

    #[test]
    fn errors_say_where_and_what_to_do() {
        for (wrong, at, why) in [
            (
                "[roles.a]\nmembers = [\"anyone\"]\nmay = [\"read\", \"wirte:x\"]\n",
                "3:16",
                "no permission \"wirte\"",
            ),
            ("[roles.a]\nmembers = [\"all\"]\nmay = []\n", "2:12", "members are anyone"),
            ("[roles.a]\nmembers = [\"user:no-such-user\"]\nmay = []\n", "2:12", "no user"),
            ("[roles.a]\nmembers = [\"address:10.0.0.0/33\"]\nmay = []\n", "2:12", "as in address:"),
            ("[roles.a]\nmembers = []\nmay = [\"supply:x\"]\n", "3:8", "as in supply:16"),
            ("[roles.a]\nmembers = []\nmay = []\ncan = []\n", "4:1", "unknown field `can`"),
            ("[roles.a\n", "1:9", ""),
            ("", "1:1", "missing field `roles`"),
        ] {
            let error = Policy::parse(wrong, "policy.toml").unwrap_err().to_string();
            assert!(error.starts_with(&format!("policy.toml:{at}: ")), "{error}");
            assert!(error.contains(why), "{error}");
            assert!(
                error.lines().last().unwrap().trim_start().starts_with("| ") || wrong.is_empty(),
                "{error}"
            );
        }
        let marked =
            Policy::parse("[roles.a]\nmembers = []\nmay = [\"rad\"]\n", "p").unwrap_err().to_string();
        assert!(marked.ends_with("3 | may = [\"rad\"]\n  |        ^^^^^"), "{marked}");
    }

    #[test]
    fn any_octets_are_safe() {
        for end in 0..GOOD.len() {
            let _ = Policy::parse(&GOOD[..end], "p");
        }
        let _ = Policy::parse("é = \"ü", "p");
    }
}
