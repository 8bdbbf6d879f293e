//! Opening a file: a missing one, another program's, that of a killed process, a damaged one.

use crate::backend::{Content, Disk, View};
use crate::guarded::Guarded;
use crate::pages;
use crate::{Fault, OpenError, Schema};
use redb::{Builder, Database, Durability, ReadableDatabase, WriteTransaction};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The cache of a database in octets.
const CACHE: usize = 16 << 20;

/// How all databases are opened.
pub fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE);
    // The lists of free pages of a region of 4 GiB take most of the time of opening a small file.
    #[cfg(fuzzing)]
    builder.set_region_size(1 << 20);
    builder
}

/// The path without links, so that a renamed draft replaces the file and not a link to it.
pub fn resolve(path: &Path) -> Result<PathBuf, OpenError> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_path_buf()),
        other => Ok(other?),
    }
}

/// Opens and locks an existing file without changing it.
pub fn lock(path: &Path) -> Result<Arc<File>, OpenError> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let user = rustix::process::geteuid();
    if !user.is_root() && ![0, user.as_raw()].contains(&metadata.uid()) {
        return Err(OpenError::Owner(metadata.uid()));
    }
    try_lock(&file)?;
    // A draft may have replaced the file before the lock was free.
    let now = fs::metadata(path)?;
    if (now.dev(), now.ino()) != (metadata.dev(), metadata.ino()) {
        return Err(OpenError::InUse);
    }
    Ok(Arc::new(file))
}

/// Milliseconds that a lock may still be held by a child that a thread of the process is about to
/// replace by another program, after the process has closed the file.
const INHERITED: u32 = 100;

fn try_lock(file: &File) -> Result<(), OpenError> {
    let mut left = INHERITED;
    let locked = loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if left > 0 => left -= 1,
            locked => break locked,
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse),
        // Some network file systems have no locks.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Opens a view of a file and reads all of it.
pub fn check<C: Content>(file: &Arc<C>, schema: &impl Schema) -> Result<Guarded, OpenError> {
    pages::check(&**file)?;
    guard(|| {
        let view = View::new(Arc::clone(file))?;
        let mut database = Guarded::from(builder().create_with_backend(view)?);
        // `false` means that the list of free pages was written anew, as after a crash. With
        // two-phase commits an acknowledged root is never replaced by an older one.
        database.check_integrity()?;
        if !is_empty(&database)? {
            schema.verify(&database.begin_read().map_err(Fault::from)?)?;
        }
        Ok(database)
    })
}

/// Copies a database, record by record, into a new file that replaces the old one.
///
/// The library's check sums cover the records, but not the whole list of free pages. Writing with a
/// wrong list would overwrite records. The copy has a new list. It also has only pages that this
/// process has written and synced, so a failed sync of the old file does no harm.
pub fn renew(path: &Path, old: &Database, schema: &impl Schema) -> Result<(Guarded, Arc<File>), OpenError> {
    remove_drafts(path);
    let draft = Draft::new(path)?;
    guard(|| {
        let new = draft.database()?;
        fill(&new, old, schema)?;
        draft.file.set_permissions(fs::metadata(path)?.permissions())?;
        fs::rename(&draft.path, path)?;
        sync_folder(path)?;
        Ok((new, Arc::clone(&draft.file)))
    })
}

/// Copies a database, record by record, into a new one; into a database without tables, those of
/// the schema.
pub fn fill(new: &Database, old: &Database, schema: &impl Schema) -> Result<(), OpenError> {
    let transaction = begin(new)?;
    if is_empty(old)? {
        schema.create(&transaction)?;
    } else {
        schema.copy(&old.begin_read().map_err(Fault::from)?, &transaction)?;
    }
    Ok(transaction.commit().map_err(Fault::from)?)
}

/// Opens a file that this process has written, where there is no space for a copy. The file is
/// repaired in place. With two-phase commits a commit is there as a whole or not at all, also after
/// a failed sync.
pub fn reopen(file: &Arc<File>) -> Result<Guarded, OpenError> {
    guard(|| {
        let disk = Disk(Arc::clone(file));
        let mut database = Guarded::from(builder().create_with_backend(disk)?);
        database.check_integrity()?;
        Ok(database)
    })
}

/// Makes a new database beside its path, and links it there when it is complete. A process that is
/// killed meanwhile leaves no file or a good one.
pub fn make_if_missing(path: &Path, schema: &impl Schema) -> Result<(), OpenError> {
    let is_empty = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() == 0 => true,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error.into()),
    };
    let draft = Draft::new(path)?;
    let database = draft.database()?;
    let transaction = begin(&database)?;
    schema.create(&transaction)?;
    transaction.commit().map_err(Fault::from)?;
    drop(database);
    let placed = if is_empty { fs::rename(&draft.path, path) } else { fs::hard_link(&draft.path, path) };
    match placed {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    sync_folder(path)
}

/// Begins a transaction that is on disk when its commit returns.
pub fn begin(database: &Database) -> Result<WriteTransaction, Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

/// The library has assertions that fail on a file that was damaged on purpose.
pub fn guard<T, E: From<Fault>>(run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(Fault::Corrupt.into()))
}

/// Whether a database has no tables at all.
fn is_empty(database: &Database) -> Result<bool, Fault> {
    let transaction = database.begin_read()?;
    let tables = transaction.list_tables()?.count();
    Ok(tables + transaction.list_multimap_tables()?.count() == 0)
}

/// A new file beside a database, which is removed unless it was renamed.
struct Draft {
    path: PathBuf,
    file: Arc<File>,
}

impl Draft {
    fn new(path: &Path) -> Result<Draft, OpenError> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".new-{}", std::process::id()));
        let path = path.with_file_name(name);
        // The file of an earlier process with this id.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let draft = Draft { path, file: Arc::new(file) };
        try_lock(&draft.file)?;
        Ok(draft)
    }

    fn database(&self) -> Result<Guarded, OpenError> {
        let disk = Disk(Arc::clone(&self.file));
        Ok(builder().create_with_backend(disk)?.into())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the drafts of processes that were killed. The caller holds the lock on `path`.
fn remove_drafts(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let prefix = [name.as_encoded_bytes(), b".new-"].concat();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_draft = entry.file_name().as_encoded_bytes().starts_with(&prefix);
        // A draft that is locked belongs to a process that lives.
        if is_draft && File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn sync_folder(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(folder).and_then(|folder| folder.sync_all())?)
}
