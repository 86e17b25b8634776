//! Rates of a device and of the links between devices.
//!
//! | constant | H100, H200 | A100 | source |
//! |---|---|---|---|
//! | memory | 3.35, 4.8 TB/s | 2.04 TB/s | NVIDIA data sheets |
//! | links of a host of 8 | 370 GB/s | 235 GB/s | an NCCL maintainer (NVIDIA/nccl-tests#212); NCCL's `tuning.cc` |
//! | network of a rank | 46 GB/s | 23 GB/s | 400 Gb/s as measured (NVIDIA/nccl-tests#290); half of it for 200 Gb/s |
//! | latency in a host, of the network | 3.4, 9.6 µs | the same | NCCL's `tuning.cc`, ring with the simple protocol |
//! | message of an exchange between hosts | 50 µs | the same | assumption: a message and the wake-ups of two threads |
//!
//! The rates of the CPU were measured (`docs/scaling.md`).

use super::links::{HostLinks, Interconnect, RankLink};

/// Rates of a device and of the links between devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceRates {
    /// Bytes per second with which the optimizer reads and writes the memory of the device.
    pub memory_bandwidth: f64,
    /// Links between the devices of all ranks.
    pub interconnect: Interconnect,
    /// Seconds until the next host has a message of an exchange. Messages pass all ranks in a ring.
    pub exchange_seconds: f64,
    /// Whether the host computes and communicates while the device computes. Not on a CPU, which is both.
    pub has_free_host: bool,
}

/// A CPU: the optimizer on one core, and Gloo over the loopback device.
const CPU: DeviceRates = DeviceRates {
    memory_bandwidth: 20e9,
    interconnect: Interconnect { host: None, network: RankLink { bandwidth: 1e9, latency_seconds: 50e-6 } },
    exchange_seconds: 0.9e-3,
    has_free_host: false,
};

impl DeviceRates {
    /// Returns the rates of the device with that name of its driver, or those of a CPU.
    #[must_use]
    pub fn from_name(device: &str) -> Self {
        let (memory_bandwidth, host, network) = match device {
            name if name.contains("H200") => (4.8e12, 370e9, 46e9),
            name if name.contains("H100") => (3.35e12, 370e9, 46e9),
            name if name.contains("A100") => (2.04e12, 235e9, 23e9),
            _ => return CPU,
        };
        let host = HostLinks { ranks: 8, link: RankLink { bandwidth: host, latency_seconds: 3.4e-6 } };
        let network = RankLink { bandwidth: network, latency_seconds: 9.6e-6 };
        let interconnect = Interconnect { host: Some(host), network };
        Self { memory_bandwidth, interconnect, exchange_seconds: 50e-6, has_free_host: true }
    }

    /// Returns the rates with another bandwidth of the network.
    #[must_use]
    pub fn with_network(mut self, bandwidth: f64) -> Self {
        self.interconnect.network.bandwidth = bandwidth;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_the_names_of_their_drivers() {
        for (name, network, memory) in [
            ("NVIDIA H100 80GB HBM3", 46e9, 3.35e12),
            ("H200", 46e9, 4.8e12),
            ("NVIDIA A100-SXM4-80GB", 23e9, 2.04e12),
            ("Cpu", CPU.interconnect.network.bandwidth, CPU.memory_bandwidth),
        ] {
            let found = DeviceRates::from_name(name);
            let rates = [found.interconnect.network.bandwidth, found.memory_bandwidth];
            assert_eq!(rates.map(f64::to_bits), [network, memory].map(f64::to_bits), "{name}");
        }
        let changed = DeviceRates::from_name("H100").with_network(12.5e9);
        assert_eq!(changed.interconnect.network.bandwidth.to_bits(), 12.5e9_f64.to_bits());
        assert_eq!(changed.interconnect.host, DeviceRates::from_name("H100").interconnect.host);
    }
}
