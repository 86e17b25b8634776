"""Decodes the OTLP output of a program with PyPI's opentelemetry-proto: `otlp.py PROGRAM ARGUMENT…`.

A collector receives the program's requests, answers the first one of each kind with 503, and prints what it was
sent. Called by scripts/test-readers.
"""

import collections
import http.server
import os
import subprocess
import sys
import threading

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

WANTED = {
    "train": {
        "cloze.loss", "cloze.term.loss", "cloze.metric", "cloze.learning_rate", "cloze.gradient_norm", "cloze.step",
        "cloze.epoch", "cloze.rows", "cloze.tokens", "cloze.token.rate", "cloze.data_wait", "cloze.phase.time",
        "cloze.checkpoints", "cloze.validations", "cloze.validation.mlm.loss", "cloze.memory.resident", "cloze.otlp.lost",
    },
    "prepare": {"cloze.prepare.parts", "cloze.prepare.text", "cloze.progress", "cloze.uptime", "cloze.otlp.lost"},
}
SECRET = "s3cr3t-t0ken"
REQUESTS = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/logs": ExportLogsServiceRequest}


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    taken = collections.defaultdict(list)
    tries = collections.Counter()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.headers["content-type"] == "application/x-protobuf", self.headers
        assert self.headers["api-key"] == SECRET, "no header"
        self.tries[self.path] += 1
        is_first = self.tries[self.path] == 1
        if not is_first:
            self.taken[self.path].append(REQUESTS[self.path].FromString(body))
        self.send_response(503 if is_first else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def value(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))


def attributes(pairs):
    return {pair.key: value(pair.value) for pair in pairs}


def metrics():
    requests = Collector.taken["/v1/metrics"]
    last = requests[-1].resource_metrics[0]
    resource = attributes(last.resource.attributes)
    assert {"service.name", "service.instance.id", "host.name", "process.pid"} <= set(resource), resource
    names = set()
    for metric in last.scope_metrics[0].metrics:
        form = metric.WhichOneof("data")
        data = getattr(metric, form)
        if form == "sum":
            assert data.is_monotonic and data.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE, metric
            assert all(0 < point.start_time_unix_nano <= point.time_unix_nano for point in data.data_points), metric
        for point in data.data_points:
            assert point.WhichOneof("value") == "as_double", metric
            labels = ", ".join(f"{key}={text}" for key, text in attributes(point.attributes).items())
            print(f"  {form:5} {metric.name}{f'{{{labels}}}' if labels else ''} {point.as_double:g} {metric.unit}".rstrip())
        names.add(metric.name)
    print(f"OpenTelemetry: {len(requests)} requests with metrics, {len(names)} metrics in the last")
    return names


def records():
    count = 0
    for request in Collector.taken["/v1/logs"]:
        for record in request.resource_logs[0].scope_logs[0].log_records:
            assert record.time_unix_nano and record.event_name.startswith("cloze."), record
            print(f"  {record.severity_text} {record.event_name}: {value(record.body)}")
            count += 1
    assert count, "no records"
    print(f"OpenTelemetry: {count} log records")


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={SECRET}"}
    done = subprocess.run(sys.argv[1:], env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and SECRET not in done.stdout + done.stderr, done
    wanted = next(names for verb, names in WANTED.items() if verb in sys.argv)
    missing = wanted - metrics()
    assert not missing, f"missing: {sorted(missing)}"
    records()


main()
