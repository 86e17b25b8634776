//! Log records in memory.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// Writer of log records into memory. Clones write to the same memory.
#[derive(Clone, Default)]
pub struct LogRecords(Arc<Mutex<Vec<u8>>>);

impl LogRecords {
    /// Returns the text of the records.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("records are text")
    }
}

impl Write for LogRecords {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
