//! The description of a federation: its channels with their schedule files, its links, and the
//! events that cross them.
//!
//! ```toml
//! levels = [0, 8192, 16384, 24576]  # the CORBA priorities at which the levels of links begin
//!
//! [[channel]]
//! name = "radar"
//! schedule = "radar.toml"           # as `isorb scheduler --record` writes it
//! gateway = "30 us"                 # the worst case of a gateway for an event
//!
//! [[link]]
//! name = "up"
//! from = "radar"
//! to = "display"
//! rate = "100 Mbit/s"
//! delay = "200 us"
//! clock_error = "150 us"
//!
//! [[event]]
//! from = "radar/imu"
//! to = ["display/show"]
//! octets = 256
//! ```

use super::text::{ChannelText, EventText, LinkText, Text};
use super::{ChannelLink, ChannelNode, FederationError, Marking, RemoteEvent, Site, Topology};
use crate::Link;
use crate::file::{FileError, ScheduleFile};
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

/// The packets of a link that declares none: an Ethernet frame with TCP.
const PACKET: u64 = 1_448;
/// Octets around such a packet on the wire: TCP with time stamps, IP, Ethernet, preamble and gap.
const OVERHEAD: u64 = 90;
/// The levels of a federation that declares none.
const LEVELS: [u16; 4] = [0, 8_192, 16_384, 24_576];

/// A parsed description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederationFile {
    /// The file's name in messages.
    pub name: String,
    /// What it describes.
    pub topology: Topology,
    /// Warnings of the schedule files.
    pub warnings: Vec<FileError>,
    lines: BTreeMap<String, usize>,
}

/// A description that cannot be read or analysed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyError(FileError);

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for TopologyError {}

impl FederationFile {
    /// Parses `text`; `name` is the file's name in messages. `schedule` reads a schedule file by
    /// its name in the description.
    ///
    /// # Errors
    /// [`TopologyError`], with file and line: invalid TOML, an unknown key or name, a schedule file
    /// that cannot be read.
    pub fn parse(
        name: &str,
        text: &str,
        schedule: impl Fn(&str) -> Result<String, String>,
    ) -> Result<FederationFile, TopologyError> {
        let reader = Reader { name, text };
        let read: Text = toml::from_str(text).map_err(|fault| {
            let at = fault.span().map_or(0, |span| span.start);
            reader.error(at, fault.message().to_string())
        })?;
        let mut names = Names::default();
        let mut warnings = Vec::new();
        let mut channels = Vec::new();
        for channel in &read.channel {
            names.channels.add(&reader, &channel.name, "channel")?;
            channels.push(reader.channel(channel, &schedule, &mut warnings)?);
        }
        let mut links = Vec::new();
        for link in read.link {
            links.extend(reader.links(&link, &mut names)?);
        }
        let mut events = Vec::new();
        for event in &read.event {
            events.push(reader.event(event, &mut names, &channels)?);
        }
        let levels = read.levels.map_or(LEVELS.to_vec(), Spanned::into_inner);
        let lines = [names.channels, names.links, names.events].into_iter().flat_map(|names| names.lines);
        Ok(FederationFile {
            name: name.to_string(),
            topology: Topology { channels, links, events, levels },
            warnings,
            lines: lines.collect(),
        })
    }

    /// Where an error of [`Topology::check`] is in the file.
    #[must_use]
    pub fn at(&self, error: &FederationError) -> TopologyError {
        let line = self.lines.get(&error.about).copied().unwrap_or(1);
        TopologyError(FileError { file: self.name.clone(), line, message: error.to_string() })
    }
}

/// Names of one kind, their indices and lines.
#[derive(Default)]
struct Known {
    index: BTreeMap<String, usize>,
    lines: BTreeMap<String, usize>,
}

#[derive(Default)]
struct Names {
    channels: Known,
    links: Known,
    events: Known,
}

impl Known {
    fn add(&mut self, reader: &Reader<'_>, name: &Spanned<String>, what: &str) -> Result<(), TopologyError> {
        let (at, name) = (name.span().start, name.get_ref());
        if name.is_empty() || what == "channel" && name.contains('/') {
            return Err(reader.error(at, format!("a {what} needs a name, without a slash: \"{name}\"")));
        }
        let next = self.index.len();
        if self.index.insert(name.clone(), next).is_some() {
            return Err(reader.error(at, format!("{name}: there is a {what} of this name already")));
        }
        self.lines.insert(name.clone(), reader.line(at));
        Ok(())
    }

    fn find(&self, reader: &Reader<'_>, name: &Spanned<String>, what: &str) -> Result<usize, TopologyError> {
        let unknown = || {
            let message = format!("{}: there is no {what} of this name", name.get_ref());
            reader.error(name.span().start, message)
        };
        self.index.get(name.get_ref()).copied().ok_or_else(unknown)
    }
}

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        before.iter().filter(|octet| **octet == b'\n').count() + 1
    }

    fn error(&self, at: usize, message: String) -> TopologyError {
        TopologyError(FileError { file: self.name.to_string(), line: self.line(at), message })
    }

    fn channel(
        &self,
        channel: &ChannelText,
        schedule: &impl Fn(&str) -> Result<String, String>,
        warnings: &mut Vec<FileError>,
    ) -> Result<ChannelNode, TopologyError> {
        let file = channel.schedule.get_ref();
        let text = schedule(file)
            .map_err(|why| self.error(channel.schedule.span().start, format!("{file}: {why}")))?;
        let read = ScheduleFile::parse(file, &text).map_err(TopologyError)?;
        if read.processors.len() > 1 {
            let why = format!(
                "{file}: it names several processors, and a channel of a federation is analysed on one"
            );
            return Err(self.error(channel.schedule.span().start, why));
        }
        warnings.extend(read.warnings);
        Ok(ChannelNode {
            name: channel.name.get_ref().clone(),
            config: read.config,
            graph: read.graph,
            gateway: channel.gateway.0,
        })
    }

    /// A link, and the one in the other direction if it has both.
    fn links(&self, link: &LinkText, names: &mut Names) -> Result<Vec<ChannelLink>, TopologyError> {
        names.links.add(self, &link.name, "link")?;
        let from = names.channels.find(self, &link.from, "channel")?;
        let to = names.channels.find(self, &link.to, "channel")?;
        let at = link.name.span().start;
        if from == to {
            return Err(self.error(at, format!("{}: it leads to where it begins", link.name.get_ref())));
        }
        if link.marked
            && let Some(queue) = &link.queue
        {
            let message = format!(
                "{}: marked events wait for one packet of other traffic only: remove queue, or say marked = false",
                link.name.get_ref()
            );
            return Err(self.error(queue.span().start, message));
        }
        let one = ChannelLink {
            name: link.name.get_ref().clone(),
            from,
            to,
            wire: Link {
                bits_per_second: link.rate.0,
                packet_octets: link.packet.unwrap_or(PACKET),
                overhead_octets: link.overhead.unwrap_or(OVERHEAD),
            },
            delay: link.delay.0,
            clock_error: link.clock_error.0,
            marking: match link.marked {
                true => Marking::Marked,
                false => Marking::Unmarked(link.queue.as_ref().map(|queue| *queue.get_ref())),
            },
        };
        if !link.both_ways {
            return Ok(vec![one]);
        }
        let back = Spanned::new(link.name.span(), format!("{} back", one.name));
        names.links.add(self, &back, "link")?;
        let back = ChannelLink { name: back.into_inner(), from: to, to: from, ..one.clone() };
        Ok(vec![one, back])
    }

    fn event(
        &self,
        event: &EventText,
        names: &mut Names,
        channels: &[ChannelNode],
    ) -> Result<RemoteEvent, TopologyError> {
        let name = event.name.as_ref().unwrap_or(&event.from);
        names.events.add(self, name, "event")?;
        if event.to.is_empty() {
            return Err(self.error(name.span().start, format!("{}: it has no consumer (to)", name.get_ref())));
        }
        let site = |text: &Spanned<String>| self.site(text, names, channels);
        let over = event.over.iter().map(|link| names.links.find(self, link, "link"));
        Ok(RemoteEvent {
            name: name.get_ref().clone(),
            from: site(&event.from)?,
            to: event.to.iter().map(site).collect::<Result<_, _>>()?,
            over: over.collect::<Result<_, _>>()?,
            octets: event.octets,
            times: event.times.unwrap_or(1),
            level: event.level,
        })
    }

    /// An operation, by its channel and its name there.
    fn site(
        &self,
        text: &Spanned<String>,
        names: &Names,
        channels: &[ChannelNode],
    ) -> Result<Site, TopologyError> {
        let (at, full) = (text.span().start, text.get_ref());
        let Some((channel, operation)) = full.split_once('/') else {
            return Err(self.error(at, format!("{full}: give a channel and its operation, as in radar/imu")));
        };
        let Some(channel) = names.channels.index.get(channel).copied() else {
            return Err(self.error(at, format!("{full}: there is no channel {channel}")));
        };
        let known = channels[channel].graph.lookup(operation).ok_or_else(|| {
            let message =
                format!("{full}: the schedule of {} has no operation {operation}", channels[channel].name);
            self.error(at, message)
        })?;
        Ok(Site { channel, operation: known })
    }
}
