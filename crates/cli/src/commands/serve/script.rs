//! The script as it is written.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use toml::Spanned;

/// The longest delay of an answer, in milliseconds.
const MAX_DELAY_MS: u64 = 3_600_000;

/// The file as serde reads it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    interface: Option<String>,
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

/// A rule as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    pub operation: Spanned<String>,
    /// Arguments by name; all that are named must match.
    #[serde(default)]
    pub when: BTreeMap<String, Spanned<Value>>,
    /// How often the rule applies.
    pub times: Option<u32>,
    pub delay_ms: Option<Spanned<u64>>,
    pub result: Option<Spanned<Value>>,
    /// Values of `out` and `inout` parameters by name.
    #[serde(default)]
    pub out: BTreeMap<String, Spanned<Value>>,
    pub exception: Option<Spanned<String>>,
    #[serde(default)]
    pub members: Option<Spanned<Value>>,
    pub system_exception: Option<Spanned<String>>,
    pub minor: Option<u32>,
}

/// A script, with its text for errors.
pub struct Script<'t> {
    pub interface: Option<String>,
    pub rules: Vec<Spanned<RuleText>>,
    text: &'t str,
    name: &'t str,
}

/// Reads a script.
///
/// # Errors
/// What is wrong, with the line.
pub fn parse<'t>(text: &'t str, name: &'t str) -> Result<Script<'t>, String> {
    let read: Result<File, _> = toml::from_str(text);
    let mut script = Script { interface: None, rules: Vec::new(), text, name };
    let file =
        read.map_err(|error| script.wrong(error.span().unwrap_or(0..0), error.message().trim_end()))?;
    if file.rule.is_empty() {
        return Err(script.wrong(0..0, "there is no rule: write [[rule]] and operation = \"NAME\""));
    }
    for rule in &file.rule {
        if let Some(delay) = &rule.get_ref().delay_ms
            && *delay.get_ref() > MAX_DELAY_MS
        {
            return Err(script.wrong(delay.span(), format_args!("delay_ms is at most {MAX_DELAY_MS}")));
        }
    }
    script.interface = file.interface;
    script.rules = file.rule;
    Ok(script)
}

impl Script<'_> {
    /// An error with its line.
    pub fn wrong(&self, span: Range<usize>, why: impl Display) -> String {
        let start = self.text.floor_char_boundary(span.start);
        let line = self.text[..start].matches('\n').count() + 1;
        let begin = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let shown = self.text[begin..].lines().next().unwrap_or("");
        format!("{}:{line}: {why}\n{line} | {shown}", self.name)
    }
}
