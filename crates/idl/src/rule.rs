//! Rules of the standard that other IDL compilers do not enforce. Where the meaning is plain
//! without one, breaking it is a warning.

use crate::diagnostic::Report;
use crate::pp::Token;
use std::collections::BTreeSet;

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $name:literal;)*) => {
        /// A rule of the standard that much IDL in use breaks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])* $rule,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Rule] = &[$(Rule::$rule),*];

            /// The name, as in messages, pragmas and options.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Rule::$rule => $name,)*
                }
            }
        }
    };
}

rules! {
    /// A name is used in the case of its definition.
    Case = "case";
    /// An operation names each exception once.
    RaisedTwice = "raised-twice";
    /// `getraises` stands before `setraises`.
    RaisesOrder = "raises-order";
    /// `#pragma version` stands behind its definition.
    EarlyVersion = "early-version";
    /// Wide constants have wide literals.
    NarrowLiteral = "narrow-literal";
    /// `~` of a literal is in the range of its constant.
    Complement = "complement";
    /// The prefix in `#pragma prefix` is a string.
    BarePrefix = "bare-prefix";
    /// The labels of a union with `default` leave a value out.
    DeadDefault = "dead-default";
    /// `pseudo` is no word of IDL; such an interface is local.
    Pseudo = "pseudo";
}

impl Rule {
    /// The rule of this name.
    pub fn from_name(name: &str) -> Option<Rule> {
        Rule::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}

/// The rules that `#pragma isorb allow NAME…` silences, anywhere in the text; an unknown one is
/// reported.
pub(crate) fn allowed(pragmas: &[Vec<Token>]) -> (BTreeSet<Rule>, Vec<Report>) {
    let (mut rules, mut reports) = (BTreeSet::new(), Vec::new());
    for tokens in pragmas.iter().filter(|tokens| tokens.first().is_some_and(|t| t.is_word("isorb"))) {
        if !tokens.get(1).is_some_and(|t| t.is_word("allow")) {
            let report = Report::warning(tokens[0].span, "isorb has no such pragma");
            reports.push(report.hint("`#pragma isorb allow RULE` silences the warnings of a rule"));
            continue;
        }
        // A name comes as words and minus signs.
        let mut names: Vec<(String, &Token)> = Vec::new();
        for token in &tokens[2..] {
            match names.last_mut() {
                Some((name, _)) if token.is("-") || name.ends_with('-') => name.push_str(&token.text),
                _ => names.push((token.text.to_string(), token)),
            }
        }
        for (name, token) in names {
            match Rule::from_name(&name) {
                Some(rule) => drop(rules.insert(rule)),
                None => reports.push(unknown(token, &name)),
            }
        }
    }
    (rules, reports)
}

fn unknown(token: &Token, name: &str) -> Report {
    let names: Vec<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    let report = Report::warning(token.span, format!("there is no rule `{name}`"));
    report.hint(format!("the rules are {}", names.join(", ")))
}
