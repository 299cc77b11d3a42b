// SPDX-License-Identifier: MIT
// The side of the gateway: asks the picker about a request, phase by phase, and reads what it says.
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const load = (file) => grpc.loadPackageDefinition(loader.loadSync(file, { keepCase: true, longs: Number }));
const { ExternalProcessor } = load("ext_proc.proto").envoy.service.ext_proc.v3;
const { Health } = load("health.proto").grpc.health.v1;
export const BUFFERED = 2, FULL_DUPLEX = 4;
const DESTINATION = "x-gateway-destination-endpoint";

const headerMap = (headers) => ({ headers: Object.entries(headers).map(([key, value]) => ({ key, raw_value: Buffer.from(value) })) });
const subsetOf = (endpoints) => ({ filter_metadata: { "envoy.lb.subset_hint": { fields: {
  "x-gateway-destination-endpoint-subset": { list_value: { values: endpoints.map((string_value) => ({ string_value })) } } } } } });

export class Gateway {
  constructor(address, certificate) {
    const credentials = certificate ? grpc.credentials.createSsl(certificate) : grpc.credentials.createInsecure();
    this.processor = new ExternalProcessor(address, credentials);
    this.health = new Health(address, credentials);
  }

  close() {
    this.processor.close();
    this.health.close();
  }

  check(service = "") {
    return new Promise((resolve, reject) => this.health.Check({ service }, (error, answer) => (error ? reject(error) : resolve(answer.status))));
  }

  // One HTTP request: {endpoint, metadata, body} of a choice, {status, text, headers} of a refusal. With `hold` the call
  // stays open, as a gateway's does while the endpoint answers: end it with done().
  ask(body, { path = "/v1/completions", headers = {}, subset, mode = FULL_DUPLEX, pieces = 1, hold = false, method = "POST" } = {}) {
    const call = this.processor.Process();
    const found = { body: [] };
    return new Promise((resolve, reject) => {
      const done = (answer = 200) => {
        call.write({ response_headers: { headers: headerMap({ ":status": `${answer}` }), end_of_stream: true } });
        call.end();
      };
      const finish = (result) => {
        if (!hold) call.end();
        resolve({ ...result, done });
      };
      call.on("error", (error) => (hold ? undefined : reject(error)));
      call.on("data", (message) => {
        if (message.immediate_response) {
          const { status, body: text, headers: set } = message.immediate_response;
          return finish({ status: status.code, text: text.toString(), headers: Object.fromEntries(set.set_headers.map(({ header }) => [header.key, header.raw_value.toString()])) });
        }
        const response = (message.request_headers ?? message.request_body)?.response;
        const set = response?.header_mutation?.set_headers ?? [];
        for (const { header } of set) if (header.key === DESTINATION) found.endpoint = header.raw_value.toString();
        const named = message.dynamic_metadata?.fields?.["envoy.lb"]?.struct_value.fields[DESTINATION]?.string_value;
        if (named) found.metadata = named;
        const piece = response?.body_mutation?.streamed_response;
        if (piece) found.body.push(piece.body);
        const last = mode === FULL_DUPLEX && body !== undefined ? piece?.end_of_stream : found.endpoint;
        if (last) finish({ ...found, body: Buffer.concat(found.body).toString() });
      });
      const text = body === undefined ? undefined : Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
      call.write({ request_headers: { headers: headerMap({ ":method": method, ":path": path, "content-type": "application/json", ...headers }),
        end_of_stream: text === undefined }, ...(subset ? { metadata_context: subsetOf(subset) } : {}),
        protocol_config: { request_body_mode: mode, response_body_mode: mode } });
      if (text === undefined) return;
      const size = Math.ceil(text.length / pieces);
      for (let at = 0; at < text.length; at += size)
        call.write({ request_body: { body: text.subarray(at, at + size), end_of_stream: at + size >= text.length } });
    });
  }
}
