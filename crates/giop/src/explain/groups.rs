//! Explanations of groups in references and URLs.

use super::{Lines, address};
use crate::component::TaggedComponent;
use crate::header::minor_version;
use crate::miop::{Group, TAG_GROUP, TAG_GROUP_IIOP, UipmcProfile};
use crate::profile::{IiopProfile, TAG_INTERNET_IOP, TAG_UIPMC};
use alloc::format;

impl Lines {
    pub(super) fn uipmc(&mut self, profile: &UipmcProfile) {
        self.line(&format!("MIOP version: 1.{}", minor_version(profile.version)));
        self.line(&format!("multicast group: {}, UDP", address(&profile.address, profile.port)));
        self.components(TAG_UIPMC, &profile.components);
    }

    /// Explains a component of groups; false for any other component.
    pub(super) fn of_groups(&mut self, tagged: &TaggedComponent) -> bool {
        match tagged.tag {
            TAG_GROUP => match Group::parse(&tagged.data) {
                Ok(group) => self.group(&group),
                Err(error) => self.malformed(&tagged.data, error),
            },
            TAG_GROUP_IIOP => match IiopProfile::parse(&tagged.data) {
                Ok(profile) => {
                    self.line("for requests that are answered:");
                    self.indented(|lines| lines.iiop(TAG_INTERNET_IOP, &profile, &tagged.data));
                }
                Err(error) => self.malformed(&tagged.data, error),
            },
            _ => return false,
        }
        true
    }

    pub(super) fn group(&mut self, group: &Group) {
        let Group { domain, id, ref_version } = group;
        self.line(&format!(
            "object group: number {id} of domain {domain:?}, reference version {ref_version}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::ObjectUrl;
    use crate::explain::{explain, explain_ior};

    #[test]
    fn groups() {
        let url = "corbaloc:miop:1.0@1.0-d-1/225.1.1.1:5000;iiop:lab:9/key";
        let ObjectUrl::Corbaloc(corbaloc) = url.parse().unwrap() else { panic!() };
        let of_ior = explain_ior(&corbaloc.to_ior().unwrap());
        let group = r#"object group: number 1 of domain "d", reference version 0"#;
        for part in ["TAG_UIPMC (tag 0x3)", "MIOP version: 1.0", "TAG_GROUP (tag 0x27)", "answered", "lab:9"]
        {
            assert!(of_ior.contains(part), "{part} is not in\n{of_ior}");
        }
        for text in [of_ior, explain(url).unwrap()] {
            for part in ["multicast group: 225.1.1.1:5000, UDP", group, "lab:9"] {
                assert!(text.contains(part), "{part} is not in\n{text}");
            }
        }
        assert!(explain("corbaloc:diop:h/k").unwrap().contains("h:2809, GIOP 1.2 over UDP"));
    }
}
