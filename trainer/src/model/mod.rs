//! Networks: their shapes and weights, and what they make of a batch.
//!
//! A micro-batch is counted on the host ([`host_batch`]) and copied to the device ([`upload`]); each view that somebody reads is encoded once ([`forward`],
//! [`encoder`]), by the main network or another ([`networks`]). Heads ([`heads`], [`weights`]) belong to objectives and to
//! generators.

pub mod encoder;
pub mod forward;
pub mod heads;
pub mod host_batch;
pub mod layers;
pub mod networks;
pub mod parameters;
pub mod relative_positions;
pub mod shape;
pub mod upload;
pub mod weights;

pub use self::networks::{AnyNetwork, MAIN};
pub use self::shape::{EncoderConfig, Frozen, Gelu, RelativeForm, RelativePositions, VocabFacts};
