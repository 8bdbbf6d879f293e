//! Checks the sizes in a file before the library believes them.
//!
//! The library reserves memory for a page before it compares the page's check sum, and the number
//! of a page says how large it is: up to 8 TiB. So one damaged octet ends the process with the
//! message of the allocator. Here each page that the library may follow is found in the file first:
//! from the roots in the header, through the branches and the lists of tables, to the leaves.
//!
//! The layout is that of redb's version 3 (its `docs/design.md`). Check sums are left to the
//! library.

use crate::OpenError;
use crate::backend::Content;

const PAGE: u64 = 4096;
/// The most pages of a region: 4 GiB.
const REGION: u64 = 1 << 20;
/// Levels of a tree. Each branch has at least two children, so no file has more.
const DEPTH: u32 = 32;
/// The octets of the header that have a meaning.
const HEADER: usize = 320;
/// Where the descriptions of the two last versions are, and the flags of the header.
const VERSIONS: [usize; 2] = [64, 192];
const FLAGS: usize = 9;
const SECOND: u8 = 1;
const TWO_PHASE: u8 = 4;

/// Checks that every page which the header leads to lies within the file.
///
/// It reads the branches and the lists of tables as a whole, and of each leaf the first octets.
///
/// # Errors
/// [`OpenError::Corrupt`] where one does not, [`OpenError::Foreign`] for a kind of table that no
/// schema has, and those of reading.
pub fn check(file: &impl Content) -> Result<(), OpenError> {
    let length = file.length()?;
    let mut header = [0; HEADER];
    if length < HEADER as u64 {
        // The library has a better message for it.
        return Ok(());
    }
    file.read_exact(&mut header, 0)?;
    if !header.starts_with(b"redb") {
        return Ok(());
    }
    let number = |at: usize| u64::from(u32_at(&header, at).unwrap_or(0));
    let [page, region_header, region, regions, trailing] = [12, 16, 20, 24, 28].map(number);
    let is_possible = page == PAGE
        && region_header <= region
        && (1..=REGION).contains(&region)
        && trailing <= region
        && regions * region + trailing <= length / PAGE;
    if !is_possible {
        return Err(OpenError::Corrupt);
    }
    // With commits in two phases only the version that is marked is used, and the pages of the
    // other may be overwritten already.
    let second = usize::from(header[FLAGS] & SECOND);
    let used: &[usize] = if header[FLAGS] & TWO_PHASE != 0 { &VERSIONS[second..=second] } else { &VERSIONS };
    for version in used {
        // The versions have most pages in common.
        let mut pages = Pages { file, length, region_header, region, left: length / PAGE };
        // Of the schema's tables, and of the library's own.
        for (is_there, root) in [(1, 8), (2, 40)] {
            if header[version + is_there] != 0 {
                let root = u64_at(&header, version + root).ok_or(OpenError::Corrupt)?;
                pages.walk(root, Tree::Tables, DEPTH)?;
            }
        }
    }
    Ok(())
}

/// What the leaves of a tree hold.
#[derive(Clone, Copy, PartialEq)]
enum Tree {
    /// The descriptions of tables, by name.
    Tables,
    Records,
}

struct Pages<'f, C> {
    file: &'f C,
    length: u64,
    region_header: u64,
    region: u64,
    /// The pages that may still be visited. No tree has a page twice.
    left: u64,
}

impl<C: Content> Pages<'_, C> {
    /// Visits a page and all below it.
    fn walk(&mut self, page: u64, tree: Tree, depth: u32) -> Result<(), OpenError> {
        let (start, size) =
            range(page, self.region_header, self.region, self.length).ok_or(OpenError::Corrupt)?;
        let depth = depth.checked_sub(1).ok_or(OpenError::Corrupt)?;
        self.left = self.left.checked_sub(1).ok_or(OpenError::Corrupt)?;
        let mut head = [0; 4];
        self.file.read_exact(&mut head, start)?;
        let entries = usize::from(u16::from_le_bytes([head[2], head[3]]));
        match head[0] {
            1 if tree == Tree::Records => Ok(()),
            1 => {
                for root in roots(&self.read(start, size)?, entries)? {
                    self.walk(root, Tree::Records, depth)?;
                }
                Ok(())
            }
            2 => {
                // Sixteen octets of check sums for each child stand before their numbers.
                let numbers = 8 + 16 * (entries + 1);
                let octets = self.read(start, size.min(numbers as u64 + 8 * (entries as u64 + 1)))?;
                for child in 0..=entries {
                    let child = u64_at(&octets, numbers + 8 * child).ok_or(OpenError::Corrupt)?;
                    self.walk(child, tree, depth)?;
                }
                Ok(())
            }
            _ => Err(OpenError::Corrupt),
        }
    }

    fn read(&self, start: u64, size: u64) -> Result<Vec<u8>, OpenError> {
        let mut octets = vec![0; usize::try_from(size).map_err(|_| OpenError::Corrupt)?];
        self.file.read_exact(&mut octets, start)?;
        Ok(octets)
    }
}

/// Where a page begins and how long it is, if it lies in a file of that length. A region has
/// `region` pages behind a header of `region_header` pages.
///
/// The number of a page has, from the lowest bit on: its index in the region, in units of its size;
/// the region; and the logarithm of its size.
fn range(page: u64, region_header: u64, region: u64, length: u64) -> Option<(u64, u64)> {
    let order = page >> 59;
    let pages = 1_u64 << order;
    let (index, number) = (page & (0xf_ffff >> order), page >> 20 & 0xf_ffff);
    if (index + 1) * pages > region {
        return None;
    }
    let before = 1 + number * (region_header + region) + region_header + index * pages;
    let (start, size) = (before * PAGE, pages * PAGE);
    (start + size <= length).then_some((start, size))
}

/// The roots of the tables that a leaf describes.
fn roots(leaf: &[u8], tables: usize) -> Result<Vec<u64>, OpenError> {
    // The ends of all names, then the ends of all descriptions. The descriptions follow the names.
    let end = |n: usize| u32_at(leaf, 4 + 4 * n).map(|end| end as usize);
    let description = |n: usize| leaf.get(end(tables + n - 1)?..end(tables + n)?);
    let mut roots = Vec::new();
    for n in 0..tables {
        let description = description(n).ok_or(OpenError::Corrupt)?;
        // The kind, the number of records, and whether there is a root.
        match (description.first(), description.get(9)) {
            (Some(3), Some(0)) => {}
            (Some(3), Some(_)) => roots.push(u64_at(description, 10).ok_or(OpenError::Corrupt)?),
            // Several records by key.
            (Some(4), _) => return Err(OpenError::Foreign),
            _ => return Err(OpenError::Corrupt),
        }
    }
    Ok(roots)
}

fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(octets.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(octets: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(octets.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(kani)]
mod proofs {
    use super::*;

    /// No number of a page leads beyond the file, or overflows, whatever the header says.
    #[kani::proof]
    fn pages_lie_in_the_file() {
        let (header, region): (u64, u64) = (kani::any(), kani::any());
        kani::assume(header <= region && (1..=REGION).contains(&region));
        let length = kani::any();
        if let Some((start, size)) = range(kani::any(), header, region, length) {
            assert!(size >= PAGE && size <= length && start >= PAGE && start <= length - size);
        }
    }
}
