//! Time of an all-reduce over the links between ranks.
//!
//! # Definition
//! `W` ranks sum `n` bytes over links of `b` bytes per second and `l` seconds per message.
//!
//! - Ring: each rank sends `2 (W − 1)` messages of `n / W` bytes, which takes `2 (W − 1) / W · n / b + 2 (W − 1) l`.
//! - Two trees: sums go up and results come down, in pieces, which takes `2 n / b + 2 ⌈log₂ W⌉ l`.
//! - Hosts: the ranks of each host scatter their sums and gather the results over the links of the host. Between
//!   them, each rank sums its part with the same rank of the other hosts, over the network.
//!
//! The fastest of them is used.
//!
//! Hosts exchange short contents along the axes of a grid of ranks, each axis in a ring.
//!
//! # Reference
//! Ring: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations". Trees: Sanders
//! et al. 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and scan".

/// Link from a rank to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankLink {
    /// Bytes per second in each direction.
    pub bandwidth: f64,
    /// Seconds of an empty message.
    pub latency_seconds: f64,
}

impl RankLink {
    /// Seconds of an all-reduce of that many bytes by the faster of ring and trees.
    fn all_reduce_seconds(self, ranks: u32, bytes: f64) -> f64 {
        self.ring_seconds(ranks, bytes).min(self.tree_seconds(ranks, bytes))
    }

    fn ring_seconds(self, ranks: u32, bytes: f64) -> f64 {
        let ranks = f64::from(ranks);
        let messages = 2.0 * (ranks - 1.0);
        messages / ranks * bytes / self.bandwidth + messages * self.latency_seconds
    }

    fn tree_seconds(self, ranks: u32, bytes: f64) -> f64 {
        if ranks == 1 {
            return 0.0;
        }
        2.0 * bytes / self.bandwidth + 2.0 * f64::from(ranks).log2().ceil() * self.latency_seconds
    }
}

/// Links within a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostLinks {
    /// Number of ranks on a host.
    pub ranks: u32,
    /// Link from a rank to another of the host.
    pub link: RankLink,
}

/// Links between the ranks of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interconnect {
    /// Links within a host, if they are faster than the network.
    pub host: Option<HostLinks>,
    /// Network of a rank.
    pub network: RankLink,
}

impl Interconnect {
    /// Seconds of an all-reduce of that many bytes over all ranks.
    #[must_use]
    pub fn all_reduce_seconds(&self, ranks: u32, bytes: f64) -> f64 {
        let Some(host) = self.host else { return self.network.all_reduce_seconds(ranks, bytes) };
        if ranks <= host.ranks {
            return host.link.all_reduce_seconds(ranks, bytes);
        }
        let within = host.link.ring_seconds(host.ranks, bytes);
        let hosts = ranks.div_ceil(host.ranks);
        let between = self.network.all_reduce_seconds(hosts, bytes / f64::from(host.ranks));
        (within + between).min(self.network.all_reduce_seconds(ranks, bytes))
    }
}

/// Bytes of a rank in an exchange between hosts.
pub const FRAME_BYTES: u32 = 1024;

/// Bytes per second in which a rank receives the frames of the others.
const FRAME_BANDWIDTH: f64 = 1e9;

/// Ranks from which on a grid has more than one axis.
const GRID_MIN: u32 = 8;

/// Returns the lengths of the axes of the grid that exchanges between hosts run along: the prime factors of the number
/// of ranks. Few ranks have one axis.
#[must_use]
pub fn grid_axes(ranks: u32) -> Vec<u32> {
    if ranks < GRID_MIN {
        return vec![ranks];
    }
    let mut axes = Vec::new();
    let mut rest = ranks;
    let mut factor = 2;
    while factor <= rest / factor {
        if rest.is_multiple_of(factor) {
            axes.push(factor);
            rest /= factor;
        } else {
            factor += 1;
        }
    }
    axes.push(rest);
    axes
}

/// Returns the seconds of an exchange between hosts, from those of an empty message.
#[must_use]
pub(super) fn exchange_seconds(ranks: u32, message_seconds: f64) -> f64 {
    let received = f64::from(ranks - 1) * f64::from(FRAME_BYTES);
    f64::from(exchange_messages(ranks)) * message_seconds + received / FRAME_BANDWIDTH
}

/// Returns the number of messages that follow each other in an exchange between hosts.
fn exchange_messages(ranks: u32) -> u32 {
    grid_axes(ranks).into_iter().map(|length| length - 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 GB per second and 1 ms per message.
    const LINK: RankLink = RankLink { bandwidth: 1e9, latency_seconds: 1e-3 };

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }

    #[test]
    fn a_ring_sends_each_byte_almost_twice() {
        // 4 ranks, 100 MB: 6 messages of 25 MB in 25 ms each, and 6 ms of latency.
        assert_near(LINK.ring_seconds(4, 100e6), 0.150 + 0.006);
        assert_near(LINK.ring_seconds(1, 100e6), 0.0);
    }

    #[test]
    fn trees_have_the_latency_of_their_depth() {
        // Twice 100 ms, and twice 10 levels of 1 ms.
        assert_near(LINK.tree_seconds(1024, 100e6), 0.200 + 0.020);
        assert_near(LINK.tree_seconds(1000, 100e6), 0.220);
        assert_near(LINK.tree_seconds(1, 100e6), 0.0);
    }

    #[test]
    fn exchanges_run_along_prime_factors() {
        for (ranks, axes, messages) in [
            (1, vec![1], 0),
            (4, vec![4], 3),
            (12, vec![2, 2, 3], 4),
            (1009, vec![1009], 1008),
            (1024, vec![2; 10], 10),
            (u32::MAX, vec![3, 5, 17, 257, 65537], 65814),
            (4_294_967_291, vec![4_294_967_291], 4_294_967_290),
        ] {
            assert_eq!((grid_axes(ranks), exchange_messages(ranks)), (axes, messages));
        }
    }

    #[test]
    fn the_faster_algorithm_is_used() {
        assert_near(LINK.all_reduce_seconds(4, 100e6), LINK.ring_seconds(4, 100e6));
        assert_near(LINK.all_reduce_seconds(1024, 100e6), LINK.tree_seconds(1024, 100e6));
    }

    #[test]
    fn hosts_sum_their_parts_over_the_network() {
        let link = RankLink { bandwidth: 10e9, latency_seconds: 0.0 };
        let links = Interconnect { host: Some(HostLinks { ranks: 8, link }), network: LINK };
        // 7/4 · 100 MB over 10 GB/s, then a ring of 2 hosts with 12.5 MB per rank over 1 GB/s.
        assert_near(links.all_reduce_seconds(16, 100e6), 0.0175 + 0.0125 + 0.002);
        // Ranks of one host use no network.
        assert_near(links.all_reduce_seconds(8, 100e6), 0.0175);
        assert_near(links.all_reduce_seconds(1, 100e6), 0.0);
        let flat = Interconnect { host: None, network: LINK };
        assert_near(flat.all_reduce_seconds(16, 100e6), LINK.all_reduce_seconds(16, 100e6));
    }
}
