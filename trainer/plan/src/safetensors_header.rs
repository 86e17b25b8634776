//! Header of a safetensors file: names and shapes of its tensors, read without the tensors.

use std::collections::BTreeMap;

use safetensors::tensor::{Metadata, TensorInfo};
use store::Store;

use crate::error::Error;
use crate::repeated_keys::refuse_repeated_keys;

/// Bytes before the header that give its length, little-endian.
const LENGTH_BYTES: u64 = 8;
/// The longest header that the format allows.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Returns the shape of each tensor of the file `name`, by its name.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, [`Error::Checkpoint`] if it is missing, or not a whole safetensors file.
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
    refuse_repeated_keys(&header).map_err(&refuse)?;
    let end = metadata.tensors().values().map(|info| info.data_offsets.1 as u64).max().unwrap_or(0);
    let whole = LENGTH_BYTES + length + end;
    if bytes != whole {
        return Err(refuse(format!("it has {bytes} bytes, but {whole} by its header: the file is damaged")));
    }
    let size = |&size: &usize| i64::try_from(size).expect("sizes of memory fit 63 bits");
    let shape = |(name, info): (String, &TensorInfo)| (name, info.shape.iter().map(size).collect());
    Ok(metadata.tensors().into_iter().map(shape).collect())
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    /// Returns the shapes of a file of a header and some bytes of tensors, or the problem.
    fn read(header: &str, bytes: usize) -> Result<BTreeMap<String, Vec<i64>>, String> {
        let folder = Store::in_memory(FaultConfig::none());
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![7; bytes]].concat();
        folder.put("model.safetensors", &file).expect("written");
        shapes(&folder, "model.safetensors").map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_as_long_as_its_header_says_and_names_each_tensor_once() {
        let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        assert_eq!(read(header, 8), Ok([("a".to_owned(), vec![2])].into()));
        let error = read(header, 7).expect_err("a cut tail");
        assert!(error.contains("it has 69 bytes, but 70 by its header: the file is damaged"), "{error}");
        let twice = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let error = read(twice, 8).expect_err("a name twice");
        assert!(error.contains("`a` occurs twice"), "{error}");
    }
}
