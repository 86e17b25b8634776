//! What one micro-batch sends to the device: all of it in one buffer, in one copy.
//!
//! A copy from ordinary memory makes the host wait until the device has done everything before it. Here the buffer is
//! pinned and the copy asynchronous: the host packs the next micro-batch while the device works. libtorch's allocator of
//! pinned memory hands a buffer out again only when the copies from it are done, so there are as many as are under way.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};
use trainer_plan::Error;

use crate::device::native;
use crate::device::precision::{FLAG, INDEX, MASTER};
use crate::device::tensors::as_i64;

/// Where each array begins: at what the widest loads of a device want.
const ALIGNMENT: usize = 64;

/// Arrays on their way, by whom they belong to (a view or an objective) and a name.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    bytes: Vec<u8>,
    crates: BTreeMap<Label, StagingSlot>,
}

type Label = (String, &'static str);

/// Where an array lies in the buffer.
#[derive(Clone, Debug)]
struct StagingSlot {
    bytes: std::ops::Range<usize>,
    kind: Kind,
    shape: Vec<i64>,
}

/// A number as the device shall have it.
pub(crate) trait Number: Copy {
    /// Its type there.
    const KIND: Kind;
    /// Its bytes.
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
    /// Adds an array of that shape, unless one of that name is there: two objectives may read the same of a view.
    ///
    /// # Panics
    /// If there are more or fewer numbers than the shape says.
    pub(crate) fn add<T: Number>(
        &mut self,
        owner: &str,
        name: &'static str,
        shape: &[usize],
        numbers: impl IntoIterator<Item = T>,
    ) {
        let label = (owner.to_owned(), name);
        if self.crates.contains_key(&label) {
            return;
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let start = self.bytes.len();
        numbers.into_iter().for_each(|number| number.write(&mut self.bytes));
        let (count, wanted) =
            ((self.bytes.len() - start) / T::KIND.elt_size_in_bytes(), shape.iter().product::<usize>());
        assert_eq!(count, wanted, "`{name}` of `{owner}` has another number of values than its shape {shape:?}");
        let shape = shape.iter().map(|&size| as_i64(size)).collect();
        self.crates.insert(label, StagingSlot { bytes: start..self.bytes.len(), kind: T::KIND, shape });
    }

    /// Adds a list.
    pub(crate) fn add_list<T: Number>(&mut self, owner: &str, name: &'static str, numbers: &[T]) {
        self.add(owner, name, &[numbers.len()], numbers.iter().copied());
    }

    /// Sends it. The host does not wait.
    pub(crate) fn ship(self, device: Device) -> Result<DeviceArrays, Error> {
        Ok(DeviceArrays { bytes: native::upload(&self.bytes, device)?, crates: self.crates })
    }
}

/// The arrays on the device.
#[derive(Debug)]
pub(crate) struct DeviceArrays {
    bytes: Tensor,
    crates: BTreeMap<Label, StagingSlot>,
}

impl DeviceArrays {
    /// An array: a part of the buffer, no copy. `None` if it was not sent.
    pub(crate) fn find(&self, owner: &str, name: &'static str) -> Option<Tensor> {
        let StagingSlot { bytes, kind, shape } = self.crates.get(&(owner.to_owned(), name))?;
        let [start, length] = [bytes.start, bytes.len()].map(as_i64);
        Some(self.bytes.narrow(0, start, length).view_dtype(*kind).view(shape.as_slice()))
    }

    /// The same of what must have been sent.
    ///
    /// # Panics
    /// If it was not.
    pub(crate) fn get(&self, owner: &str, name: &'static str) -> Tensor {
        self.find(owner, name).unwrap_or_else(|| panic!("`{name}` of `{owner}` is read but was not sent"))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what is tested is looked at")]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn what_was_packed_arrives() {
        for device in testing::devices() {
            let mut freight = Staging::default();
            freight.add("masked", "valid", &[2, 3], [true, false, true, false, false, true]);
            freight.add("masked", "ids", &[3, 1], [1_i64 << 40, -7, 0]);
            freight.add("masked", "ids", &[1], [5_i64]);
            freight.add_list::<i64>("masked", "none", &[]);
            freight.add_list("tc", "ids", &[0.5_f32, f32::NEG_INFINITY]);
            let arrived = freight.ship(device).expect("a device that is there");
            let host = |owner: &str, name| arrived.get(owner, name).to_device(Device::Cpu);
            assert_eq!(
                host("masked", "ids"),
                Tensor::from_slice(&[1_i64 << 40, -7, 0]).view([3, 1]),
                "the first stays"
            );
            let valid = Tensor::from_slice(&[true, false, true, false, false, true]).view([2, 3]);
            assert_eq!(host("masked", "valid"), valid);
            assert_eq!(host("tc", "ids"), Tensor::from_slice(&[0.5_f32, f32::NEG_INFINITY]));
            assert_eq!(arrived.get("masked", "none").size(), [0]);
            assert!(arrived.find("tc", "valid").is_none());
        }
        assert!(Staging::default().ship(Device::Cpu).is_ok(), "nothing is sent too");
    }
}
