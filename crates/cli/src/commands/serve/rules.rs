//! Rules, checked against the interface before anything is served.

use super::script::{RuleText, Script};
use crate::commands::call::argument;
use crate::typed::Served;
use isorb::{Any, DynamicOperation, DynamicReply, Kind, Orb, SystemException, TypeCode};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A rule that fits the interface.
pub struct Rule {
    operation: &'static str,
    /// The place of an argument, and what it must be.
    when: Vec<(usize, Value)>,
    /// How often it still applies; `None` for ever.
    left: Option<AtomicU32>,
    pub delay: Duration,
    pub answer: Answer,
}

/// What a rule answers.
#[derive(Clone)]
pub enum Answer {
    Reply(DynamicReply),
    System(SystemException),
}

/// All rules of a script, in its order.
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Checks the rules of a script.
    ///
    /// # Errors
    /// What is wrong with a rule, with its line and what would be right.
    pub fn new(script: &Script<'_>, served: &Served, orb: &Orb) -> Result<Rules, String> {
        let checked = script.rules.iter().map(|rule| {
            let checker = Checker { script, served, orb, rule: rule.get_ref(), span: rule.span() };
            checker.rule()
        });
        Ok(Rules(checked.collect::<Result<_, _>>()?))
    }

    /// The first rule that applies to a request. It has then been used once more.
    pub fn find(&self, operation: &str, arguments: &[Value]) -> Option<&Rule> {
        self.0.iter().find(|rule| {
            rule.operation == operation
                && rule.when.iter().all(|(at, wanted)| arguments.get(*at).is_some_and(|is| fits(wanted, is)))
                && rule.take()
        })
    }
}

impl Rule {
    fn take(&self) -> bool {
        let Some(left) = &self.left else { return true };
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// Whether an argument is what a rule wants: members of an object that the rule does not name may
/// be anything, and 1 is 1.0.
fn fits(wanted: &Value, is: &Value) -> bool {
    match (wanted, is) {
        (Value::Object(wanted), Value::Object(is)) => {
            wanted.iter().all(|(name, wanted)| is.get(name).is_some_and(|is| fits(wanted, is)))
        }
        (Value::Array(wanted), Value::Array(is)) => {
            wanted.len() == is.len() && wanted.iter().zip(is).all(|(wanted, is)| fits(wanted, is))
        }
        (Value::Number(wanted), Value::Number(is)) => {
            // Integers are compared as such: a double has not all of their digits.
            wanted == is || (wanted.is_f64() || is.is_f64()) && wanted.as_f64() == is.as_f64()
        }
        _ => wanted == is,
    }
}

struct Checker<'c> {
    script: &'c Script<'c>,
    served: &'c Served,
    orb: &'c Orb,
    rule: &'c RuleText,
    span: Range<usize>,
}

impl Checker<'_> {
    fn rule(&self) -> Result<Rule, String> {
        let name = &self.rule.operation;
        let known = || self.served.operations.iter().map(DynamicOperation::name);
        let operation = self.served.operations.iter().find(|operation| operation.name() == name.get_ref());
        let Some(operation) = operation else {
            let all = known().collect::<Vec<_>>().join(", ");
            return Err(self.script.wrong(
                name.span(),
                format_args!("{} has no operation {}; it has {all}", self.served.name, name.get_ref()),
            ));
        };
        let mut when = Vec::new();
        for (argument, wanted) in &self.rule.when {
            let at = operation.arguments().position(|(known, _)| known == argument);
            let Some(at) = at else {
                let all: Vec<&str> = operation.arguments().map(|(name, _)| name).collect();
                return Err(self.script.wrong(
                    wanted.span(),
                    format_args!(
                        "{} has no argument {argument}; it takes {}",
                        name.get_ref(),
                        all.join(", ")
                    ),
                ));
            };
            when.push((at, wanted.get_ref().clone()));
        }
        Ok(Rule {
            operation: operation.name(),
            when,
            left: self.rule.times.map(AtomicU32::new),
            delay: Duration::from_millis(self.rule.delay_ms.as_ref().map_or(0, |delay| *delay.get_ref())),
            answer: self.answer(operation)?,
        })
    }

    fn answer(&self, operation: &DynamicOperation) -> Result<Answer, String> {
        let rule = self.rule;
        let results = rule.result.is_some() || !rule.out.is_empty();
        if usize::from(results)
            + usize::from(rule.exception.is_some())
            + usize::from(rule.system_exception.is_some())
            > 1
        {
            return Err(self.script.wrong(
                self.span.clone(),
                "a rule has a result (with out), an exception (with members), or a system_exception",
            ));
        }
        if let Some(kind) = &rule.system_exception {
            let known = Kind::ALL.iter().copied().find(|known| known.name() == kind.get_ref());
            let known = known.ok_or_else(|| {
                let why = format!("{} is no system exception, such as TRANSIENT", kind.get_ref());
                self.script.wrong(kind.span(), why)
            })?;
            let exception = SystemException::from(known).minor(rule.minor.unwrap_or(0));
            return Ok(Answer::System(exception));
        }
        match &rule.exception {
            Some(name) => {
                let exceptions = operation.exceptions();
                let wanted = exceptions.iter().find(|tc| is_named(tc, name.get_ref()));
                let Some(tc) = wanted else {
                    let all: Vec<&str> = exceptions.iter().filter_map(|tc| tc.id().ok()).collect();
                    let why = match &all[..] {
                        [] => format!("{} raises no exceptions", operation.name()),
                        all => format!(
                            "{} does not raise {}; it raises {}",
                            operation.name(),
                            name.get_ref(),
                            all.join(", ")
                        ),
                    };
                    return Err(self.script.wrong(name.span(), why));
                };
                let none = Value::Object(serde_json::Map::new());
                let (members, span) = match &rule.members {
                    Some(members) => (members.get_ref(), members.span()),
                    None => (&none, name.span()),
                };
                Ok(Answer::Reply(DynamicReply::Exception(self.value("members", tc, members, span)?)))
            }
            None => Ok(Answer::Reply(DynamicReply::Results(self.results(operation)?))),
        }
    }

    fn results(&self, operation: &DynamicOperation) -> Result<Vec<Any>, String> {
        let mut out: BTreeMap<_, _> = self.rule.out.iter().collect();
        let mut values = Vec::new();
        let mut has_result = false;
        for (name, tc) in operation.results() {
            let (shown, given) = match name {
                "" => ("result", self.rule.result.as_ref()),
                name => (name, out.remove(&name.to_owned())),
            };
            has_result |= name.is_empty();
            let Some(given) = given else {
                let hint =
                    if name.is_empty() { "result = …".into() } else { format!("out = {{ {name} = … }}") };
                return Err(self.script.wrong(
                    self.span.clone(),
                    format_args!("{} returns a {tc}: write {hint}", operation.name()),
                ));
            };
            values.push(self.value(shown, tc, given.get_ref(), given.span())?);
        }
        if let (Some(result), false) = (&self.rule.result, has_result) {
            let why = format!("{} has no result", operation.name());
            return Err(self.script.wrong(result.span(), why));
        }
        match out.into_iter().next() {
            Some((name, value)) => {
                let why = format!("{} has no parameter {name} that is out or inout", operation.name());
                Err(self.script.wrong(value.span(), why))
            }
            None => Ok(values),
        }
    }

    /// A value; an empty text is a nil reference, since TOML has no null.
    fn value(&self, name: &str, tc: &TypeCode, value: &Value, span: Range<usize>) -> Result<Any, String> {
        let nil = tc.original().kind() == isorb_any::Kind::ObjRef && value.as_str() == Some("");
        let json = if nil { "null".to_owned() } else { value.to_string() };
        argument(self.orb, tc, &json)
            .map_err(|error| self.script.wrong(span, format_args!("{name} is a {tc}: {error}")))
    }
}

/// Whether an exception has this name: its repository id, `Module::Name`, or `Name`.
fn is_named(tc: &TypeCode, name: &str) -> bool {
    let id = tc.id().unwrap_or_default();
    let path = id.trim_start_matches("IDL:").rsplit_once(':').map_or(id, |(path, _)| path);
    let wanted = name.replace("::", "/");
    id == name || path == wanted || path.ends_with(&format!("/{wanted}"))
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn members_that_a_rule_does_not_name_may_be_anything() {
        let value = |text: &str| serde_json::from_str(text).unwrap();
        for (wanted, is, expected) in [
            ("1", "1.0", true),
            ("1", "2", false),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, true),
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, false),
            ("[1]", "[1,2]", false),
            (r#"[{"a":"x"}]"#, r#"[{"a":"x","b":0}]"#, true),
            ("18446744073709551615", "18446744073709551614", false),
            ("\"1\"", "1", false),
        ] {
            assert_eq!(fits(&value(wanted), &value(is)), expected, "{wanted} {is}");
        }
    }
}
