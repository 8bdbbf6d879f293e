//! `isorb name`: lists and changes the names of any CosNaming service.

use super::remote_service::{RemoteService, line, shown};
use crate::commands::arguments::object_url;
use isorb::{Config, Object, Orb, Reference, SystemException};
use isorb_giop::NameComponent as Step;
use isorb_naming::cos_naming::naming_context::{BindError, NotFound, NotFoundReason, RebindError};
use isorb_naming::cos_naming::{Binding, BindingType, Name, NameComponent, NamingContextRef};
use std::error::Error;
use std::fmt::Write;

const NAMING: RemoteService =
    RemoteService { name: "naming service", key: "NameService", port: super::naming::PORT, option: "--ns" };

/// Number of bindings to fetch with one call.
const BATCH: u32 = 100;
/// The greatest depth of a tree.
const DEPTH: usize = 64;

/// Arguments of `isorb name`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The naming service: a URL, host or host:port; -ORBInitRef NameService unless given, else
    /// 127.0.0.1:2809.
    #[arg(long, value_name = "URL", global = true)]
    ns: Option<String>,
    #[command(subcommand)]
    action: Action,
}

/// Names are written `lab/t1.probe`: components with a slash between them, and a dot before the
/// kind. A backslash precedes a slash, dot or backslash that is part of a component.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Lists the bindings of a context.
    Ls {
        /// The context [default: the root].
        name: Option<String>,
        /// Shows the type and address of each object.
        #[arg(short)]
        long: bool,
    },
    /// Shows a context with all contexts below it.
    Tree {
        /// The context [default: the root].
        name: Option<String>,
    },
    /// Prints the reference that a name is bound to.
    Resolve {
        /// The name.
        name: String,
    },
    /// Binds a name that is not bound.
    Bind(Bind),
    /// Binds a name, and replaces an existing binding.
    Rebind(Bind),
    /// Removes a binding.
    Unbind {
        /// The name.
        name: String,
    },
    /// Creates a context and binds it.
    NewContext {
        /// The name.
        name: String,
        /// Also creates missing contexts on the path; existing ones are no error.
        #[arg(short)]
        parents: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Bind {
    /// The name.
    name: String,
    /// The object: `IOR:…`, `corbaloc:…`, `corbaname:…` or `file:…`.
    #[arg(value_parser = object_url)]
    object: String,
    /// Binds the object as a naming context.
    #[arg(long)]
    context: bool,
}

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Runs the command.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Outcome {
    let (config, _) = Config::from_args(orb_arguments)?;
    let (url, orb) = (NAMING.url(args.ns.as_deref(), &config), super::orb::plain(config)?);
    let root = orb.string_to_object(&url).map_err(|error| NAMING.failed(&url, &error))?;
    let root: NamingContextRef = root.unchecked_narrow();
    let fail = |name: &str, problem| sentence(name, &url, problem);
    match &args.action {
        Action::Ls { name, long } => {
            let context = context(&root, name.as_deref(), &url)?;
            let show = |binding: &Binding| -> Outcome {
                let text = label(binding);
                match *long {
                    true => line(&format_args!("{text:<30} {}", describe(&context, binding))),
                    false => line(&format_args!("{text}")),
                }
            };
            each(&context, &url, show)
        }
        Action::Tree { name } => {
            let context = context(&root, name.as_deref(), &url)?;
            line(&format_args!("{}", name.as_deref().map_or_else(|| "/".into(), shown)))?;
            tree(&context, &url, "", &mut Vec::new())
        }
        Action::Resolve { name } => {
            let found = root.resolve(&parse(name)?).map_err(|error| fail(name, error.into()))?;
            match found {
                Some(object) => line(&format_args!("{object}")),
                None => line(&format_args!("nil")),
            }
        }
        Action::Bind(bind) => {
            let (name, object) = (parse(&bind.name)?, object(&orb, &bind.object)?);
            let bound = match bind.context {
                true => root.bind_context(&name, &object.unchecked_narrow::<NamingContextRef>()),
                false => root.bind(&name, &object),
            };
            bound.map_err(|error| fail(&bind.name, error.into()))
        }
        Action::Rebind(bind) => {
            let (name, object) = (parse(&bind.name)?, object(&orb, &bind.object)?);
            let bound = match bind.context {
                true => root.rebind_context(&name, &object.unchecked_narrow::<NamingContextRef>()),
                false => root.rebind(&name, &object),
            };
            bound.map_err(|error| fail(&bind.name, error.into()))
        }
        Action::Unbind { name } => root.unbind(&parse(name)?).map_err(|error| fail(name, error.into())),
        Action::NewContext { name, parents } => {
            let steps = parse(name)?;
            let first = if *parents { 1 } else { steps.len() };
            for end in first..=steps.len() {
                match root.bind_new_context(&steps[..end]) {
                    Err(BindError::AlreadyBound(_)) if *parents => {}
                    other => drop(other.map_err(|error| fail(name, error.into()))?),
                }
            }
            Ok(())
        }
    }
}

fn parse(name: &str) -> Outcome<Name> {
    let parsed: isorb_giop::Name = name.parse().map_err(|error| format!("{name}: {error}"))?;
    let steps = parsed.into_components().into_iter();
    Ok(steps.map(|step| NameComponent { id: step.id, kind: step.kind }).collect())
}

fn object(orb: &Orb, url: &str) -> Outcome<Object> {
    orb.string_to_object(url).map_err(|error| format!("{}: {error}", shown(url)).into())
}

/// The context of a name, or the root.
fn context(root: &NamingContextRef, name: Option<&str>, url: &str) -> Outcome<NamingContextRef> {
    let Some(name) = name else { return Ok(root.clone()) };
    let found = root.resolve(&parse(name)?).map_err(|error| sentence(name, url, error.into()))?;
    let found = found.ok_or_else(|| format!("{}: bound to nil", shown(name)))?;
    let context: Option<NamingContextRef> = found.narrow()?;
    Ok(context.ok_or_else(|| format!("{}: an object, not a naming context", shown(name)))?)
}

/// Runs `show` for each binding of a context.
fn each(context: &NamingContextRef, url: &str, mut show: impl FnMut(&Binding) -> Outcome) -> Outcome {
    let (first, iterator) = context.list(BATCH).map_err(|error| NAMING.failed(url, &error))?;
    first.iter().try_for_each(&mut show)?;
    let Some(iterator) = iterator else { return Ok(()) };
    loop {
        let (more, next) = iterator.next_n(BATCH)?;
        next.iter().try_for_each(&mut show)?;
        if !more {
            // A binding may disappear meanwhile.
            let _ = iterator.destroy();
            return Ok(());
        }
    }
}

fn tree(context: &NamingContextRef, url: &str, indent: &str, above: &mut Vec<Object>) -> Outcome {
    if above.contains(context.object()) || above.len() == DEPTH {
        return line(&format_args!("{indent}└─ … (a context from above again)"));
    }
    above.push(context.object().clone());
    let mut bindings = Vec::new();
    each(context, url, |binding| {
        bindings.push(binding.clone());
        Ok(())
    })?;
    for (i, binding) in bindings.iter().enumerate() {
        let last = i + 1 == bindings.len();
        line(&format_args!("{indent}{}{}", if last { "└─ " } else { "├─ " }, label(binding)))?;
        if binding.binding_type == BindingType::Ncontext {
            let indent = format!("{indent}{}", if last { "   " } else { "│  " });
            // The other contexts are shown even if one cannot be reached.
            let below = match context.resolve(&binding.binding_name) {
                Ok(Some(object)) => tree(&object.unchecked_narrow(), url, &indent, above),
                Ok(None) => Err("bound to nil".into()),
                Err(error) => Err(sentence("", url, error.into())),
            };
            if let Err(error) = below {
                line(&format_args!("{indent}└─ … ({error})"))?;
            }
        }
    }
    above.pop();
    Ok(())
}

/// The name of a binding, with a slash at the end for a context.
fn label(binding: &Binding) -> String {
    let steps = binding.binding_name.iter().map(|step| Step::new(&*step.id, &*step.kind)).collect();
    let name = isorb_giop::Name::new(steps).map_or_else(|| "?".into(), |name| name.to_string());
    let context = binding.binding_type == BindingType::Ncontext;
    format!("{}{}", shown(&name), if context { "/" } else { "" })
}

/// The type and address of an object.
fn describe(context: &NamingContextRef, binding: &Binding) -> String {
    match context.resolve(&binding.binding_name) {
        Ok(Some(object)) => {
            let mut text = match object.type_id() {
                "" => "(type not given)".into(),
                id => shown(id),
            };
            for profile in object.ior().iiop_profiles().flatten() {
                let _ = write!(text, " at {}:{}", shown(&profile.host), profile.port);
            }
            text
        }
        Ok(None) => "nil".into(),
        Err(error) => format!("({})", sentence("", "the naming service", error.into())),
    }
}

/// The result of a call.
enum Problem {
    NotFound(NotFound),
    CannotProceed(Name),
    InvalidName,
    AlreadyBound,
    System(SystemException),
}

impl From<BindError> for Problem {
    fn from(error: BindError) -> Problem {
        match error {
            BindError::NotFound(exception) => Problem::NotFound(exception),
            BindError::CannotProceed(exception) => Problem::CannotProceed(exception.rest_of_name),
            BindError::InvalidName(_) => Problem::InvalidName,
            BindError::AlreadyBound(_) => Problem::AlreadyBound,
            BindError::System(exception) => Problem::System(exception),
        }
    }
}

impl From<RebindError> for Problem {
    fn from(error: RebindError) -> Problem {
        match error {
            RebindError::NotFound(exception) => Problem::NotFound(exception),
            RebindError::CannotProceed(exception) => Problem::CannotProceed(exception.rest_of_name),
            RebindError::InvalidName(_) => Problem::InvalidName,
            RebindError::System(exception) => Problem::System(exception),
        }
    }
}

/// The message for a user.
fn sentence(name: &str, url: &str, problem: Problem) -> Box<dyn Error> {
    let step = |rest: &Name| {
        let steps = rest.iter().map(|step| Step::new(&*step.id, &*step.kind)).collect();
        isorb_giop::Name::new(steps).map_or_else(|| "it".into(), |name| shown(&name.to_string()))
    };
    let first = |rest: &Name| step(&rest.iter().take(1).cloned().collect());
    let text = match &problem {
        Problem::NotFound(NotFound { why, rest_of_name }) => match why {
            NotFoundReason::MissingNode => format!("{} is not bound", first(rest_of_name)),
            NotFoundReason::NotContext => {
                format!("{} is an object, not a naming context", first(rest_of_name))
            }
            NotFoundReason::NotObject => {
                format!("{} is a naming context, not an object; see --context", first(rest_of_name))
            }
        },
        Problem::CannotProceed(rest) => {
            format!("the naming context that should know {} cannot be reached", step(rest))
        }
        Problem::InvalidName => "the naming service refuses this name".into(),
        Problem::AlreadyBound => "the name is already bound; rebind replaces the binding".into(),
        Problem::System(exception) => return NAMING.failed(url, exception),
    };
    if name.is_empty() { text.into() } else { format!("{}: {text}", shown(name)).into() }
}
