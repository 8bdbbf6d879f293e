//! The schedule file as serde reads it.

use crate::graph::Kind;
use crate::{Criticality, Importance, Nanos, Policy, Preemption};
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    pub policy: Option<PolicyName>,
    pub preemption: Option<PreemptionName>,
    pub one_thread_per_level: Option<bool>,
    /// The old name of `one_thread_per_level`.
    pub turns: Option<Spanned<bool>>,
    pub priorities: Option<[u16; 2]>,
    pub processors: Option<Spanned<Vec<u32>>>,
    #[serde(default)]
    pub operation: Vec<OperationText>,
    #[serde(default)]
    pub resource: Vec<ResourceText>,
    #[serde(default)]
    pub activity: Vec<Named>,
    #[serde(default)]
    pub object: Vec<Named>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationText {
    pub name: Spanned<String>,
    pub kind: Option<KindName>,
    #[serde(default)]
    pub cost: Time,
    pub typical: Option<Time>,
    pub cached: Option<Time>,
    pub period: Option<Time>,
    pub deadline: Option<Time>,
    pub jitter: Option<Time>,
    pub blocking: Option<Time>,
    pub section: Option<Time>,
    pub offset: Option<Time>,
    #[serde(default)]
    pub priority: u32,
    pub criticality: Option<Grade>,
    pub importance: Option<Grade>,
    pub quantum: Option<Time>,
    #[serde(default)]
    pub threads: u32,
    #[serde(default)]
    pub after: Vec<Spanned<Link>>,
    #[serde(default)]
    pub calls: Vec<Spanned<Link>>,
    #[serde(default)]
    pub holds: Vec<Hold>,
}

/// Another operation: its name, or its name and a number.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Link {
    Once(String),
    Times { operation: String, times: Option<u32> },
}

impl Link {
    pub fn operation(&self) -> &str {
        match self {
            Link::Once(operation) | Link::Times { operation, .. } => operation,
        }
    }

    pub fn times(&self) -> u32 {
        match self {
            Link::Times { times: Some(times), .. } => *times,
            _ => 1,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    pub resource: Spanned<String>,
    #[serde(rename = "for")]
    pub time: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceText {
    pub name: Spanned<String>,
    pub ceiling: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub name: Spanned<String>,
    pub priority: u32,
}

#[derive(Deserialize, Default)]
#[serde(try_from = "String")]
pub struct Time(pub Nanos);

impl TryFrom<String> for Time {
    type Error = crate::NoTime;

    fn try_from(text: String) -> Result<Time, crate::NoTime> {
        text.parse().map(Time)
    }
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
pub struct PolicyName(pub Policy);

impl TryFrom<String> for PolicyName {
    type Error = crate::UnknownPolicy;

    fn try_from(text: String) -> Result<PolicyName, crate::UnknownPolicy> {
        text.parse().map(PolicyName)
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum PreemptionName {
    Full,
    Deferred,
    None,
}

impl From<PreemptionName> for Preemption {
    fn from(name: PreemptionName) -> Preemption {
        match name {
            PreemptionName::Full => Preemption::Full,
            PreemptionName::Deferred => Preemption::Deferred,
            PreemptionName::None => Preemption::None,
        }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub enum KindName {
    Operation,
    Conjunction,
    Disjunction,
    RemoteDependant,
}

impl From<KindName> for Kind {
    fn from(name: KindName) -> Kind {
        match name {
            KindName::Operation => Kind::Operation,
            KindName::Conjunction => Kind::Conjunction,
            KindName::Disjunction => Kind::Disjunction,
            KindName::RemoteDependant => Kind::RemoteDependant,
        }
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    VeryLow,
    Low,
    Medium,
    High,
    VeryHigh,
}

impl From<Grade> for Criticality {
    fn from(grade: Grade) -> Criticality {
        match grade {
            Grade::VeryLow => Criticality::VeryLow,
            Grade::Low => Criticality::Low,
            Grade::Medium => Criticality::Medium,
            Grade::High => Criticality::High,
            Grade::VeryHigh => Criticality::VeryHigh,
        }
    }
}

impl From<Grade> for Importance {
    fn from(grade: Grade) -> Importance {
        match grade {
            Grade::VeryLow => Importance::VeryLow,
            Grade::Low => Importance::Low,
            Grade::Medium => Importance::Medium,
            Grade::High => Importance::High,
            Grade::VeryHigh => Importance::VeryHigh,
        }
    }
}
