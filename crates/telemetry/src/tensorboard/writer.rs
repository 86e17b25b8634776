//! Writer of the run folder's `tensorboard/`: one file for each process. `tensorboard --logdir runs` finds it.

use std::fs::{File, OpenOptions, create_dir_all, read_dir};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::Encoder;
use crate::{Event, Observer};

/// Folder within the run folder.
const FOLDER: &str = "tensorboard";

/// Prefix of the file names, by which TensorBoard recognizes them.
const PREFIX: &str = "events.out.tfevents.";

/// Observer that writes scalars. The file is appended to, so it is not an object of a store. A run does not depend on it:
/// the first write error is logged, and records that cannot be written are omitted.
pub struct TensorBoard {
    folder: PathBuf,
    encoder: Encoder,
    /// File, opened with the first scalar, and the length of its complete records.
    file: Option<(File, u64)>,
    has_warned: bool,
}

impl TensorBoard {
    /// Creates a writer for the folder of a run. The file is created with the first scalar.
    pub fn new(run: &Path) -> Self {
        Self { folder: run.join(FOLDER), encoder: Encoder::default(), file: None, has_warned: false }
    }

    fn write(&mut self, time: u64, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            create_dir_all(&self.folder)?;
            let path = self.folder.join(name(&self.folder, time)?);
            self.file = Some((OpenOptions::new().write(true).create_new(true).open(path)?, 0));
        }
        let Some((file, whole)) = &mut self.file else { unreachable!("it was just opened") };
        let written = file.write_all(bytes);
        match written {
            Ok(()) => *whole += bytes.len() as u64,
            // After a partial record, no reader finds the next one.
            Err(_) => cut(file, *whole)?,
        }
        written
    }
}

impl Observer for TensorBoard {
    fn observe(&mut self, event: &Event) {
        let bytes = self.encoder.encode(event);
        if bytes.is_empty() {
            return;
        }
        if let Err(error) = self.write(event.time, &bytes)
            && !std::mem::replace(&mut self.has_warned, true)
        {
            let folder = self.folder.display();
            tracing::warn!(
                "tensorboard: {folder}: {error}; the curves have gaps from here on, but the run log is complete"
            );
        }
    }
}

fn cut(file: &mut File, length: u64) -> io::Result<()> {
    use std::io::Seek as _;

    file.set_len(length)?;
    file.seek(io::SeekFrom::Start(length)).map(drop)
}

/// Returns the name of a new file. Readers order files by name, so the name sorts last even if machine clocks differ.
fn name(folder: &Path, time: u64) -> io::Result<String> {
    let mut newest = 0;
    for entry in read_dir(folder)? {
        newest = newest.max(time_of(&entry?.file_name().to_string_lossy()).unwrap_or(0));
    }
    let time = time.max(newest + 1);
    Ok(format!("{PREFIX}{:010}.{:03}.{}", time / 1000, time % 1000, std::process::id()))
}

/// Returns the milliseconds of a file name.
fn time_of(name: &str) -> Option<u64> {
    let mut parts = name.strip_prefix(PREFIX)?.split('.');
    let [seconds, ms] = [parts.next()?, parts.next()?].map(str::parse::<u64>);
    seconds.ok()?.checked_mul(1000)?.checked_add(ms.ok()?)
}

#[cfg(test)]
mod tests {
    use schemas::Step;

    use super::*;
    use crate::training::StarvedReport;
    use crate::{Clock, EventKind, Position};

    fn event(step: u64) -> Event {
        let report = StarvedReport { by: "prepare".to_owned(), seconds: 1.0, part: 0, parts: 1 };
        Clock::still().event(Position { step: Some(Step(step)), ..Position::default() }, EventKind::Starved(report))
    }

    fn files(folder: &Path) -> Vec<(String, u64)> {
        let entries = read_dir(folder.join(FOLDER)).expect("there");
        let mut files: Vec<_> = entries
            .map(|entry| entry.expect("readable"))
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().expect("there").len()))
            .collect();
        files.sort();
        files
    }

    #[test]
    fn the_file_of_each_process_sorts_after_earlier_ones() {
        let home = tempfile::tempdir().expect("a temporary folder");
        // File of a machine whose clock is an hour ahead.
        let ahead = format!("{PREFIX}0000003600.250.1");
        create_dir_all(home.path().join(FOLDER)).expect("made");
        let other = home.path().join(FOLDER).join(&ahead);
        OpenOptions::new().write(true).create_new(true).open(other).expect("made");
        let mut reader = TensorBoard::new(home.path());
        assert_eq!(files(home.path()).len(), 1, "no file before the first scalar");
        reader.observe(&event(1));
        let one = files(home.path());
        reader.observe(&event(2));
        let mut next = TensorBoard::new(home.path());
        next.observe(&event(3));
        let now = files(home.path());
        assert_eq!((&now[0].0, now.len()), (&ahead, 3));
        assert!(now[1].0 == one[1].0 && now[1].1 > one[1].1, "the first continues: {now:?}");
        let last = format!("{PREFIX}0000003600.252.{}", std::process::id());
        assert_eq!(now[2].0, last);
    }

    #[test]
    fn a_full_disk_loses_only_the_unwritten_records() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mut reader = TensorBoard::new(home.path());
        reader.observe(&event(1));
        let whole = files(home.path())[0].1;
        // A read-only file simulates a full disk.
        let path = home.path().join(FOLDER).join(&files(home.path())[0].0);
        let writes = reader.file.replace((File::open(&path).expect("there"), whole)).expect("open");
        reader.observe(&event(2));
        assert!(reader.has_warned && files(home.path())[0].1 == whole);
        reader.file = Some(writes);
        reader.observe(&event(3));
        assert!(files(home.path())[0].1 > whole, "writing continues when the disk has space again");
    }
}
