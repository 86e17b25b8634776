// Written by `make keys` from crates/telemetry/src/report_metrics.rs. Do not edit.

const REPORT_CHARTS = [
  {
    "key": "lr",
    "group": "Optimizer",
    "title": "learning rate",
    "unit": "plain",
    "parts": [
      {
        "name": "lr",
        "label": "learning rate"
      }
    ]
  },
  {
    "key": "grad_norm",
    "group": "Optimizer",
    "title": "norm of the gradient",
    "unit": "plain",
    "parts": [
      {
        "name": "grad_norm",
        "label": "before clipping"
      }
    ]
  },
  {
    "key": "skipped",
    "group": "Optimizer",
    "title": "skipped steps",
    "unit": "short",
    "parts": [
      {
        "name": "skipped",
        "label": "skipped steps"
      }
    ]
  },
  {
    "key": "speed/data_wait",
    "group": "Where the time goes",
    "title": "waits, without validations",
    "unit": "percent",
    "parts": [
      {
        "name": "speed/data_wait",
        "label": "for batches"
      },
      {
        "name": "speed/checkpoint_stall",
        "label": "for checkpoints"
      }
    ]
  },
  {
    "key": "speed/steps_per_s",
    "group": "Machine",
    "title": "steps per second",
    "unit": "plain",
    "parts": [
      {
        "name": "speed/steps_per_s",
        "label": "steps per second"
      }
    ]
  },
  {
    "key": "speed/tokens_per_s",
    "group": "Machine",
    "title": "tokens per second",
    "unit": "short",
    "parts": [
      {
        "name": "speed/tokens_per_s",
        "label": "real tokens per second"
      }
    ]
  },
  {
    "key": "speed/mfu",
    "group": "Machine",
    "title": "MFU",
    "unit": "percent",
    "parts": [
      {
        "name": "speed/mfu",
        "label": "share of the device's peak"
      }
    ]
  },
  {
    "key": "memory",
    "group": "Machine",
    "title": "memory",
    "unit": "bytes",
    "parts": [
      {
        "name": "memory/device_bytes",
        "label": "device, at most"
      },
      {
        "name": "memory/host_bytes",
        "label": "host"
      }
    ]
  }
];
