//! Takes the place of the package `dirs` in zenoh's dependencies. That package needs `option-ext`
//! under the licence MPL-2.0, which this project does not accept. zenoh uses this one function.

use std::path::PathBuf;

/// The home directory of the user.
pub fn home_dir() -> Option<PathBuf> {
    std::env::home_dir()
}
