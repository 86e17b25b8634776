//! Tests with known answers, and with a decoder of the written bytes.

use schemas::ordinal::Step;

use super::*;
use crate::training::{
    CheckpointReport, Figures, LossSpikeReport, MlmReport, ResumeReport, Speed, SpikeMetric, StarvedReport, StopReason,
    StopReport,
};
use crate::{Clock, Position};

/// Checksums computed bit by bit from the polynomial. The first three are from RFC 3720, B.4.
#[test]
fn checksums_have_their_known_answers() {
    let ascending: Vec<u8> = (0..32).collect();
    let known: [(&[u8], u32, u32); 5] = [
        (&[0; 32], 0x8a91_36aa, 0x0fd7_fffa),
        (&[0xff; 32], 0x62a8_ab43, 0xf909_b029),
        (&ascending, 0x46dd_794e, 0x951f_7892),
        (b"123456789", 0xe306_9283, 0xc78a_b0e5),
        (b"", 0, 0xa282_ead8),
    ];
    for (bytes, plain, masked) in known {
        assert_eq!((crc32c::crc32c(bytes), checksum(bytes)), (plain, masked), "{bytes:?}");
    }
}

/// Expected bytes from another program that was written from the definitions of both formats.
#[test]
fn a_file_begins_as_another_program_writes_it() {
    let framed = |message: &[u8]| {
        let mut bytes = Vec::new();
        frame(message, &mut bytes);
        bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    };
    assert_eq!(framed(b""), "000000000000000029039807d8ea82a2");
    assert_eq!(framed(b"123456789"), "090000000000000037f97139313233343536373839e5b08ac7");
    let content = Some(Content::FileVersion(VERSION.to_owned()));
    let first = Record { wall_time: 1_700_000_000.123, step: 0, content }.encode_to_vec();
    assert_eq!(framed(&first), "1800000000000000a37f4b22093bdf0740fc54d9411a0d627261696e2e4576656e743a3206674b6e");
}

/// Decodes the messages of a file by their lengths, and checks both checksums.
fn records(bytes: &[u8]) -> Vec<Record> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (head, body) = rest.split_at(12);
        let length = usize::try_from(u64::from_le_bytes(head[..8].try_into().expect("8 bytes"))).expect("small");
        assert_eq!(head[8..], checksum(&head[..8]).to_le_bytes());
        let (message, tail) = body.split_at(length);
        assert_eq!(tail[..4], checksum(message).to_le_bytes());
        found.push(Record::decode(message).expect("a message"));
        rest = &tail[4..];
    }
    found
}

/// Decodes session starts and scalars as `(step, text)`.
fn decoded(bytes: &[u8]) -> Vec<(i64, String)> {
    let mut lines = Vec::new();
    for Record { step, content, .. } in records(bytes) {
        match content.expect("a message has content") {
            Content::FileVersion(version) => lines.push((step, version)),
            Content::Session(Session { status }) => lines.push((step, format!("session {status}"))),
            Content::Summary(Summary { values }) => {
                lines.extend(
                    values.into_iter().map(|scalar| {
                        (step, format!("{} {}", scalar.tag, scalar.value.expect("a scalar has a value")))
                    }),
                );
            }
        }
    }
    lines
}

fn encode(encoder: &mut Encoder, step: u64, what: EventKind) -> Vec<(i64, String)> {
    let at = Position { step: Some(Step(step)), epoch: Some(0.5), rows_seen: Some(64), tokens_seen: Some(4096) };
    decoded(&encoder.encode(&Clock::still().event(at, what)))
}

fn starved() -> EventKind {
    EventKind::Starved(StarvedReport { by: "prepare".to_owned(), seconds: 0.5, part: 1, parts: 2 })
}

fn report(loss: f64) -> EventKind {
    let named = |name: &str| BTreeMap::from([(name.to_owned(), loss)]);
    EventKind::Report(StepReport {
        figures: Figures {
            loss,
            terms: named("mlm"),
            metrics: named("mlm.accuracy"),
            lr: 0.25,
            grad_norm: 2.0,
            skipped: 0,
        },
        losses: Vec::new(),
        grad_norms: Vec::new(),
        batch_hash: String::new(),
        progress: None,
        speed: Speed {
            tokens_per_s: 8.0,
            steps_per_s: Some(0.5),
            mfu: None,
            data_wait: 0.125,
            checkpoint_stall: 0.0,
            eta_s: None,
        },
        source_epochs: BTreeMap::new(),
        phases: None,
        memory: None,
        host_bytes: Some(1024),
        ranks: Vec::new(),
    })
}

#[test]
fn a_report_is_scalars_over_its_step() {
    let mut encoder = Encoder::default();
    let lines = encode(&mut encoder, 10, report(f64::NAN));
    let expected = [
        (0, "brain.Event:2"),
        (10, "session 1"),
        (10, "data/epoch 0.5"),
        (10, "data/rows 64"),
        (10, "data/tokens 4096"),
        (10, "data/wait_fraction 0.125"),
        (10, "memory/host 1024"),
        (10, "throughput/steps_per_s 0.5"),
        (10, "throughput/tokens_per_s 8"),
        (10, "time/elapsed_s 0"),
        (10, "time/stall_fraction 0"),
        (10, "train/grad_norm 2"),
        (10, "train/loss NaN"),
        (10, "train/lr 0.25"),
        (10, "train/mlm NaN"),
        (10, "train/mlm.accuracy NaN"),
        (10, "train/skipped_steps 0"),
    ];
    assert_eq!(lines, expected.map(|(step, text)| (step, text.to_owned())));
}

#[test]
fn only_kinds_with_numbers_are_written() {
    let mut encoder = Encoder::default();
    let loss_spike = LossSpikeReport {
        spike_step: Step(1),
        first_row: schemas::RowIndex(0),
        rows: 8,
        figure: SpikeMetric::Loss,
        value: 9.0,
        median: 2.0,
        sigmas: 50.0,
    };
    assert_eq!(
        encode(&mut encoder, 3, EventKind::LossSpike(loss_spike)).last(),
        Some(&(3, "train/spike_sigmas 50".to_owned()))
    );
    let mlm = MlmReport { loss: 4.0, accuracy: 0.5, ln_vocab: 8.0, unigram_cross_entropy: None };
    let terms = BTreeMap::from([("mlm".to_owned(), 3.0)]);
    let valid = ValidReport {
        rows: 8,
        loss: 3.0,
        terms: terms.clone(),
        metrics: BTreeMap::new(),
        mlm: Some(mlm),
        seconds: 0.1,
    };
    let tags = ["eval/loss 3", "eval/mlm 3", "valid/mlm 4", "valid/mlm.accuracy 0.5"];
    assert_eq!(encode(&mut encoder, 3, EventKind::Validation(valid)), tags.map(|tag| (3, tag.to_owned())));
    let place = "runs/a".to_owned();
    let stop = StopReport { why: StopReason::Finished, saved: true, kept: None, place, error: None, memory: None };
    assert_eq!(encode(&mut encoder, 3, EventKind::Stop(stop)), []);
    assert_eq!(
        encoder.encode(&Clock::still().event(Position::default(), starved())),
        [0_u8; 0],
        "an event without a step is not written"
    );
}

#[test]
fn repeated_steps_replace_earlier_ones() {
    let mut encoder = Encoder::default();
    let begins = |lines: Vec<(i64, String)>| lines.into_iter().any(|(_, text)| text == "session 1");
    assert!(begins(encode(&mut encoder, 10, starved())), "the start of a process");
    assert!(!begins(encode(&mut encoder, 10, starved())) && !begins(encode(&mut encoder, 20, starved())));
    // A checkpoint event is late, and no step repeats.
    let checkpoint = EventKind::Checkpoint(CheckpointReport { place: String::new(), seconds: 1.0, stall_s: 0.0 });
    assert!(!begins(encode(&mut encoder, 15, checkpoint)));
    // Steps up to the checkpoint are kept. Later steps are replaced.
    let resume = EventKind::Resume(ResumeReport { place: String::new() });
    assert_eq!(encode(&mut encoder, 12, resume.clone()), [(13, "session 1".to_owned())]);
    assert!(!begins(encode(&mut encoder, 13, starved())), "the session has already started");
    assert!(begins(encode(&mut encoder, 1, starved())), "an earlier step without a resume");
    // The next process has its own file.
    let lines = encode(&mut Encoder::default(), 12, resume);
    assert_eq!(lines, [(0, "brain.Event:2".to_owned()), (13, "session 1".to_owned())]);
}
