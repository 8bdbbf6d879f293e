//! The file system that the facts are read from.

use std::fs;
use std::path::{Path, PathBuf};

/// Where `/proc` and `/sys` are: the system's own, or a tree that a test has made.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// This machine's.
    pub fn system() -> Root {
        Root(PathBuf::from("/"))
    }

    /// The tree below `folder`.
    pub fn at(folder: impl Into<PathBuf>) -> Root {
        Root(folder.into())
    }

    /// Is it this machine's own?
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The file's text; `None` if it is not there or may not be read. `path` begins with a slash.
    pub fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    /// Its first line, without the blanks around it.
    pub fn line(&self, path: &str) -> Option<String> {
        Some(self.text(path)?.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// Its first line as a number.
    pub fn number(&self, path: &str) -> Option<i64> {
        self.line(path)?.parse().ok()
    }

    /// The value after `name` and a colon, at the first line that has it.
    pub fn field(&self, path: &str, name: &str) -> Option<String> {
        self.text(path)?.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    }

    /// The names in a folder, sorted; none if it is not there.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }
}

#[cfg(test)]
pub(crate) mod fake {
    //! Trees for tests.

    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A tree that goes when this is dropped.
    pub(crate) struct Tree {
        folder: PathBuf,
        pub(crate) root: Root,
    }

    /// A tree of these files and their texts.
    pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("isorb-doctor-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let tree = Tree { root: Root::at(&folder), folder };
        for (path, text) in files {
            let file = tree.root.path(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        tree
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            // A failed test leaves it in the temporary folder at worst.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read_and_the_rest_is_none() {
        let tree = fake::tree(&[
            ("/proc/a", " 12 \nrest"),
            ("/proc/b", "x:1\nname:\tvalue: more\n"),
            ("/proc/c", ""),
        ]);
        let root = &tree.root;
        assert_eq!((root.line("/proc/a").as_deref(), root.number("/proc/a")), (Some("12"), Some(12)));
        assert_eq!(root.field("/proc/b", "name").as_deref(), Some("value: more"));
        assert_eq!((root.line("/proc/c").as_deref(), root.number("/proc/c")), (Some(""), None));
        assert_eq!((root.text("/proc/d"), root.field("/proc/b", "y")), (None, None));
        assert_eq!(root.names("/proc"), ["a", "b", "c"]);
        assert!(root.names("/sys").is_empty());
        assert!(Root::system().is_system() && !root.is_system());
    }
}
