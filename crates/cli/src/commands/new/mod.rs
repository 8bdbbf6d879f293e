//! `isorb new`: a project that builds and runs, to begin with.

mod templates;

use crate::commands::arguments::Wrong;
use std::io::Write;
use std::path::{Path, PathBuf};
use templates::Template;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of the project, which is made; its last part is the package's name
    folder: PathBuf,
    /// What the project is about
    #[arg(long, value_enum, default_value = "object")]
    template: Template,
    /// Folder of isorb's sources [default: the environment's ISORB]
    #[arg(long, value_name = "FOLDER")]
    isorb: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let name = package_name(&args.folder).map_err(Wrong)?;
    let isorb = args.isorb.clone().or_else(|| std::env::var_os("ISORB").map(PathBuf::from));
    let isorb = sources(isorb).map_err(Wrong)?;
    if args.folder.exists() {
        let wrong = format!("{} exists already: name a folder that does not", args.folder.display());
        return Err(Wrong(wrong).into());
    }
    for (path, text) in args.template.files() {
        let path = args.folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(&args.folder))
            .and_then(|()| std::fs::write(&path, text.replace("{name}", name).replace("{isorb}", &isorb)))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let folder = args.folder.display();
    writeln!(std::io::stdout(), "{folder}: a project to begin with; {folder}/README.md says how to run it")?;
    Ok(())
}

/// The last part of the folder, if Cargo takes it as the name of a package.
fn package_name(folder: &Path) -> Result<&str, String> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let first = name.chars().next().is_some_and(|c| c.is_ascii_lowercase());
    let rest = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_');
    // The names of what the project is made of would stand for the project itself.
    let taken = name.starts_with("isorb") || ["test", "core", "std", "alloc", "proc_macro"].contains(&name);
    if first && rest && !taken {
        return Ok(name);
    }
    Err(format!(
        "{name:?} is no name for a package: it begins with a small letter, has small letters, digits, - and _ \
         only, and is neither isorb's nor Rust's own (FOLDER)"
    ))
}

/// The absolute path of the sources, as text for `Cargo.toml`.
fn sources(folder: Option<PathBuf>) -> Result<String, String> {
    let Some(folder) = folder else {
        return Err("where are isorb's sources? Name their folder: --isorb FOLDER, or ISORB=FOLDER in the environment".into());
    };
    if !folder.join("crates/orb/Cargo.toml").is_file() {
        return Err(format!("{} has no crates/orb: it is not isorb's sources (--isorb)", folder.display()));
    }
    let absolute =
        folder.canonicalize().map_err(|error| format!("{}: {error} (--isorb)", folder.display()))?;
    let text = absolute.to_str().filter(|text| !text.contains(['"', '\\', '\n']));
    text.map(str::to_owned).ok_or_else(|| format!("Cargo.toml cannot name {} (--isorb)", folder.display()))
}
