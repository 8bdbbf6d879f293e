//! `isorb call`: calls an object by the interface in an IDL file or an interface repository, with
//! arguments and results as JSON.

use crate::commands::arguments::{object_url, to_read};
use crate::typed::{Called, load_operation};
use isorb::{Any, Config, DynamicReply, DynamicRequest, Object, Orb, TypeCode};
use isorb_any::Kind;
use isorb_cdr::{Decoder, Order, Text};
use isorb_giop::Ior;
use isorb_ifr::InterfaceCache;
use isorb_ifr::corba::RepositoryRef;
use isorb_scope::Region;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// The longest JSON of a value, in octets.
const MAX_JSON: usize = 64 << 20;
/// The exit code after a user exception.
const RAISED: u8 = 3;

/// Arguments of `isorb call`. Further arguments go to the ORB (`-ORB…`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The object: `IOR:…`, `corbaloc:…`, `corbaname:…` or `file:…`.
    #[arg(value_parser = object_url)]
    url: String,
    /// The operation; `_get_NAME` and `_set_NAME` for an attribute. `Module::Interface::operation`
    /// where interfaces of the file have operations of the same name.
    operation: String,
    /// The arguments, `in` and `inout` parameters in the order of the IDL, one JSON value each: a
    /// text is '"text"', a reference a text with its URL, or null.
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// IDL file with the interface. Without it the interface is the one that the object answers
    /// `_get_interface` with, or that --ifr has.
    #[arg(long, value_name = "FILE", value_parser = to_read())]
    idl: Option<PathBuf>,
    /// Interface repository with the interface: a URL, such as
    /// `corbaloc::host:3699/InterfaceRepository`.
    #[arg(long, value_name = "URL", conflicts_with = "idl")]
    ifr: Option<String>,
    /// Directory to search for `#include`; repeatable.
    #[arg(short = 'I', value_name = "DIR", requires = "idl")]
    include: Vec<PathBuf>,
}

/// Prints the results. The exit code is 3 after a user exception, which is printed, too.
///
/// # Errors
/// An IDL file, an argument or a call that fails; the error names the argument.
pub fn run(args: &Args, orb: Vec<String>) -> Result<ExitCode, Box<dyn Error>> {
    let orb = super::orb::plain(Config::from_args(orb)?.0)?;
    let object = orb.string_to_object(&args.url)?;
    let called = match &args.idl {
        Some(file) => load_operation(file, &args.include, &args.operation, object.type_id())?,
        None => find_operation(&orb, &object, args)?,
    };
    let Called { name, operation } = &called;
    let wanted = operation.arguments().count();
    if wanted != args.arguments.len() {
        let names: Vec<String> =
            operation.arguments().map(|(name, type_code)| format!("{name} ({type_code})")).collect();
        let (given, names) = (args.arguments.len(), names.join(", "));
        return Err(format!("{name} takes {wanted} arguments, {given} are given: {names}").into());
    }
    let mut request = DynamicRequest::new(&object, operation);
    for ((parameter, type_code), json) in operation.arguments().zip(&args.arguments) {
        let value = argument(&orb, type_code, json)
            .map_err(|error| format!("the argument {parameter} of {name}, {json}: {error}"))?;
        request = request.argument(value)?;
    }
    match request.invoke().map_err(|exception| format!("{name}: {exception}"))? {
        DynamicReply::Results(results) => {
            if let Some(text) = results_as_json(operation, &results)? {
                println!("{text}");
            }
            Ok(ExitCode::SUCCESS)
        }
        DynamicReply::Exception(exception) => {
            let id = serde_json::Value::from(exception.type_code().id().unwrap_or_default());
            println!("{{\"exception\":{id},\"members\":{}}}", exception.to_json(MAX_JSON)?);
            Ok(ExitCode::from(RAISED))
        }
    }
}

/// The operation as an interface repository describes it.
fn find_operation(orb: &Orb, object: &Object, args: &Args) -> Result<Called, Box<dyn Error>> {
    let repository = args.ifr.as_deref().map(|url| orb.resolve::<RepositoryRef>(url)).transpose()?;
    let contract = InterfaceCache::new(repository).of_object(object).map_err(|exception| {
        let hint = match &args.ifr {
            None => "name an IDL file (--idl FILE) or an interface repository (--ifr URL)",
            Some(_) => "name an IDL file (--idl FILE), or give the repository the IDL of the object",
        };
        format!("the interface of the object is not known: {exception}: {hint}")
    })?;
    // The interface is known: a scope before the name says nothing more.
    let name = args.operation.rsplit_once("::").map_or(&*args.operation, |(_, name)| name);
    let operation = contract.operation(name)?;
    Ok(Called { name: format!("{}::{name}", contract.name()), operation })
}

/// The value of an argument. A reference is a text with its URL, or null.
pub fn argument(orb: &Orb, type_code: &TypeCode, json: &str) -> Result<Any, Box<dyn Error>> {
    if type_code.original().kind() != Kind::ObjRef {
        return Ok(Any::from_json(type_code.clone(), json)?);
    }
    let object = match serde_json::from_str(json)? {
        serde_json::Value::Null => None,
        serde_json::Value::String(url) => Some(orb.string_to_object(&url)?),
        _ => return Err("a reference is null, or a text with its URL".into()),
    };
    Ok(Any::with_type(type_code.clone(), object.as_ref())?)
}

/// A result. A reference is a text with its IOR, or null.
pub fn as_json(value: &Any) -> Result<String, Box<dyn Error>> {
    if value.type_code().original().kind() != Kind::ObjRef {
        return Ok(value.to_json(MAX_JSON)?);
    }
    let mut octets = value.value().to_vec();
    let mut region = Region::new(4096);
    let scope = region.enter();
    let ior = Ior::decode(&mut Decoder::new(&mut octets, Order::NATIVE, Text::DEFAULT, &scope))?;
    Ok(if ior.profiles.is_empty() { "null".to_owned() } else { format!("\"{ior}\"") })
}

/// One result as it is, several as an object; the operation's own is called `result`.
fn results_as_json(
    operation: &isorb::DynamicOperation,
    results: &[Any],
) -> Result<Option<String>, Box<dyn Error>> {
    let mut named = Vec::new();
    for ((name, _), value) in operation.results().zip(results) {
        named.push((if name.is_empty() { "result" } else { name }, as_json(value)?));
    }
    Ok(match &named[..] {
        [] => None,
        [("result", only)] => Some(only.clone()),
        named => {
            let members: Vec<String> = named
                .iter()
                .map(|(name, json)| format!("{}:{json}", serde_json::Value::from(*name)))
                .collect();
            Some(format!("{{{}}}", members.join(",")))
        }
    })
}
