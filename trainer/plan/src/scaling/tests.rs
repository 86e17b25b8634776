//! Hand-computed steps of several ranks.

use super::links::RankLink;
use super::*;

/// 25 M weights in 4 buckets of 25 MB, and a checkpoint after each 100 steps.
const WORKLOAD: StepWorkload = StepWorkload {
    micro_batches: 8,
    tokens: 1e6,
    weight_bytes: 100e6,
    gradient_bytes: 100e6,
    last_bucket_bytes: 25e6,
    is_sharded: false,
    checkpoint_bytes: 300e6,
    steps_per_checkpoint: 100,
};

const SINGLE: SingleStep = SingleStep { seconds: 0.8, launch_seconds: 0.0 };

/// 1 GB/s between ranks without latency, and an update in 70 ms.
fn ranks(ranks: u32) -> RankSet {
    let network = RankLink { bandwidth: 1e9, latency_seconds: 0.0 };
    let interconnect = Interconnect { host: None, network };
    let device = DeviceRates { memory_bandwidth: 10e9, interconnect, exchange_seconds: 50e-6, has_free_host: false };
    RankSet { ranks, device, workers: 1, restart_seconds: 360.0 }
}

/// Seconds in which a rank receives the frames of the others, 8 times: 1 KiB each at 1 GB/s.
fn frames(ranks: u32) -> f64 {
    8.0 * f64::from(ranks - 1) * 1.024e-6
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

#[test]
fn a_single_rank_communicates_nothing() {
    let alone = ranks(1);
    let communication = alone.communication(&WORKLOAD);
    assert_near(communication.seconds + communication.exchange_seconds, 0.0);
    let step = alone.step(&WORKLOAD, SINGLE);
    // A checkpoint costs 4.7 ms and 3.4 ms per GB.
    assert_near(step.seconds, 0.8 + (4.7e-3 + 0.3 * 3.4e-3) / 100.0);
    assert_eq!(step.bottleneck(), TimePart::Computation);
}

#[test]
fn gradients_are_exposed_as_far_as_the_backward_pass_does_not_hide_them() {
    // 2 · 3/4 · 100 MB over 1 GB/s; the last of 4 buckets takes a quarter.
    let communication = ranks(4).communication(&WORKLOAD);
    assert_near(communication.seconds, 0.150);
    assert_near(communication.last_bucket_seconds, 0.0375);
    // Two of 8 micro-batches on each rank: their last backward pass takes 2/3 · 0.73 s / 8.
    let step = ranks(4).step(&WORKLOAD, SINGLE);
    assert_near(step.exposed_seconds, 0.150 - 2.0 / 3.0 * 0.73 / 8.0);
    // A longer pass hides all but the last bucket.
    let slow = ranks(4).step(&WORKLOAD, SingleStep { seconds: 8.0, ..SINGLE });
    assert_near(slow.exposed_seconds, 0.0375);
}

#[test]
fn divided_moments_cost_a_sum_and_save_updates() {
    let workload = StepWorkload { is_sharded: true, ..WORKLOAD };
    let step = ranks(4).step(&workload, SINGLE);
    let whole = ranks(4).step(&WORKLOAD, SINGLE);
    assert_near(step.exposed_seconds - whole.exposed_seconds, 0.150);
    assert_near(step.share(TimePart::Optimizer), 0.0);
    assert_near(whole.seconds + 0.150 - 0.0525, step.seconds);
}

#[test]
fn shares_add_up_and_computation_is_the_efficiency() {
    for count in [1, 2, 8, 64, 1024] {
        let step = ranks(count).step(&WORKLOAD, SINGLE);
        assert_near(step.shares.iter().map(|it| it.share).sum(), 1.0);
    }
    let step = ranks(4).step(&WORKLOAD, SINGLE);
    let exposed = 0.150 - 2.0 / 3.0 * 0.73 / 8.0;
    // A quarter of 0.8 s; three quarters of 70 ms; 8 exchanges over 3 links of 50 µs, and their bytes.
    let seconds = 0.2 + 0.0525 + exposed + 1200e-6 + frames(4) + 57.2e-6;
    assert_near(step.seconds, seconds);
    let lost = step.share(TimePart::Failures);
    assert_near(lost, (360.0 + 50.0 * seconds) * 4.0 * 419.0 / (16_384.0 * 54.0 * 86_400.0));
    assert_near(step.efficiency(), 0.2 / seconds * (1.0 - lost));
    assert_eq!(step.bottleneck(), TimePart::Communication);
}

#[test]
fn a_free_host_exchanges_while_the_device_computes() {
    // A prime number of ranks is a ring.
    let mut many = ranks(1021);
    many.device.has_free_host = true;
    many.device.interconnect.network.bandwidth = 1e12;
    many.device.memory_bandwidth = 1e13;
    let single = SingleStep { seconds: 102.1, launch_seconds: 20.42 };
    let workload = StepWorkload { micro_batches: 1021, tokens: 0.0, ..WORKLOAD };
    // 8 · 1,020 · 50 µs and 20 ms of launches, while the device computes for 100 ms.
    let step = many.step(&workload, single);
    let device = 0.1 + 0.07e-3 * (1020.0 / 1021.0) + step.exposed_seconds;
    assert_near(step.share(TimePart::Exchanges) / step.efficiency(), (0.428 + frames(1021) - device) / 0.1);
    assert_eq!(step.bottleneck(), TimePart::Exchanges);
    let hidden = many.step(&workload, SingleStep { seconds: 510.5, ..single });
    assert_near(hidden.share(TimePart::Exchanges), 0.0);
    // 10 messages instead of 1,023.
    let grid = RankSet { ranks: 1024, ..many }.communication(&workload);
    assert_near(grid.exchange_seconds, 8.0 * 10.0 * 50e-6 + frames(1024));
}

#[test]
fn a_slow_loader_is_the_bottleneck() {
    let workload = StepWorkload { tokens: 400e6, ..WORKLOAD };
    // 200 M tokens a rank take one worker 2.02 s, and four workers 0.505 s.
    let step = ranks(2).step(&workload, SINGLE);
    assert_eq!(step.bottleneck(), TimePart::Loader);
    assert_near(step.seconds, 2.02 + 57.2e-6);
    let faster = RankSet { workers: 4, ..ranks(2) }.step(&workload, SINGLE);
    assert!(faster.share(TimePart::Loader) < 0.1, "{faster:?}");
}
