//! Header of a safetensors file: names and shapes of its tensors, read without the tensors.

use std::collections::BTreeMap;

use safetensors::tensor::{Metadata, TensorInfo};
use store::Store;

use crate::error::Error;

/// Bytes before the header that give its length, little-endian.
const LENGTH_BYTES: u64 = 8;
/// The longest header that the format allows.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Returns the shape of each tensor of the file `name`, by its name.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, [`Error::Checkpoint`] if it is missing, or not a whole safetensors header.
pub(crate) fn shapes(folder: &Store, name: &str) -> Result<BTreeMap<String, Vec<i64>>, Error> {
    let refuse = |problem: String| Error::Checkpoint { path: folder.place(name).into(), problem };
    let bytes = folder.head(name)?.ok_or_else(|| refuse("it is missing".to_owned()))?.bytes;
    let not_whole = || refuse("not a safetensors file: its header is not whole".to_owned());
    if bytes < LENGTH_BYTES {
        return Err(not_whole());
    }
    let length = folder.get_range(name, 0..LENGTH_BYTES)?;
    let length = u64::from_le_bytes(length.try_into().map_err(|_| not_whole())?);
    if length > MAX_HEADER_BYTES.min(bytes - LENGTH_BYTES) {
        return Err(not_whole());
    }
    let header = folder.get_range(name, LENGTH_BYTES..LENGTH_BYTES + length)?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|error| refuse(format!("not a safetensors file: {error}")))?;
    let size = |&size: &usize| i64::try_from(size).expect("sizes of memory fit 63 bits");
    let shape = |(name, info): (String, &TensorInfo)| (name, info.shape.iter().map(size).collect());
    Ok(metadata.tensors().into_iter().map(shape).collect())
}
