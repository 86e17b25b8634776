//! Speed of every format and compression on one core, on files that a person provides.

use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use super::*;

/// Prints megabytes per second and the BLAKE3 of all texts, each with a NUL after it, for every file of the folder
/// `CLOZE_READ_FOLDER`. Run it with `--ignored --nocapture`.
#[test]
#[ignore = "prints figures about files that a person provides"]
fn speed_of_files_in_a_folder() {
    let Ok(folder) = std::env::var("CLOZE_READ_FOLDER") else {
        testkit::skip("speed of reading: CLOZE_READ_FOLDER names no folder");
        return;
    };
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").path()).collect();
    paths.sort();
    for path in paths {
        measure(&path);
    }
}

fn measure(path: &Path) {
    let detected = FileExtensions::detect(&[path.display().to_string()]).format().expect("a known extension");
    let format = if detected.kind() == "text" { super::format("text_lines") } else { detected };
    let mut cut = config(path, format, Some(8 << 20));
    cut.config.reading.memory_budget = MemoryBudget::new(4 << 30, 1);
    let started = Instant::now();
    let corpus = Corpus::open(&cut.config).expect("readable");
    let parts = parts(&corpus, cut.part_bytes).expect("cut");
    let planned = started.elapsed().as_secs_f64();
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0;
    let mut complaints = 0;
    let started = Instant::now();
    for part in &parts {
        let mut documents = documents(&corpus, part).expect("opened");
        while let Some(found) = documents.next() {
            let found = found.expect("readable");
            complaints += found.complaints.len();
            if let Some(document) = &found.document {
                bytes += document.text.len();
                hasher.update(document.text.as_bytes()).update(b"\0");
            }
            documents.take_back(found);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let on_disk = corpus.bytes() as f64 / 1e6 / seconds;
    let line = format!(
        "{name}: {:.0} MB/s of text, {on_disk:.0} MB/s on disk, planned in {planned:.2} s, {} parts, {complaints} complaints, {}\n",
        bytes as f64 / 1e6 / seconds,
        parts.len(),
        hasher.finalize()
    );
    std::io::stderr().write_all(line.as_bytes()).expect("written");
}
