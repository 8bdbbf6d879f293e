//! The description of a federation as serde reads it.

use crate::file::text::Time;
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    pub levels: Option<Spanned<Vec<u16>>>,
    #[serde(default)]
    pub channel: Vec<ChannelText>,
    #[serde(default)]
    pub link: Vec<LinkText>,
    #[serde(default)]
    pub event: Vec<EventText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelText {
    pub name: Spanned<String>,
    pub schedule: Spanned<String>,
    #[serde(default)]
    pub gateway: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkText {
    pub name: Spanned<String>,
    pub from: Spanned<String>,
    pub to: Spanned<String>,
    pub rate: Rate,
    pub packet: Option<u64>,
    pub overhead: Option<u64>,
    #[serde(default)]
    pub delay: Time,
    #[serde(default)]
    pub clock_error: Time,
    #[serde(default = "yes")]
    pub marked: bool,
    pub queue: Option<Spanned<u64>>,
    /// Whether there is a link of the same properties in the other direction, too.
    #[serde(default)]
    pub both_ways: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventText {
    pub name: Option<Spanned<String>>,
    pub from: Spanned<String>,
    pub to: Vec<Spanned<String>>,
    #[serde(default)]
    pub over: Vec<Spanned<String>>,
    pub octets: u64,
    pub times: Option<u32>,
    pub level: Option<u8>,
}

/// Bits a second.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub struct Rate(pub u64);

impl TryFrom<String> for Rate {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Rate, &'static str> {
        const WRONG: &str =
            "a rate is a whole number and a unit of bit/s, kbit/s, Mbit/s or Gbit/s, as in \"100 Mbit/s\"";
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let scale = match text[digits..].trim() {
            "bit/s" => 1,
            "kbit/s" => 1_000,
            "Mbit/s" => 1_000_000,
            "Gbit/s" => 1_000_000_000,
            _ => return Err(WRONG),
        };
        let number: u64 = text[..digits].parse().map_err(|_| WRONG)?;
        number.checked_mul(scale).filter(|rate| *rate > 0).map(Rate).ok_or(WRONG)
    }
}
