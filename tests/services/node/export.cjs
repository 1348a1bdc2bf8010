// A model call as an agent in JavaScript reports it: its content as log records, then its span. node export.cjs KIND URL COMPRESSION
const [kind, url, compression] = process.argv.slice(2);
const { BasicTracerProvider, SimpleSpanProcessor } = require("@opentelemetry/sdk-trace-base");
const { LoggerProvider, SimpleLogRecordProcessor } = require("@opentelemetry/sdk-logs");
const { context, trace, SpanKind } = require("@opentelemetry/api");
const { OTLPTraceExporter } = require(`@opentelemetry/exporter-trace-otlp-${kind}`);
const { OTLPLogExporter } = require(`@opentelemetry/exporter-logs-otlp-${kind}`);

const path = (signal) => (kind === "grpc" ? url : `${url}/v1/${signal}`);
const spans = new OTLPTraceExporter({ url: path("traces"), compression });
const logs = new OTLPLogExporter({ url: path("logs"), compression });
const failures = [];
for (const exporter of [spans, logs]) {
  const send = exporter.export.bind(exporter);
  exporter.export = (items, done) =>
    send(items, (result) => {
      if (result.code !== 0) failures.push(String(result.error));
      done(result);
    });
}
const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
const loggers = new LoggerProvider({ processors: [new SimpleLogRecordProcessor({ exporter: logs })] });

async function main() {
  const attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 1000,
    "gen_ai.usage.output_tokens": 100,
    "gen_ai.response.finish_reasons": ["stop"],
    "session.id": "s-1",
  };
  const span = tracers.getTracer("test").startSpan("chat gpt-4o", { kind: SpanKind.CLIENT, attributes });
  const within = trace.setSpan(context.active(), span);
  const logger = loggers.getLogger("test");
  logger.emit({ eventName: "gen_ai.user.message", body: { content: "Hi" }, context: within });
  logger.emit({ eventName: "gen_ai.choice", body: { index: 0, message: { content: "Hello" } }, context: within });
  await loggers.forceFlush();
  span.end();
  await tracers.forceFlush();
  await Promise.all([tracers.shutdown(), loggers.shutdown()]);
  if (failures.length) throw new Error(failures.join("; "));
  process.stdout.write(span.spanContext().traceId);
}
main().catch((error) => {
  console.error(error);
  process.exit(1);
});
