//! Secrets in files. Reading a secret never blocks.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Environment variable with the token of the server.
pub const SERVER_TOKEN: &str = "CLOZE_TOKEN";

/// Maximum size of a secret file in bytes.
const BYTES_MAX: u64 = 8192;

/// Returns the text of a file. Pipes and devices are refused, because they may block or be endless.
///
/// # Errors
/// If the file is not a regular file, is longer than 8 KiB, is not UTF-8, or cannot be read. No error repeats its content.
pub fn read(path: &Path) -> io::Result<String> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
    let non_blocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(non_blocking).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(wrong("it is not a regular file"));
    }
    if found.mode() & 0o077 != 0 {
        tracing::warn!("{}: other users of this machine may read this secret; run `chmod 600`", path.display());
    }
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => wrong("it is not UTF-8"),
        _ => error,
    })?;
    if text.len() as u64 > BYTES_MAX {
        return Err(wrong("it is longer than 8 KiB, the limit of a secret"));
    }
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_a_small_regular_file() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| home.path().join(name);
        let store = store::Store::folder(home.path()).expect("a folder");
        let long = "x".repeat(10_000);
        for (name, bytes) in [("good", "\u{feff}abc\n".as_bytes()), ("long", long.as_bytes()), ("bytes", b"secret\xff")]
        {
            store.put(name, bytes).expect("written");
        }
        assert_eq!(read(&at("good")).expect("readable"), "abc\n");
        for (name, word) in [("long", "8 KiB"), ("bytes", "UTF-8"), ("", "regular file"), ("gone", "No such")] {
            let error = read(&at(name)).expect_err(name).to_string();
            assert!(error.contains(word) && !error.contains("secret\u{fffd}"), "{name}: {error}");
        }
        assert!(read(Path::new("/dev/zero")).is_err());
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .expect("made");
        assert!(read(&at("pipe")).is_err(), "a pipe is refused without waiting for a writer");
    }
}
