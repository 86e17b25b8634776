//! Text and JSON files of a tokenizer.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::{Error, Result};

/// Reads a text file without the byte-order mark that some editors write.
pub(super) fn read_text(path: &Path) -> Result<String> {
    let mut text = fs::read_to_string(path)
        .map_err(|error| Error::Tokenizer { path: path.to_owned(), message: error.to_string() })?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

/// Reads an object of a JSON file; empty if there is no such file.
pub(super) fn read_object(path: &Path) -> Result<Map<String, Value>> {
    if !path.is_file() {
        return Ok(Map::new());
    }
    let refuse = |message: String| Error::Tokenizer { path: path.to_owned(), message };
    serde_json::from_str(&read_text(path)?).map_err(|error| refuse(format!("not an object in JSON: {error}")))
}
