//! A run's folder `tensorboard/`: one file for each process, which `tensorboard --logdir runs` finds.

use std::fs::{File, OpenOptions, create_dir_all, read_dir};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::Encoder;
use crate::{Event, Observer};

/// The folder, in that of the run.
const FOLDER: &str = "tensorboard";

/// What readers know such files by.
const PREFIX: &str = "events.out.tfevents.";

/// Writes what can be drawn. The file grows line by line, so it is no object of a store, and nothing of a run depends on it:
/// what cannot be written is said once and left out.
pub struct TensorBoard {
    folder: PathBuf,
    encoder: Encoder,
    /// Open from the first number on, and how much of it is whole.
    file: Option<(File, u64)>,
    is_said: bool,
}

impl TensorBoard {
    /// Writes into the folder of a run, from the first number on.
    pub fn of(run: &Path) -> Self {
        Self { folder: run.join(FOLDER), encoder: Encoder::default(), file: None, is_said: false }
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
            // Behind half a record no reader finds the next one.
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
            && !std::mem::replace(&mut self.is_said, true)
        {
            let folder = self.folder.display();
            tracing::warn!("{folder}: {error}; what TensorBoard shows has gaps from here on, the log has none");
        }
    }
}

fn cut(file: &mut File, length: u64) -> io::Result<()> {
    use std::io::Seek as _;

    file.set_len(length)?;
    file.seek(io::SeekFrom::Start(length)).map(drop)
}

/// Readers take files in the order of their names: the newest comes last, also where clocks of two machines disagree.
fn name(folder: &Path, time: u64) -> io::Result<String> {
    let mut newest = 0;
    for entry in read_dir(folder)? {
        newest = newest.max(time_of(&entry?.file_name().to_string_lossy()).unwrap_or(0));
    }
    let time = time.max(newest + 1);
    Ok(format!("{PREFIX}{:010}.{:03}.{}", time / 1000, time % 1000, std::process::id()))
}

/// The milliseconds of a name.
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
    fn each_process_has_a_file_behind_those_before_it() {
        let home = tempfile::tempdir().expect("a temporary folder");
        // Of a machine whose clock is an hour ahead.
        let ahead = format!("{PREFIX}0000003600.250.1");
        create_dir_all(home.path().join(FOLDER)).expect("made");
        let other = home.path().join(FOLDER).join(&ahead);
        OpenOptions::new().write(true).create_new(true).open(other).expect("made");
        let mut reader = TensorBoard::of(home.path());
        assert_eq!(files(home.path()).len(), 1, "nothing is made before there is something to draw");
        reader.observe(&event(1));
        let one = files(home.path());
        reader.observe(&event(2));
        let mut next = TensorBoard::of(home.path());
        next.observe(&event(3));
        let now = files(home.path());
        assert_eq!((&now[0].0, now.len()), (&ahead, 3));
        assert!(now[1].0 == one[1].0 && now[1].1 > one[1].1, "the first continues: {now:?}");
        let last = format!("{PREFIX}0000003600.252.{}", std::process::id());
        assert_eq!(now[2].0, last);
    }

    #[test]
    fn a_disk_that_is_full_costs_what_could_not_be_written() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mut reader = TensorBoard::of(home.path());
        reader.observe(&event(1));
        let whole = files(home.path())[0].1;
        // A file that is not for writing stands for a disk that takes nothing.
        let path = home.path().join(FOLDER).join(&files(home.path())[0].0);
        let writes = reader.file.replace((File::open(&path).expect("there"), whole)).expect("open");
        reader.observe(&event(2));
        assert!(reader.is_said && files(home.path())[0].1 == whole);
        reader.file = Some(writes);
        reader.observe(&event(3));
        assert!(files(home.path())[0].1 > whole, "it continues where that is possible again");
    }
}
