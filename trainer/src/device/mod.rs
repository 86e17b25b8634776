//! What everything is computed on: the device, the number types, libtorch beyond `tch`, tensors on the host.

pub mod choice;
pub mod native;
pub mod precision;
pub mod tensors;

pub use self::choice::DeviceChoice;
pub use self::precision::Precision;
