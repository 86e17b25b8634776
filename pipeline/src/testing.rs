//! What this crate's unit tests share.

use std::io::Write;
use std::path::Path;

use schemas::atomic::Folder;

/// Writes files, with their folders, below `home`; contents ending in `.gz` or `.zst` names are compressed.
pub(crate) fn write_all(home: &Path, files: &[(&str, impl AsRef<[u8]>)]) {
    let folder = Folder::create(home).expect("a writable folder");
    for (name, bytes) in files {
        folder.write(name, &compressed(name, bytes.as_ref())).expect("written");
    }
}

fn compressed(name: &str, bytes: &[u8]) -> Vec<u8> {
    if name.ends_with(".gz") {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("in memory");
        encoder.finish().expect("in memory")
    } else if name.ends_with(".zst") {
        zstd::encode_all(bytes, 1).expect("in memory")
    } else {
        bytes.to_vec()
    }
}
