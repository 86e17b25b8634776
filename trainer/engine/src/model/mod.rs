//! Networks: shapes, weights and forward passes.
//!
//! The host counts a micro-batch (`host_batch`) and copies it to the device (`upload`). Each view that an objective
//! reads is encoded once (`forward`, `encoder`), by the main network or another one (`networks`). Heads (`heads`,
//! `head_weights`) belong to objectives and to generators.

pub(crate) mod chunked_cross_entropy;
pub(crate) mod document_attention;
pub(crate) mod encoder;
pub(crate) mod forward;
pub(crate) mod head_weights;
pub(crate) mod heads;
pub(crate) mod host_batch;
pub(crate) mod layers;
pub(crate) mod networks;
pub(crate) mod parameters;
pub(crate) mod relative_positions;
pub(crate) mod staging_buffer;
pub(crate) mod upload;
pub(crate) mod weight;
