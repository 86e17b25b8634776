//! Identity of a run or a preparation, as an OpenTelemetry resource: one service, one instance for each run folder.

/// Run or preparation that reports to a collector.
#[derive(Clone, Debug, Default)]
pub struct RunResource {
    /// Folder, as the configuration names it: the same for all processes of a run.
    pub name: String,
    /// Hash of the run's identity. A preparation has none.
    pub identity: Option<String>,
    /// Planned steps, if known.
    pub steps: Option<u64>,
}

#[cfg(feature = "otlp")]
impl RunResource {
    /// Converts it to a resource of the SDK. `overrides` are the attributes of the environment: of two values for one
    /// attribute the later one is used.
    pub(super) fn to_sdk(&self, overrides: &[(String, String)]) -> opentelemetry_sdk::Resource {
        use opentelemetry::KeyValue;
        use opentelemetry_sdk::resource::TelemetryResourceDetector;

        let host = crate::host::name();
        let known = [
            ("service.name", Some("cloze")),
            ("service.version", Some(env!("CARGO_PKG_VERSION"))),
            ("service.instance.id", Some(self.name.as_str())),
            ("cloze.run.identity", self.identity.as_deref()),
            ("host.name", Some(host.as_str()).filter(|host| !host.is_empty())),
        ];
        let known = known.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?.to_owned())));
        let overrides = overrides.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        opentelemetry_sdk::Resource::builder_empty()
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_attributes(known.chain(overrides))
            .with_attribute(KeyValue::new("process.pid", i64::from(std::process::id())))
            .build()
    }
}
