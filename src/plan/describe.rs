//! Formatting of a plan as text and JSON.

use pipeline::load::{LoadFacts, RowOrder, StreamedFacts};
use serde_json::{Value, json};
use telemetry::quantities::{bytes, count};
use telemetry::quantities::{estimate, short};
use trainer_plan::encoder::EncoderConfig;
use trainer_plan::networks::{AnyNetwork, MAIN};
use trainer_plan::objectives::RowSet;
use trainer_plan::request::ActiveObjective;

use super::training::export_choice;
use super::{CoreSplit, Plan, mixture, warnings};
use crate::run::data::ExpectedTokenizer;

/// Returns the plan as text lines: a label, then the values.
pub(crate) fn lines(plan: &Plan) -> Vec<String> {
    let facts = plan.load.facts();
    let lines = data_lines(plan, &facts);
    [lines, training_lines(plan, &facts)].concat()
}

fn data_lines(plan: &Plan, facts: &LoadFacts) -> Vec<String> {
    let tokenizer = &plan.data.manifest.tokenizer;
    let mut lines = vec![if let Some(ids) = &plan.data.expected {
        expected_line(plan, ids)
    } else {
        format!(
            "data       {}: {} samples, {} tokens to train on; {} samples to validate on; {} {} ids, {}",
            folders(plan, facts),
            count(facts.samples),
            count(plan.train_tokens()),
            count(plan.data.valid_rows()),
            tokenizer.kind,
            count(u64::from(tokenizer.vocab_size)),
            if tokenizer.lowercase { "lowercased" } else { "cased" },
        )
    }];
    if facts.sources.is_empty() {
        lines.extend(plan.data.growth().map(|growth| format!("           {growth}")));
    } else {
        lines.extend(mixture::lines(plan, facts));
    }
    if facts.pieces_per_sample > 1 {
        lines.push(format!(
            "           {} rows of each sample; {:.1} % of the tokens fall between them",
            facts.pieces_per_sample,
            100.0 * facts.content_lost
        ));
    }
    for view in &facts.views {
        let of = view.of.as_ref().map(|of| format!(" of {of}")).unwrap_or_default();
        let columns: Vec<&str> = view.columns.iter().map(|column| column.name).collect();
        let columns = if columns.is_empty() { "no own column is kept".to_owned() } else { columns.join(", ") };
        let shape = format!("{} × {}", plan.load.rows_per_batch(), view.width);
        let size = bytes(view.bytes_per_row * plan.load.rows_per_batch());
        lines.push(format!("view       {} ({}{of}): {shape}, {columns}, {size}", view.name, view.kind));
    }
    lines.extend(if let Some(streamed) = facts.streamed {
        vec![streamed_line(facts, streamed)]
    } else if facts.sources.is_empty() {
        vec![shuffled_line(plan, facts)]
    } else {
        mixture::order(plan, facts)
    });
    let resident = if plan.data.is_expected() {
        " if the corpus fills a window"
    } else if facts.resident {
        ", all of them: the data stays decoded"
    } else {
        ""
    };
    lines.push(format!(
        "memory     at most {} batches = {} in flight from {} workers; at most {} row groups = {} decoded{resident}; \
         {} are allowed; footers of at most {} shards",
        facts.batches_alive_max,
        bytes(facts.batches_bytes),
        facts.workers.workers,
        facts.groups_alive_max,
        bytes(facts.groups_bytes),
        bytes(plan.config.data.max_memory_bytes),
        count(facts.shards_open_max),
    ));
    if let Some(cache) = &facts.cache {
        lines.push(format!(
            "cache      at most {} of remote shards in {} (`data.cache_bytes`), at most {} shards ahead",
            bytes(cache.max_bytes),
            cache.folder.display(),
            count(cache.shards_ahead_max as u64),
        ));
    }
    if plan.config.data.order == RowOrder::Streamed {
        lines.push(core_split_line(plan, facts));
    }
    lines
}

/// Describes the order of the rows of a streamed run.
fn streamed_line(facts: &LoadFacts, streamed: StreamedFacts) -> String {
    let far = if streamed.is_whole { "all parts are finished" } else { "only the finished parts are counted here" };
    format!(
        "order      streamed: the first epoch in the order of the part list, {far}; rows are shuffled in windows of {} \
         row groups or more, at most {} of {} in all; later epochs over all of it, in windows of {}",
        count(facts.shuffle_window_groups as u64),
        count(streamed.window_blocks_max),
        count(facts.blocks),
        count(facts.window_blocks as u64),
    )
}

/// Describes the division of cores and memory between preparation and loader for a streamed run.
fn core_split_line(plan: &Plan, facts: &LoadFacts) -> String {
    let CoreSplit { prepare, load, cores } = CoreSplit::new(&plan.config);
    format!(
        "cores      {cores}, shared by `cloze train --prepare`: {prepare} workers prepare (`prepare.workers`), {load} build batches \
         (`data.workers`); memory: at most {} of text (`prepare.max_memory_bytes`) and {} of decoded windows",
        bytes(plan.config.prepare.max_memory_bytes),
        bytes(facts.groups_bytes),
    )
}

/// Describes the shuffling of the rows.
fn shuffled_line(plan: &Plan, facts: &LoadFacts) -> String {
    if plan.data.is_expected() {
        return format!("order      {}", mixture::expected_order(facts.window_blocks));
    }
    if facts.resident {
        return "order      all rows of an epoch are shuffled together".to_owned();
    }
    format!(
        "order      rows are shuffled in windows of {} of {} row groups, {} rows at least; mixture error {:.1} % (standard error of the share \
         of a half of the data in a window); `data.shuffle_window_groups = {}` halves it",
        count(facts.window_blocks as u64),
        count(facts.blocks),
        count(facts.window_rows_min),
        100.0 * facts.mixture_error,
        4 * facts.window_blocks,
    )
}

/// Describes the place of the data.
fn folders(plan: &Plan, facts: &LoadFacts) -> String {
    match facts.sources.len() {
        0 if plan.data.dataset_version.0 == 0 => plan.config.data.folder.display().to_string(),
        0 => format!("{}, dataset version {}", plan.config.data.folder.display(), plan.data.dataset_version),
        sources => format!("a mixture of {sources} sources"),
    }
}

/// Describes expected data that is not prepared yet, and the origin of the expectation.
fn expected_line(plan: &Plan, ids: &ExpectedTokenizer) -> String {
    let sources = plan.config.sources_read();
    let folders: Vec<_> = sources.iter().map(|(_, source)| source.folder.display().to_string()).collect();
    format!(
        "data       {}: not prepared yet; {} {} ids (`{}`), rows of {}; samples, epochs and the run's identity wait for it",
        if folders.is_empty() { plan.config.data.folder.display().to_string() } else { folders.join(", ") },
        count(u64::from(ids.vocab_size)),
        if ids.lowercase { "lowercased" } else { "cased" },
        ids.says,
        plan.data.manifest.max_seq_len,
    )
}

fn training_lines(plan: &Plan, facts: &LoadFacts) -> Vec<String> {
    let train = &plan.train;
    let encoder = &train.encoder;
    let rows = &train.train;
    let tokens = rows.global_batch_size * u64::from(train.width);
    let flops = train.flops_per_token();
    let steps = train.steps_expected();
    let passes = |steps: u64| {
        let epochs = mixture::epochs(plan).unwrap_or_else(|| format!("{:.1}", warnings::epochs(plan, facts)));
        format!("{} steps = {epochs} epochs", count(steps))
    };
    let epochs = steps.map_or(String::new(), passes);
    let epochs = if facts.sources.is_empty() {
        format!("{:.1} steps per epoch; {epochs}", facts.rows_per_epoch as f64 / rows.global_batch_size as f64)
    } else {
        epochs
    };
    let all = steps.map_or(String::new(), |steps| {
        format!("{} steps = {} tokens", count(steps), short(steps as f64 * tokens as f64))
    });
    let mut lines = vec![format!(
        "stream     {} rows a step = {} micro-batches of {}; {} tokens a step; {}",
        rows.global_batch_size,
        train.micro_batches(),
        rows.micro_batch_size,
        count(tokens),
        if plan.data.is_expected() || facts.streamed.is_some_and(|streamed| !streamed.is_whole) { all } else { epochs },
    )];
    lines.extend(budget(plan).map(|budget| format!("budget     {budget}")));
    lines.push(format!("loss       L = {}", equation(plan)));
    for ActiveObjective { name, objective, .. } in train.active() {
        let reads = objective.reads();
        let views: Vec<&str> = reads.passes.iter().map(|pass| pass.view.as_str()).collect();
        let contrast = |rows: RowSet| format!("; contrasts the rows of a {} with each other", rows.name());
        let coupled = objective.contrasted_rows().map(contrast).unwrap_or_default();
        lines.push(format!("           {name}: {} on {}{coupled}", objective.kind(), views.join(", ")));
    }
    let spare = (encoder.max_positions > train.width)
        .then(|| format!("; {} positions, of which rows use the first {}", encoder.max_positions, train.width));
    let dropout = encoder.dropout;
    let extras = extras(encoder);
    let spare = spare.unwrap_or_default();
    lines.push(format!("encoder    {}, dropout {dropout}{extras}{spare}", shape(encoder)));
    for (name, network) in train.used_networks() {
        lines.push(format!("network    {name}: {}", network_line(&network, encoder)));
    }
    let (learning, frozen) = train.parameters();
    let frozen = if frozen == 0 { String::new() } else { format!("; {} more are frozen", count(frozen)) };
    lines.push(format!("weights    {} parameters with heads{frozen}", count(learning)));
    lines.push(format!(
        "cost       {} per token, {:.2} times plain masked language modelling; {} per step{}",
        flop(flops),
        train.flops_ratio(),
        flop(flops * tokens as f64),
        steps.map_or(String::new(), |steps| format!(", {} in all", flop(flops * tokens as f64 * steps as f64))),
    ));
    let memory = train.memory();
    lines.push(format!(
        "device     about {}: weights {}, gradients and moments {}, activations {}, scores over the vocabulary {}",
        estimate(memory.total()),
        estimate(memory.weights),
        estimate(memory.optimizer),
        estimate(memory.activations),
        estimate(memory.logits),
    ));
    lines.push(match export_choice(&plan.config, train, MAIN, None) {
        Ok(choice) => format!("export     `cloze export` writes a `{}`{}", choice.class, other_exports(plan)),
        Err(error) => format!("export     not possible: {error}"),
    });
    let optimizer = &train.optimizer;
    let schedule = &train.schedule;
    let layers = if optimizer.has_one_rate() {
        String::new()
    } else {
        let input = optimizer.lr * optimizer.rate_factor("encoder.embeddings", train.encoder.layers);
        format!(", falling by {} a layer to {input:.2e} at the embeddings", optimizer.layer_decay)
    };
    lines.push(format!(
        "optimizer  AdamW, learning rate {:e} after {} steps of warm-up{layers}, weight decay {}, clipped at {}",
        optimizer.lr, schedule.warmup_steps, optimizer.weight_decay, optimizer.max_grad_norm,
    ));
    if let Some(stop) = &train.validation.stop {
        lines.push(format!(
            "stop       after {} validations without a better `{}`; the best checkpoint is kept",
            stop.patience, stop.metric
        ));
    }
    let folder = &plan.config.run.folder;
    let folder = if folder.as_os_str().is_empty() {
        "no folder yet (`run.folder`)".into()
    } else {
        folder.display().to_string()
    };
    let identity = if plan.data.is_expected() { "waits for the data" } else { &train.identity.hash()[..16] };
    lines.push(format!("run        {folder}, identity {identity}"));
    lines
}

/// Describes the exports of the networks other than the main one.
fn other_exports(plan: &Plan) -> String {
    let networks = plan.train.used_networks();
    let choices = networks.keys().filter_map(|name| export_choice(&plan.config, &plan.train, name, None).ok());
    choices.map(|it| format!(", with `--network {}` a `{}`", it.network, it.class)).collect::<Vec<_>>().concat()
}

/// Describes the end of a run that does not end by its steps alone, or whose number of steps was changed.
fn budget(plan: &Plan) -> Option<String> {
    let train = &plan.train.train;
    let tokens = train.max_tokens.map(|tokens| format!("{} tokens", count(tokens)));
    let hours = train.max_hours.map(|hours| format!("{hours} hours"));
    let steps = (train.ends_by_steps()).then(|| format!("{} steps", count(train.steps)));
    let ends: Vec<String> = [tokens, hours].into_iter().flatten().collect();
    if !ends.is_empty() {
        let ends: Vec<String> = ends.into_iter().chain(steps).collect();
        return Some(format!(
            "{}, whichever is reached first; the learning rate follows the used share",
            ends.join(", ")
        ));
    }
    let spans = &plan.train.amended.spans;
    let first = spans.first()?;
    let last = spans.last()?;
    Some(format!("{} steps when it began, {} since step {}", count(first.steps), count(last.steps), last.from))
}

/// Formats floating-point operations with the prefix of their size: `181 ZFLOP`.
fn flop(operations: f64) -> String {
    const PREFIXES: [&str; 9] = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"];
    let mut value = operations;
    let mut prefix = 0;
    while value >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {}FLOP", PREFIXES[prefix])
}

/// Formats the loss: `1 mlm + 1 tc`
fn equation(plan: &Plan) -> String {
    plan.train.active().map(|active| format!("{} {}", active.weight, active.name)).collect::<Vec<_>>().join(" + ")
}

/// Formats the encoder: `12 layers × 768, 12 heads, feed-forward 3072`
fn shape(encoder: &EncoderConfig) -> String {
    let EncoderConfig { layers, hidden, heads, feed_forward, .. } = encoder;
    format!("{layers} layers × {hidden}, {heads} heads, feed-forward {feed_forward}")
}

/// Describes the differences from BERT.
fn extras(encoder: &EncoderConfig) -> String {
    let embedding = encoder.embedding.map(|width| format!(", embeddings of {width}"));
    let relative = encoder.relative_positions.buckets();
    let relative = relative.map(|it| format!(", {} buckets of distance up to {}", it.buckets, it.max_distance));
    let frozen = match encoder.frozen_layers() {
        None => (!encoder.frozen.is_empty()).then(|| ", word embeddings frozen".to_owned()),
        Some(layers) if layers >= encoder.layers => Some(", frozen".to_owned()),
        Some(layers) => Some(format!(", embeddings and the first {layers} layers frozen")),
    };
    [embedding, relative, frozen].into_iter().flatten().collect()
}

fn network_line(network: &AnyNetwork, main: &EncoderConfig) -> String {
    if network.copies_main() {
        return "a frozen copy of the first weights".to_owned();
    }
    let what = network.shape(main).map_or("uniform over the vocabulary".to_owned(), |encoder| shape(&encoder));
    let frozen = if network.is_trained() { "" } else { ", frozen" };
    let made = network.output_view().map(|made| format!("; reads `{}`, writes `{}`", made.input_view, made.view));
    format!("{what}{frozen}{}", made.unwrap_or_default())
}

/// Returns the plan as one JSON object.
pub fn json(plan: &Plan) -> String {
    format!("{:#}\n", object(plan))
}

/// Returns the plan as one JSON object, with the time of the run, and that of several ranks if it is asked for.
pub(super) fn json_with(plan: &Plan, time: Value, ranks: Option<Value>) -> String {
    let mut object = object(plan);
    object["time"] = time;
    if let Some(ranks) = ranks {
        object["ranks"] = ranks;
    }
    format!("{object:#}\n")
}

fn object(plan: &Plan) -> Value {
    let facts = plan.load.facts();
    let views: Vec<Value> = facts
        .views
        .iter()
        .map(|view| {
            let columns: Vec<&str> = view.columns.iter().map(|column| column.name).collect();
            json!({ "name": view.name, "kind": view.kind, "of": view.of, "width": view.width, "columns": columns,
                    "bytes_per_row": view.bytes_per_row })
        })
        .collect();
    // Values that depend on unprepared data are null.
    let waits = plan.data.is_expected() || facts.streamed.is_some_and(|streamed| !streamed.is_whole);
    let known = |value: Value| if waits { Value::Null } else { value };
    let mixture_error = (!plan.data.is_expected()).then_some(facts.mixture_error);
    let mut object = json!({
        "prepared": !plan.data.is_expected(),
        "dataset_version": if plan.data.is_expected() { Value::Null } else { json!(plan.data.dataset_version) },
        "samples": known(json!(facts.samples)),
        "tokens": known(json!(plan.train_tokens())),
        "vocab_size": plan.data.manifest.tokenizer.vocab_size,
        "views": views,
        "pieces_per_sample": facts.pieces_per_sample,
        "rows_per_epoch": known(json!(facts.rows_per_epoch)),
        "window_row_groups": facts.window_blocks,
        "mixture_error": mixture_error,
        "workers": facts.workers.workers,
        "batches_alive_max": facts.batches_alive_max,
        "batches_bytes": facts.batches_bytes,
        "row_groups_alive_max": facts.groups_alive_max,
        "row_groups_bytes": facts.groups_bytes,
        "warnings": warnings::collect(plan),
    });
    if !facts.sources.is_empty() {
        object["sources"] = mixture::json(plan, &facts);
    }
    object.as_object_mut().expect("it is an object").extend(training_json(plan));
    object
}

fn training_json(plan: &Plan) -> serde_json::Map<String, Value> {
    let train = &plan.train;
    let tokens = train.train.global_batch_size * u64::from(train.width);
    let ((learning, frozen), memory) = (train.parameters(), train.memory());
    let value = json!({
        "global_batch_size": train.train.global_batch_size,
        "micro_batches_per_step": train.micro_batches(),
        "tokens_per_step": tokens,
        "steps": train.train.ends_by_steps().then_some(train.train.steps),
        "steps_expected": train.steps_expected(),
        "tokens_budget": train.train.max_tokens,
        "hours_budget": train.train.max_hours,
        "loss": equation(plan),
        "parameters": learning,
        "parameters_frozen": frozen,
        "flops_per_token": train.flops_per_token(),
        "flops_ratio": train.flops_ratio(),
        "memory_bytes": memory.total(),
        "memory": { "weights": memory.weights, "optimizer": memory.optimizer, "activations": memory.activations,
                    "logits": memory.logits },
        "identity": (!plan.data.is_expected()).then(|| train.identity.hash()),
        "identity_keys": train.identity.keys(),
    });
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was written as an object"),
    }
}

#[cfg(test)]
mod tests {
    use super::flop;

    #[test]
    fn operations_have_three_digits_and_the_prefix_of_their_size() {
        let cases = [(0.0, "0.00 FLOP"), (588e6, "588 MFLOP"), (9.994e9, "9.99 GFLOP"), (1.81e23, "181 ZFLOP")];
        for (operations, expected) in cases {
            assert_eq!(flop(operations), expected);
        }
        assert_eq!(flop(999.6e9), "1.00 TFLOP");
    }
}
