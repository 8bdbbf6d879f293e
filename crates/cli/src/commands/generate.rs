//! `isorb generate`: man pages and completions, from the definition of the commands.

use clap::Command;
use clap_complete::Shell;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for `man1` and `completions`; made if it does not exist
    folder: PathBuf,
}

pub fn run(args: &Args, mut program: Command) -> io::Result<()> {
    let (pages, completions) = (args.folder.join("man1"), args.folder.join("completions"));
    std::fs::create_dir_all(&pages)?;
    std::fs::create_dir_all(&completions)?;
    program.build();
    write_pages(&program, "isorb", &pages)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut program, "isorb", &completions)?;
    }
    Ok(())
}

/// A page for each command that is shown.
fn write_pages(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    let own = command.clone().display_name(name);
    let mut page = Vec::new();
    clap_mangen::Man::new(own).title(name).render(&mut page)?;
    std::fs::write(folder.join(format!("{name}.1")), page)?;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        write_pages(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    Ok(())
}
