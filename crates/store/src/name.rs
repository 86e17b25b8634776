//! Names of objects: the same rules on every storage backend.

use std::io;

/// Longest part of a name between two `/`, in bytes: file systems allow 255, and temporary files need 75 next to it.
const PART_BYTES_MAX: usize = 180;

/// Object name of a folder's lock. Only its holder may [sweep](crate::Store::sweep) the files below that folder.
pub const LOCK: &str = "lock";

/// File endings of unfinished objects. Their names begin with a dot.
const TEMPORARY: [&str; 3] = [PUTTING, REPLACING, GUARD];

/// `.NAME.WRITER.tmp`: content of a put or a create.
pub(crate) const PUTTING: &str = "tmp";
/// `.NAME.VERSION.WRITER.next`: possible successor of that version of `NAME`.
pub(crate) const REPLACING: &str = "next";
/// `.NAME.VERSION.guard`: link to the decided successor of that version of `NAME`.
pub(crate) const GUARD: &str = "guard";

/// Returns an error unless `name` is a valid object name: relative, with `/` between its parts.
pub(crate) fn check(name: &str) -> io::Result<()> {
    match name.split('/').find_map(problem) {
        None => Ok(()),
        Some(problem) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` is not a valid object name: {problem}", name.escape_debug()),
        )),
    }
}

/// Returns the error of one part of a name.
fn problem(part: &str) -> Option<&'static str> {
    match part {
        "" => Some("it is empty, absolute, or has an empty part"),
        "." | ".." => Some("`.` and `..` lead elsewhere"),
        _ if part.chars().any(char::is_control) => Some("it has a control character"),
        _ if part.len() > PART_BYTES_MAX => Some("a part of it is longer than 180 bytes"),
        _ if is_temporary(part) => Some("files of that name are temporary"),
        _ => None,
    }
}

/// Returns true if the last part of a path is reserved for unfinished files.
pub(crate) fn is_temporary(part: &str) -> bool {
    part.starts_with('.') && part.rsplit_once('.').is_some_and(|(_, ending)| TEMPORARY.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_store_or_of_temporary_files_are_refused() {
        let long = "n".repeat(181);
        let refused =
            ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a\0b", "a\nb", ".a.tmp", "b/.a.v.guard", ".next", &long];
        for name in refused {
            let error = check(name).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        for name in ["a", "a/b.c", "a.tmp", ".gitignore", "ä/ß", "a b", "...", &long[..180]] {
            check(name).expect(name);
        }
    }
}
