//! Who speaks, as a collector knows it: one service, one instance of it for each run, one process of that.

use std::collections::BTreeMap;

use super::settings::Settings;
use super::speaker::Speaker;
use super::wire::{KeyValue, Resource};

/// What the program knows, and before that what the environment says.
pub(super) fn resource(speaker: &Speaker, settings: &Settings) -> Resource {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let known = [
        ("service.name", Some("cloze".to_owned())),
        ("service.version", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("service.instance.id", Some(speaker.name.clone())),
        ("cloze.run.identity", speaker.identity.clone()),
        ("host.name", Some(host.trim().to_owned()).filter(|host| !host.is_empty())),
    ];
    let known = known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let named: BTreeMap<String, String> = known.chain(settings.attributes.iter().cloned()).collect();
    let mut attributes: Vec<KeyValue> = named.iter().map(|(key, value)| KeyValue::text(key, value)).collect();
    attributes.push(KeyValue::int("process.pid", std::process::id().into()));
    Resource { attributes }
}
