//! What an object may be called: the same on every kind of store.

use std::io;

/// Longest part of a name between two `/`, in bytes: file systems allow 255, and temporary files need 75 next to it.
const PART_BYTES_MAX: usize = 180;

/// What the lock of a folder is called. What lies below a folder that has one is its holder's to [sweep](crate::Store::sweep).
pub const LOCK: &str = "lock";

/// Endings of files, with a dot before their name, that are not objects but on their way to be one.
const TEMPORARY: [&str; 3] = [PUTTING, REPLACING, GUARD];

/// `.NAME.WRITER.tmp`: the content of a put or a create.
pub(crate) const PUTTING: &str = "tmp";
/// `.NAME.VERSION.WRITER.next`: content that would follow that version of `NAME`.
pub(crate) const REPLACING: &str = "next";
/// `.NAME.VERSION.guard`: a link to the one content that will follow that version of `NAME`.
pub(crate) const GUARD: &str = "guard";

/// Refuses what is not the name of an object: names are relative, with `/` between their parts.
pub(crate) fn check(name: &str) -> io::Result<()> {
    match name.split('/').find_map(problem) {
        None => Ok(()),
        Some(problem) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` is no name of an object: {problem}", name.escape_debug()),
        )),
    }
}

/// What is wrong with one part of a name.
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

/// Whether the last part of a path is one that only unfinished files have.
pub(crate) fn is_temporary(part: &str) -> bool {
    part.starts_with('.') && part.rsplit_once('.').is_some_and(|(_, ending)| TEMPORARY.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_or_look_unfinished_are_refused() {
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
