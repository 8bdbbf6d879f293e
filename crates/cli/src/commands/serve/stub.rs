//! The servant that answers by rules.

use super::rules::{Answer, Rules};
use crate::commands::call::as_json;
use isorb::{Any, DynamicOperation, DynamicReply, DynamicServant, Kind, Result, SystemException, Upcall};
use isorb_rt::log;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};

/// The target of this module's log records.
const LOG: &str = "isorb::serve";

pub struct Stub {
    rules: Rules,
    /// Requests that no rule applied to.
    unanswered: AtomicU64,
}

impl Stub {
    pub fn new(rules: Rules) -> Stub {
        Stub { rules, unanswered: AtomicU64::new(0) }
    }

    fn no_rule(&self, operation: &str, arguments: &[Value]) -> SystemException {
        let arguments = Value::from(arguments.to_vec()).to_string();
        let shown: String = arguments.chars().take(200).collect();
        let count = self.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
        log::warn(LOG, format_args!("no rule applies to {operation} {shown} ({count} such requests so far)"));
        SystemException::from(Kind::NoImplement)
            .detail(format!("no rule of the script applies to {operation} with these arguments"))
    }
}

impl DynamicServant for Stub {
    fn invoke(
        &self,
        _: Upcall<'_>,
        operation: &DynamicOperation,
        arguments: Vec<Any>,
    ) -> Result<DynamicReply> {
        let name = operation.name();
        let arguments = arguments.iter().map(|argument| {
            let json = as_json(argument).ok().and_then(|json| serde_json::from_str(&json).ok());
            json.unwrap_or(Value::Null)
        });
        let arguments: Vec<Value> = arguments.collect();
        let rule = self.rules.find(name, &arguments).ok_or_else(|| self.no_rule(name, &arguments))?;
        if !rule.delay.is_zero() {
            // The thread of the request sleeps: other requests of its connection wait.
            std::thread::sleep(rule.delay);
        }
        match rule.answer.clone() {
            Answer::Reply(reply) => Ok(reply),
            Answer::System(exception) => Err(exception),
        }
    }
}
