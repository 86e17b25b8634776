//! Fuzz tests of mistyped configurations.

use super::Parsed;

/// A valid file stays the same after it is written out with all defaults and read again.
#[test]
fn a_configuration_is_understood_or_every_mistake_has_its_place() {
    let seeds =
        [include_bytes!("../../configs/tiny.toml").to_vec(), include_bytes!("../../configs/demo.toml").to_vec()];
    fuzz::target!("configuration", seeds.to_vec(), |bytes: &[u8]| {
        let file = fuzz::on_disk(".toml", bytes);
        let Ok(parsed) = Parsed::read(file.path(), &[]) else { return };
        match parsed.into_config() {
            Err(mistakes) => {
                let name = file.path().display().to_string();
                for mistake in mistakes.0 {
                    assert!(mistake.to_string().contains(&name), "{mistake}");
                }
            }
            Ok(config) => {
                let written = toml::to_string(&config.resolved()).expect("plain values");
                let again = fuzz::on_disk(".toml", written.as_bytes());
                let again = Parsed::read(again.path(), &[]).expect("written by this test");
                // Compared as text: an `nan` is not equal to itself.
                let again = again.into_config().unwrap_or_else(|mistakes| panic!("{mistakes}"));
                assert_eq!(toml::to_string(&again.resolved()).expect("plain values"), written);
            }
        }
    });
}

/// Arbitrary text of `--set KEY=VALUE`.
#[test]
fn an_override_is_understood_or_refused() {
    let seeds = ["train.steps=5", "seed = 7", "run.folder=runs/a b", "loss={mlm=1.0}", "views.masked.rate=0.2"];
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/tiny.toml");
    fuzz::target!("override", seeds.to_vec(), |bytes: &[u8]| {
        let set = String::from_utf8_lossy(bytes).into_owned();
        if let Ok(parsed) = Parsed::read(tiny.as_ref(), &[set]) {
            let _ = parsed.into_config();
        }
    });
}
