//! Staging buffer: all data of a micro-batch, uploaded to the device in one copy.
//!
//! A copy from pageable memory makes the host wait until the device has finished all earlier work. Here the buffer is
//! pinned and the copy asynchronous: the host packs the next micro-batch while the device works. libtorch's allocator
//! of pinned memory reuses a buffer only after its copies are done. So there are as many buffers as copies in flight.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};
use trainer_plan::Error;

use crate::device::native;
use crate::device::precision::{FLAG, INDEX, MASTER};
use crate::device::tensors::as_i64;

/// Alignment of each array in bytes, as the widest loads of a device need it.
const ALIGNMENT: usize = 64;

/// Arrays to be uploaded, by owner (a view or an objective) and name.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    bytes: Vec<u8>,
    slots: BTreeMap<Label, StagingSlot>,
}

type Label = (String, &'static str);

/// Location of an array in the buffer.
#[derive(Clone, Debug)]
struct StagingSlot {
    bytes: std::ops::Range<usize>,
    kind: Kind,
    shape: Vec<i64>,
}

/// Number in the representation of the device.
pub(crate) trait Number: Copy {
    /// Type on the device.
    const KIND: Kind;
    /// Appends the bytes of the number.
    fn write(self, into: &mut Vec<u8>);
}

impl Number for i64 {
    const KIND: Kind = INDEX;

    fn write(self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.to_ne_bytes());
    }
}

impl Number for f32 {
    const KIND: Kind = MASTER;

    fn write(self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.to_ne_bytes());
    }
}

impl Number for bool {
    const KIND: Kind = FLAG;

    fn write(self, into: &mut Vec<u8>) {
        into.push(u8::from(self));
    }
}

impl Staging {
    /// Adds an array of that shape. If an array with the same owner and name exists, the call has no effect: two
    /// objectives may read the same data of a view.
    ///
    /// # Panics
    /// If the number of values does not match the shape.
    pub(crate) fn add<T: Number>(
        &mut self,
        owner: &str,
        name: &'static str,
        shape: &[usize],
        numbers: impl IntoIterator<Item = T>,
    ) {
        let label = (owner.to_owned(), name);
        if self.slots.contains_key(&label) {
            return;
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let start = self.bytes.len();
        numbers.into_iter().for_each(|number| number.write(&mut self.bytes));
        let count = (self.bytes.len() - start) / T::KIND.elt_size_in_bytes();
        let wanted = shape.iter().product::<usize>();
        assert_eq!(count, wanted, "`{name}` of `{owner}`: the number of values does not match the shape {shape:?}");
        let shape = shape.iter().map(|&size| as_i64(size)).collect();
        self.slots.insert(label, StagingSlot { bytes: start..self.bytes.len(), kind: T::KIND, shape });
    }

    /// Adds a one-dimensional array.
    pub(crate) fn add_list<T: Number>(&mut self, owner: &str, name: &'static str, numbers: &[T]) {
        self.add(owner, name, &[numbers.len()], numbers.iter().copied());
    }

    /// Uploads the buffer. The host does not wait.
    pub(crate) fn upload(self, device: Device) -> Result<DeviceArrays, Error> {
        Ok(DeviceArrays { bytes: native::upload(&self.bytes, device)?, slots: self.slots })
    }
}

/// Uploaded arrays on the device.
#[derive(Debug)]
pub(crate) struct DeviceArrays {
    bytes: Tensor,
    slots: BTreeMap<Label, StagingSlot>,
}

impl DeviceArrays {
    /// Returns an array as a view into the buffer, without a copy. Returns `None` if it was not uploaded.
    pub(crate) fn find(&self, owner: &str, name: &'static str) -> Option<Tensor> {
        let StagingSlot { bytes, kind, shape } = self.slots.get(&(owner.to_owned(), name))?;
        let [start, length] = [bytes.start, bytes.len()].map(as_i64);
        Some(self.bytes.narrow(0, start, length).view_dtype(*kind).view(shape.as_slice()))
    }

    /// Returns an array that must have been uploaded.
    ///
    /// # Panics
    /// If the array was not uploaded.
    pub(crate) fn get(&self, owner: &str, name: &'static str) -> Tensor {
        self.find(owner, name).unwrap_or_else(|| panic!("`{name}` of `{owner}` is read but was not uploaded"))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read values back to the host")]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn packed_arrays_are_readable_on_the_device() {
        for device in testing::devices() {
            let mut staging = Staging::default();
            staging.add("masked", "valid", &[2, 3], [true, false, true, false, false, true]);
            staging.add("masked", "ids", &[3, 1], [1_i64 << 40, -7, 0]);
            staging.add("masked", "ids", &[1], [5_i64]);
            staging.add_list::<i64>("masked", "none", &[]);
            staging.add_list("tc", "ids", &[0.5_f32, f32::NEG_INFINITY]);
            let arrays = staging.upload(device).expect("an existing device");
            let host = |owner: &str, name| arrays.get(owner, name).to_device(Device::Cpu);
            assert_eq!(
                host("masked", "ids"),
                Tensor::from_slice(&[1_i64 << 40, -7, 0]).view([3, 1]),
                "the first stays"
            );
            let valid = Tensor::from_slice(&[true, false, true, false, false, true]).view([2, 3]);
            assert_eq!(host("masked", "valid"), valid);
            assert_eq!(host("tc", "ids"), Tensor::from_slice(&[0.5_f32, f32::NEG_INFINITY]));
            assert_eq!(arrays.get("masked", "none").size(), [0]);
            assert!(arrays.find("tc", "valid").is_none());
        }
        assert!(Staging::default().upload(Device::Cpu).is_ok(), "an empty buffer can be uploaded");
    }
}
