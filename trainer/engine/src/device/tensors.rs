//! Tensors in host memory and in safetensors files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorInfo};
use tch::{Device, Kind, Tensor};
use trainer_plan::Error;
use trainer_plan::repeated_keys::refuse_repeated_keys;

use crate::device::native::CheckStatus as _;
use crate::device::native::copies::{BLOCK, Copies, Sources};

/// Bytes of a tensor in row-major order, outside of libtorch.
///
/// The bytes are in host memory or still being copied from a device. Reading them waits for the copy.
#[derive(Clone)]
pub struct HostTensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Bytes,
}

/// Location of the bytes.
#[derive(Clone)]
enum Bytes {
    Here(Vec<u8>),
    /// Range of a group of copies.
    Coming(Arc<Copies>, Range<usize>),
}

impl fmt::Debug for HostTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?} ", self.dtype, self.shape)?;
        match self.whole() {
            Ok(bytes) => f.write_str(&blake3::hash(&bytes).to_hex()[..8]),
            Err(error) => write!(f, "{error}"),
        }
    }
}

/// Bitwise equality. A tensor whose copy failed equals no tensor.
impl PartialEq for HostTensor {
    fn eq(&self, other: &Self) -> bool {
        let bytes = || Some((self.whole().ok()?, other.whole().ok()?));
        (self.dtype, &self.shape) == (other.dtype, &other.shape) && bytes().is_some_and(|(own, theirs)| own == theirs)
    }
}

/// Tensors by name.
pub type HostTensors = BTreeMap<String, HostTensor>;

impl HostTensor {
    /// Copies `tensor` from any device. Waits for the copy.
    #[expect(clippy::disallowed_methods, reason = "for use outside of steps; between steps use `copy_behind`")]
    pub fn copy_of(tensor: &Tensor) -> Result<Self, Error> {
        let dtype = dtype(tensor.kind())?;
        let host = tensor.detach().f_to_device(Device::Cpu).checked()?.f_contiguous().checked()?;
        let shape = shape(&host);
        let mut bytes = vec![0; host.numel() * tensor.kind().elt_size_in_bytes()];
        host.f_copy_data_u8(&mut bytes, host.numel()).checked()?;
        Ok(Self { dtype, shape, bytes: Bytes::Here(bytes) })
    }

    /// Returns a tensor on the CPU.
    pub fn to_tensor(&self) -> Result<Tensor, Error> {
        let shape: Vec<i64> = self.shape.iter().map(|&size| as_i64(size)).collect();
        Tensor::f_from_data_size(&self.whole()?, &shape, kind(self.dtype)?).checked()
    }

    /// Returns the bytes in one piece. Waits for the copy.
    fn whole(&self) -> Result<Cow<'_, [u8]>, Error> {
        Ok(match self.pieces()?.as_slice() {
            [one] => Cow::Borrowed(one),
            pieces => Cow::Owned(pieces.concat()),
        })
    }

    /// Returns the bytes in pieces, as they are stored. Waits for the copy.
    pub(crate) fn pieces(&self) -> Result<Vec<&[u8]>, Error> {
        match &self.bytes {
            Bytes::Here(bytes) => Ok(vec![bytes]),
            Bytes::Coming(copies, place) => copies.pieces(place),
        }
    }

    fn len(&self) -> usize {
        match &self.bytes {
            Bytes::Here(bytes) => bytes.len(),
            Bytes::Coming(_, place) => place.len(),
        }
    }

    /// Whether no value is NaN or infinite.
    pub(crate) fn is_finite(&self) -> Result<bool, Error> {
        let all = self.to_tensor()?.f_isfinite().checked()?.f_all().checked()?;
        bool::try_from(&all).checked()
    }

    /// Sizes of the axes.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Whether the tensor has these dimensions.
    pub(crate) fn has_shape(&self, shape: &[i64]) -> bool {
        self.shape.iter().map(|&length| i64::try_from(length).ok()).eq(shape.iter().map(|&length| Some(length)))
    }
}

/// Starts to copy tensors of a device, the changing ones first, without waiting: see [`Copies`].
///
/// On the CPU the copies are complete on return.
pub(crate) fn copy_behind(
    sources: Sources<'_>,
    device: Device,
) -> Result<(Vec<HostTensor>, Option<Arc<Copies>>), Error> {
    let all = || sources.changing.iter().chain(sources.resting).copied();
    if device == Device::Cpu {
        return Ok((all().map(HostTensor::copy_of).collect::<Result<_, _>>()?, None));
    }
    let (copies, places) = Copies::begin(sources, device, BLOCK)?;
    let copies = Arc::new(copies);
    let coming = |(tensor, place): (&Tensor, Range<usize>)| {
        let dtype = dtype(tensor.kind())?;
        let bytes = Bytes::Coming(Arc::clone(&copies), place);
        Ok(HostTensor { dtype, shape: shape(tensor), bytes })
    };
    let tensors: Result<_, Error> = all().zip(places).map(coming).collect();
    Ok((tensors?, Some(copies)))
}

/// Writes a safetensors file in order of names. The metadata names PyTorch, because `transformers` requires it.
pub(crate) fn write(tensors: &HostTensors, target: &mut impl Write) -> std::io::Result<()> {
    let mut end = 0;
    let infos = tensors.iter().map(|(name, tensor)| {
        let start = end;
        end += tensor.len();
        (name.clone(), TensorInfo { dtype: tensor.dtype, shape: tensor.shape.clone(), data_offsets: (start, end) })
    });
    let format = Some([("format".to_owned(), "pt".to_owned())].into());
    let metadata = Metadata::new(format, infos.collect()).map_err(std::io::Error::other)?;
    let mut header = serde_json::to_string(&metadata)?;
    // Readers map the file, so the data begins at a multiple of 8.
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    target.write_all(&(header.len() as u64).to_le_bytes())?;
    target.write_all(header.as_bytes())?;
    for tensor in tensors.values() {
        let pieces = tensor.pieces().map_err(std::io::Error::other)?;
        pieces.into_iter().try_for_each(|piece| target.write_all(piece))?;
    }
    Ok(())
}

/// Reads a safetensors file of any origin.
pub fn read(path: &Path) -> Result<HostTensors, Error> {
    let failed = |error: std::io::Error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let bytes = std::fs::read(path).map_err(failed)?;
    parse(path, &bytes)
}

/// Parses a safetensors file in memory. `path` is used in error messages.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<HostTensors, Error> {
    let damaged = |problem: String| Error::Checkpoint { path: path.to_owned(), problem };
    let file = SafeTensors::deserialize(bytes).map_err(|error| damaged(format!("no safetensors file: {error}")))?;
    let (length, _) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(error.to_string()))?;
    refuse_repeated_keys(&bytes[8..8 + length]).map_err(damaged)?;
    let host = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        let bytes = Bytes::Here(view.data().to_vec());
        let tensor = HostTensor { dtype: view.dtype(), shape: view.shape().to_vec(), bytes };
        (name.to_owned(), tensor)
    };
    Ok(file.iter().map(host).collect())
}

/// Copies a host tensor to a device and waits. For initial and restored weights and for uses outside of training.
#[expect(clippy::disallowed_methods, reason = "the only function for copies that are made once")]
pub(crate) fn upload_once(tensor: &Tensor, device: Device) -> Tensor {
    tensor.to_device(device)
}

/// Overwrites `target` by the saved tensor of that name. The error message names the tensor.
pub(crate) fn overwrite(target: &Tensor, saved: &HostTensors, name: &str, device: Device) -> Result<(), String> {
    copy_into(target, &read_saved(saved, name, &target.size())?, name, device)
}

/// Overwrites `target` by a part of the flat saved tensor, whose shape must be `shape`.
pub(crate) fn overwrite_part(
    target: &Tensor,
    saved: &HostTensors,
    name: &str,
    shape: &[i64],
    part: &Range<i64>,
    device: Device,
) -> Result<(), String> {
    copy_into(target, &part_of(&read_saved(saved, name, shape)?, part), name, device)
}

fn read_saved(saved: &HostTensors, name: &str, shape: &[i64]) -> Result<Tensor, String> {
    let tensor = saved.get(name).ok_or_else(|| format!("`{name}` is missing"))?;
    let source = tensor.to_tensor().map_err(|error| format!("`{name}`: {error}"))?;
    if source.size() == shape {
        Ok(source)
    } else {
        Err(format!("`{name}` is {:?}, this run has {shape:?}", source.size()))
    }
}

fn copy_into(target: &Tensor, source: &Tensor, name: &str, device: Device) -> Result<(), String> {
    let _guard = tch::no_grad_guard();
    target.shallow_clone().f_copy_(&upload_once(source, device)).map_err(|error| format!("`{name}`: {error}"))
}

/// Returns a view of a part of the flat tensor.
pub(crate) fn part_of(tensor: &Tensor, part: &Range<i64>) -> Tensor {
    tensor.view([-1]).narrow(0, part.start, part.end - part.start)
}

/// Returns views of the tensors that `flat` has one after the other, from their shapes.
pub(crate) fn split<'a>(
    flat: &'a Tensor,
    shapes: impl IntoIterator<Item = Vec<i64>> + 'a,
) -> impl Iterator<Item = Tensor> {
    let mut offset = 0;
    shapes.into_iter().map(move |shape| {
        let length = shape.iter().product();
        let view = flat.narrow(0, offset, length).view(shape.as_slice());
        offset += length;
        view
    })
}

/// Converts a size to libtorch's type.
pub(crate) fn as_i64(size: usize) -> i64 {
    i64::try_from(size).expect("sizes of memory fit 63 bits")
}

fn shape(tensor: &Tensor) -> Vec<usize> {
    tensor.size().into_iter().map(|size| usize::try_from(size).expect("sizes are not negative")).collect()
}

fn dtype(kind: Kind) -> Result<Dtype, Error> {
    Ok(match kind {
        Kind::Float => Dtype::F32,
        Kind::Double => Dtype::F64,
        Kind::BFloat16 => Dtype::BF16,
        Kind::Half => Dtype::F16,
        Kind::Int64 => Dtype::I64,
        other => return Err(Error::Native(format!("tensors of {other:?} are not saved"))),
    })
}

fn kind(dtype: Dtype) -> Result<Kind, Error> {
    Ok(match dtype {
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
        Dtype::BF16 => Kind::BFloat16,
        Dtype::F16 => Kind::Half,
        Dtype::I64 => Kind::Int64,
        other => return Err(Error::Native(format!("tensors of {other:?} are not read"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_survive_a_file() {
        let scalar = Tensor::from(f64::NAN);
        let matrix = Tensor::from_slice(&[1_f32, -0.0, f32::INFINITY, 4.0, 5.0, 6.0]).view([3, 2]);
        let tensors: HostTensors = [("b", &scalar), ("a", &matrix.transpose(0, 1))]
            .map(|(name, tensor)| (name.to_owned(), HostTensor::copy_of(tensor).expect("a known type")))
            .into();
        let mut file = Vec::new();
        write(&tensors, &mut file).expect("memory takes all");
        let read = parse(Path::new("x"), &file).expect("just written");
        assert_eq!(read, tensors, "bitwise equal, NaN included");
        assert_eq!(read["a"].to_tensor().expect("known"), matrix.transpose(0, 1));
        // Readers would take the second.
        let header = br#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
        let twice = [&(header.len() as u64).to_le_bytes()[..], header, &[7]].concat();
        let error = parse(Path::new("x"), &twice).expect_err("a name twice").to_string();
        assert!(error.starts_with("checkpoint x: `a` occurs twice"), "{error}");
        file.truncate(file.len() - 1);
        let error = parse(Path::new("x"), &file).expect_err("a cut tail").to_string();
        assert!(error.contains("checkpoint x: no safetensors file"), "{error}");
    }
}
