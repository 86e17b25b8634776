use super::*;
use crate::device::tensors::HostTensor;
use crate::training::process_group::SingleProcess;
use crate::training::process_group::test_ranks::{NO_LIMIT, on_shared_ranks};

fn name(objective: &str, part: &str) -> MetricName {
    MetricName::new(objective, part)
}

#[test]
fn an_interval_survives_a_checkpoint() {
    let mut tally = MetricAccumulator::new(Device::Cpu);
    let mut sums = PendingAdditions::default();
    let mlm = name("mlm", "");
    let copy = name("clm", "copy");
    tally.add_term(mlm.clone(), 2.0, &Tensor::from(3_f32), 2.0, &mut sums);
    sums.settle().expect("scalars");
    let mut sums = PendingAdditions::default();
    tally.add_term(mlm.clone(), 2.0, &Tensor::from(4_f32), 5.0, &mut sums);
    tally.add_term(copy.clone(), 1.0, &Tensor::from(0_f32), 0.0, &mut sums);
    tally.add_metric("mlm", &Metric::ratio("hits", Tensor::from(1_i64), Tensor::from(3_i64)), &mut sums);
    tally.add_metric("mlm", &Metric::new("accuracy", Tensor::from(1_i64), 8.0), &mut sums);
    tally.add_norm(&Tensor::from(3_f64), &mut sums);
    sums.settle().expect("scalars");
    let (tensors, saved) = tally.save();
    let kept = |(name, tensor)| (name, HostTensor::copy_of(tensor).expect("float64"));
    let tensors: HostTensors = tensors.into_iter().map(kept).collect();
    let json = serde_json::to_string(&saved).expect("plain data");
    let saved: Vec<SavedMean> = serde_json::from_str(&json).expect("as written");
    let mut other = MetricAccumulator::new(Device::Cpu);
    other.load(&tensors, &saved).expect("complete");
    let mut sums = PendingAdditions::default();
    other.add_term(mlm.clone(), 2.0, &Tensor::from(1_f32), 1.0, &mut sums);
    other.add_metric("mlm", &Metric::ratio("hits", Tensor::from(1_i64), Tensor::from(1_i64)), &mut sums);
    other.add_norm(&Tensor::from(5_f64), &mut sums);
    sums.settle().expect("scalars");
    assert!(other.counted(&mlm) && !other.counted(&copy) && !other.counted(&name("absent", "")));
    let (mut reading, extra) = other.read(&SingleProcess, &[&Tensor::from(9_f64)]).expect("read");
    assert!(reading.terms.remove(&copy).is_some_and(f64::is_nan), "it counted nothing, and is no part of the loss");
    let expected = MetricReading {
        loss: 2.0,
        terms: [(mlm, 1.0)].into(),
        metrics: [(name("mlm", "accuracy"), 0.125), (name("mlm", "hits"), 0.5)].into(),
        gains: BTreeMap::new(),
        norm: 4.0,
    };
    assert_eq!((reading, extra), (expected, vec![9.0]));
}

#[test]
fn a_report_without_anything_to_predict_has_no_loss() {
    let mut tally = MetricAccumulator::new(Device::Cpu);
    let mut sums = PendingAdditions::default();
    tally.add_term(name("mlm", ""), 1.0, &Tensor::from(0_f32), 0.0, &mut sums);
    tally.add_metric("mlm", &Metric::new("accuracy", Tensor::from(0_i64), 0.0), &mut sums);
    sums.settle().expect("scalars");
    let (MetricReading { loss, terms, metrics, .. }, _) = tally.read(&SingleProcess, &[]).expect("read");
    assert!(loss.is_nan() && terms[&name("mlm", "")].is_nan() && metrics[&name("mlm", "accuracy")].is_nan());
}

/// Two micro-batches of 4 and 12 tokens, of which 2 and 1 are replaced, that cost 3 and 4.5 nats.
#[test]
fn gain_is_the_entropy_of_the_rate_of_the_whole_report_less_its_mean_loss() {
    let gain = name("rtd", "gain");
    let feed = |tally: &mut MetricAccumulator, loss: f32, replaced: i64, tokens: f64| {
        let mut sums = PendingAdditions::default();
        tally.add_metric("rtd", &Metric::gain("gain", &Tensor::from(loss), tokens, "rate"), &mut sums);
        tally.add_metric("rtd", &Metric::new("rate", Tensor::from(replaced), tokens), &mut sums);
        sums.settle().expect("scalars");
    };
    let read = |tally: &MetricAccumulator| tally.read(&SingleProcess, &[]).expect("read").0;
    let mut tally = MetricAccumulator::new(Device::Cpu);
    feed(&mut tally, 0.0, 0, 0.0);
    assert_eq!(read(&tally).gains, BTreeMap::new(), "no tokens, no gain");
    feed(&mut tally, 3.0, 2, 4.0);
    let (tensors, saved) = tally.save();
    let kept = |(name, tensor)| (name, HostTensor::copy_of(tensor).expect("float64"));
    let tensors: HostTensors = tensors.into_iter().map(kept).collect();
    let mut tally = MetricAccumulator::new(Device::Cpu);
    tally.load(&tensors, &saved).expect("complete");
    // Half of four tokens: ln 2 − 3 / 4.
    assert!((read(&tally).gains[&gain].value - (-0.056_852_819_440)).abs() < 1e-12);
    feed(&mut tally, 4.5, 1, 12.0);
    // Three of sixteen: H(0.1875) = 0.482 577 565 − 7.5 / 16, and not the mean of two gains.
    let reading = read(&tally);
    let expected = 0.482_577_565_177 - 0.468_75;
    assert!((reading.gains[&gain].value - expected).abs() < 1e-12, "{reading:?}");
    assert!((reading.gains[&gain].tokens - 16.0).abs() < 1e-12);
    assert!((reading.metrics[&gain] - expected).abs() < 1e-12);
}

#[test]
fn gain_has_the_tokens_of_all_ranks() {
    let tokens = on_shared_ranks(2, NO_LIMIT, |_, ranks| {
        let mut tally = MetricAccumulator::new(Device::Cpu);
        let mut sums = PendingAdditions::default();
        tally.add_metric("rtd", &Metric::gain("gain", &Tensor::from(1_f32), 8.0, "rate"), &mut sums);
        tally.add_metric("rtd", &Metric::new("rate", Tensor::from(2_f32), 8.0), &mut sums);
        sums.settle().expect("added");
        let gains = tally.read(&*ranks, &[]).expect("read").0.gains;
        ranks.finish().expect("both end");
        gains[&name("rtd", "gain")].tokens
    });
    assert_eq!(tokens, [16.0, 16.0]);
}

#[test]
#[should_panic(expected = "NaN is no count")]
fn a_count_that_is_not_a_number_panics() {
    MetricAccumulator::new(Device::Cpu).add_term(
        name("mlm", ""),
        1.0,
        &Tensor::from(1_f32),
        f64::NAN,
        &mut PendingAdditions::default(),
    );
}
