//! Servers on loopback that stores over a network are tested against.

pub mod azure;
pub mod http;
pub mod s3;
