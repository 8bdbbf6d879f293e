//! What is logged of a member's links: each change once, and only what is known.

use super::LinkId;
use super::node::Neighbour;
use isorb_rt::log::Level;
use std::collections::BTreeMap;

/// What was logged last.
#[derive(Default)]
pub(super) struct LinkLog {
    neighbours: BTreeMap<LinkId, Neighbour>,
}

impl LinkLog {
    /// The sentences about the links that changed since the last call. `was_tried` tells whether a
    /// message was sent to the neighbour at the other end, with whatever outcome: a link that is
    /// down without one is new, and nothing is known of its neighbour.
    pub fn changes(
        &mut self,
        neighbours: &[Neighbour],
        was_tried: impl Fn(LinkId) -> bool,
    ) -> Vec<(Level, String)> {
        let mut sentences = Vec::new();
        let before = std::mem::take(&mut self.neighbours);
        for neighbour in neighbours {
            let former = before.get(&neighbour.link);
            let (had, was_up) = former.map_or((&[][..], true), |former| (&former.channels, former.up));
            let now = &neighbour.channels;
            let up = neighbour.up || was_up && !was_tried(neighbour.link);
            match (now.is_empty(), up) {
                (false, true) if had != now || !was_up => {
                    sentences.push((Level::Info, format!("linked to {neighbour}")));
                }
                (_, false) if was_up => {
                    let sentence = format!("{neighbour} does not answer; events for it wait in the history");
                    sentences.push((Level::Warn, sentence));
                }
                (true, true) if !had.is_empty() => {
                    sentences.push((Level::Warn, format!("{neighbour} has fallen silent")));
                }
                _ => {}
            }
            self.neighbours.insert(neighbour.link, Neighbour { up, ..neighbour.clone() });
        }
        for (link, former) in &before {
            if !self.neighbours.contains_key(link) && !former.channels.is_empty() {
                sentences.push((Level::Warn, format!("the link to {former} has ended")));
            }
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_down_when_a_message_failed_and_not_when_none_was_sent() {
        let mut log = LinkLog::default();
        let mut look = |channels: &[u64], up, was_tried| {
            let (address, channels) = ("10.0.0.1:5".into(), channels.to_vec());
            let neighbour = Neighbour { link: LinkId(1), address, channels, up, clock: None };
            let changes = log.changes(&[neighbour], |_| was_tried);
            changes.into_iter().map(|(_, sentence)| sentence).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        // This end is made before the other one is known.
        assert_eq!(look(&[], false, false), none);
        assert_eq!(look(&[], false, false), none);
        assert_eq!(look(&[2], true, true), ["linked to channel 2 at 10.0.0.1:5"]);
        assert_eq!(look(&[2], true, true), none);
        let down = "channel 2 at 10.0.0.1:5 does not answer; events for it wait in the history";
        assert_eq!(look(&[2], false, true), [down]);
        assert_eq!(look(&[2], false, true), none);
        assert_eq!(look(&[2], true, true), ["linked to channel 2 at 10.0.0.1:5"]);
        assert_eq!(look(&[], true, true), ["the neighbour at 10.0.0.1:5 has fallen silent"]);
    }

    #[test]
    fn a_neighbour_that_never_answered_is_logged_once_a_message_failed() {
        let mut log = LinkLog::default();
        let neighbour = Neighbour {
            link: LinkId(1),
            address: String::new(),
            channels: Vec::new(),
            up: false,
            clock: None,
        };
        assert_eq!(log.changes(std::slice::from_ref(&neighbour), |_| false), []);
        let changes = log.changes(&[neighbour], |_| true);
        assert!(
            matches!(&changes[..], [(Level::Warn, text)] if text.contains("does not answer")),
            "{changes:?}"
        );
        assert_eq!(log.changes(&[], |_| true), []);
    }
}
