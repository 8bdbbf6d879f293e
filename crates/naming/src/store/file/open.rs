//! Opening a store: a missing file, another program's file, the file of a killed process, a damaged
//! file.

use super::{BINDINGS, CACHE, CONTEXTS, FORMAT, FORMAT_KEY, LAST_KEY, META, STAMP_KEY, begin};
use crate::binding::{Binding, ContextId};
use crate::store::{Fault, OpenError, Refusal, new_stamp};
use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, StorageError, TableHandle,
    WriteTransaction,
};
use std::fs::{self, File};
use std::io::Read;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The database of a store and its stamp.
///
/// A store is copied, record by record, into a new file that replaces the old one. The library's
/// check sums cover the records, but not the whole list of free pages. Writing with a wrong list
/// would overwrite records. The copy has a new list.
pub fn open(path: &Path) -> Result<(Database, u64), OpenError> {
    let path = &match fs::canonicalize(path) {
        Ok(path) => path,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => path.to_path_buf(),
        Err(error) => return Err(io(error)),
    };
    make_if_missing(path)?;
    check_sizes(path)?;
    // The library has assertions that fail on a file that was damaged on purpose.
    let guarded = |run: &dyn Fn() -> Result<(Database, u64), OpenError>| {
        catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(OpenError::Corrupt))
    };
    guarded(&|| {
        // Never closed, since closing writes with the file's own list of free pages. The process
        // keeps a file handle, and the lock on the old file until the new one has replaced it.
        let old = ManuallyDrop::new(check(path)?.0);
        let draft = draft_of(path);
        let made = guarded(&|| copy(&old, &draft));
        if made.is_err() {
            let _ = fs::remove_file(&draft);
        }
        let made = made?;
        let permissions = fs::metadata(path).map_err(io)?.permissions();
        fs::set_permissions(&draft, permissions).map_err(io)?;
        fs::rename(&draft, path).map_err(io)?;
        sync_folder(path)?;
        Ok(made)
    })
}

/// Checks the sizes in a database's header for which the library reserves memory before it compares
/// a check sum: the layout of the file, and the sizes of the first pages.
fn check_sizes(path: &Path) -> Result<(), OpenError> {
    const PAGE: u64 = 4096;
    /// Pages of a region, at 4 GiB.
    const REGION: u64 = 1 << 20;
    /// Offset of the page numbers of the roots, two for each of two versions.
    const ROOTS: [usize; 4] = [64 + 8, 64 + 40, 192 + 8, 192 + 40];
    /// The upper bits of a page number are the logarithm of the page's size in the least pages.
    const ORDER: u32 = 59;
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let mut header = [0; 320];
    if file.read_exact(&mut header).is_err() || !header.starts_with(b"redb") {
        // The library has a better message for it.
        return Ok(());
    }
    let number = |at: usize| u64::from(u32::from_le_bytes(header[at..at + 4].try_into().unwrap_or_default()));
    let [page, region_header, region, regions, trailing] = [12, 16, 20, 24, 28].map(number);
    let layout = page == PAGE
        && region_header <= region
        && (1..=REGION).contains(&region)
        && trailing <= region
        && regions * region + trailing <= length / PAGE;
    let roots = ROOTS.iter().all(|at| {
        let root = u64::from_le_bytes(header[*at..at + 8].try_into().unwrap_or_default());
        PAGE << (root >> ORDER) <= length
    });
    if layout && roots { Ok(()) } else { Err(OpenError::Corrupt) }
}

/// The path at which a file is made before it replaces the store.
fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    path.with_file_name(name)
}

fn sync_folder(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
}

/// A new database with the records of an old one.
fn copy(old: &Database, draft: &Path) -> Result<(Database, u64), OpenError> {
    // The file of an earlier process with this id.
    let _ = fs::remove_file(draft);
    let new = Database::builder().set_cache_size(CACHE).create(draft)?;
    let from = old.begin_read().map_err(unreadable)?;
    let stamp = copy_records(&from, begin(&new).map_err(refused)?).map_err(refused)?;
    Ok((new, stamp))
}

fn copy_records(from: &ReadTransaction, into: WriteTransaction) -> Result<u64, Refusal> {
    let mut stamp = 0;
    {
        let mut meta = into.open_table(META)?;
        for number in from.open_table(META)?.iter()? {
            let (key, value) = number?;
            if key.value() == STAMP_KEY {
                stamp = value.value();
            }
            meta.insert(key.value(), value.value())?;
        }
        let mut contexts = into.open_table(CONTEXTS)?;
        for context in from.open_table(CONTEXTS)?.iter()? {
            contexts.insert(context?.0.value(), ())?;
        }
        let mut bindings = into.open_table(BINDINGS)?;
        for binding in from.open_table(BINDINGS)?.iter()? {
            let (key, value) = binding?;
            bindings.insert(key.value(), value.value())?;
        }
    }
    into.commit()?;
    Ok(stamp)
}

/// Makes a new store beside its path, and renames it when it is complete. A process that is killed
/// meanwhile leaves no store or a good one.
fn make_if_missing(path: &Path) -> Result<(), OpenError> {
    let empty = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.len() == 0 => true,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => return Err(io(error)),
    };
    let draft = draft_of(path);
    // The file of an earlier process with this id.
    let _ = fs::remove_file(&draft);
    drop(check(&draft)?);
    let placed = if empty {
        fs::rename(&draft, path)
    } else {
        let linked = fs::hard_link(&draft, path);
        let _ = fs::remove_file(&draft);
        match linked {
            // Another process was faster.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    };
    placed.map_err(io)?;
    sync_folder(path)
}

/// Opens a file and reads all of it.
fn check(path: &Path) -> Result<(Database, u64), OpenError> {
    let mut database = Database::builder().set_cache_size(CACHE).create(path)?;
    // `false` means that the list of free pages was written anew, as after a crash. With two-phase
    // commits an acknowledged root is never replaced by an older one.
    database.check_integrity()?;
    let stamp = match tables(&database)? {
        (true, _) => begin(&database).and_then(fill).map_err(refused)?,
        (false, false) => return Err(OpenError::Foreign),
        (false, true) => verify(&database.begin_read().map_err(unreadable)?)?,
    };
    Ok((database, stamp))
}

/// Makes the tables of a new store.
fn fill(transaction: WriteTransaction) -> Result<u64, Refusal> {
    let stamp = new_stamp();
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT_KEY, FORMAT)?;
        meta.insert(STAMP_KEY, stamp)?;
        meta.insert(LAST_KEY, ContextId::ROOT.0)?;
        transaction.open_table(CONTEXTS)?.insert(ContextId::ROOT.0, ())?;
        transaction.open_table(BINDINGS)?;
    }
    transaction.commit()?;
    Ok(stamp)
}

/// Whether a database has no tables at all, and whether it has those of a store.
fn tables(database: &Database) -> Result<(bool, bool), OpenError> {
    let transaction = database.begin_read().map_err(unreadable)?;
    let tables: Vec<_> = transaction.list_tables().map_err(unreadable)?.collect();
    let others = transaction.list_multimap_tables().map_err(unreadable)?.count();
    Ok((tables.is_empty() && others == 0, tables.iter().any(|table| table.name() == META.name())))
}

/// Reads a whole store and returns its stamp.
fn verify(transaction: &ReadTransaction) -> Result<u64, OpenError> {
    let meta = transaction.open_table(META).map_err(|_| OpenError::Foreign)?;
    let number = |key| {
        let value = meta.get(key).map_err(unreadable)?;
        value.map(|value| value.value()).ok_or(OpenError::Corrupt)
    };
    match number(FORMAT_KEY)? {
        FORMAT => {}
        other => return Err(OpenError::Version(other)),
    }
    let (stamp, last) = (number(STAMP_KEY)?, number(LAST_KEY)?);
    let contexts = transaction.open_table(CONTEXTS).map_err(|_| OpenError::Corrupt)?;
    let bindings = transaction.open_table(BINDINGS).map_err(|_| OpenError::Corrupt)?;
    let exists = |id: u64| Ok::<_, OpenError>(contexts.get(id).map_err(unreadable)?.is_some());
    if !exists(ContextId::ROOT.0)? {
        return Err(OpenError::Corrupt);
    }
    for context in contexts.iter().map_err(unreadable)? {
        if context.map_err(unreadable)?.0.value() > last {
            return Err(OpenError::Corrupt);
        }
    }
    for binding in bindings.iter().map_err(unreadable)? {
        let (key, value) = binding.map_err(unreadable)?;
        if !exists(key.value().0)? || Binding::from_octets(value.value()).is_none() {
            return Err(OpenError::Corrupt);
        }
    }
    Ok(stamp)
}

impl From<DatabaseError> for OpenError {
    fn from(error: DatabaseError) -> OpenError {
        match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse,
            DatabaseError::UpgradeRequired(version) => OpenError::Version(version.into()),
            DatabaseError::Storage(StorageError::Io(error)) => match error.kind() {
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
                    OpenError::NotADatabase
                }
                kind => OpenError::Io(kind),
            },
            _ => OpenError::Corrupt,
        }
    }
}

fn unreadable(error: impl Into<redb::Error>) -> OpenError {
    match error.into() {
        redb::Error::Io(error) => OpenError::Io(error.kind()),
        _ => OpenError::Corrupt,
    }
}

fn refused(refusal: Refusal) -> OpenError {
    match refusal {
        Refusal::Failed(Fault::Io(kind)) => OpenError::Io(kind),
        _ => OpenError::Corrupt,
    }
}

fn io(error: std::io::Error) -> OpenError {
    OpenError::Io(error.kind())
}
