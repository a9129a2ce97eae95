// The recognizer, off the page's own thread: samples in, segments out, nothing sent anywhere.

import * as ort from "./ort/ort.js";
import { align, frameCandidates, frameScores, prefixBeam } from "./search.js";
import { splitAtPauses } from "./segments.js";
import { decodeTokens, wordsOf } from "./transcript.js";

const FORMAT = "arborvox-export";
const VERSION = 1;
let model = null;
let session = null;

async function load() {
  model = await (await fetch("model/description.json")).json();
  if (model.format !== FORMAT) throw new Error("model/description.json is not that of an export.");
  if (model.version > VERSION) {
    throw new Error(`The model has format version ${model.version}; this page reads up to ${VERSION}.`);
  }
  const response = await fetch("model/encoder.onnx");
  if (!response.ok) throw new Error("The model could not be read: model/encoder.onnx is missing.");
  const data = await response.arrayBuffer();
  await check(data);
  ort.env.wasm.wasmPaths = { wasm: new URL("ort/ort.wasm", self.location.href).href };
  // Threads need memory that is shared, which browsers give to isolated pages alone.
  ort.env.wasm.numThreads = self.crossOriginIsolated
    ? Math.min(4, navigator.hardwareConcurrency || 1)
    : 1;
  ort.env.logLevel = "error";
  session = await ort.InferenceSession.create(new Uint8Array(data), {
    executionProviders: ["wasm"],
    graphOptimizationLevel: "all",
    enableCpuMemArena: false, // a long recording leaves no large blocks behind
  });
}

async function check(data) {
  if (!self.crypto?.subtle) return; // only where the page came by https or from this machine
  const digest = new Uint8Array(await self.crypto.subtle.digest("SHA-256", data));
  const found = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found !== model.sha256) {
    throw new Error("model/encoder.onnx is damaged or was changed: its checksum is another one.");
  }
}

async function recognizeSegment(samples) {
  const padded = new Float32Array(Math.max(samples.length, model.min_samples));
  padded.set(samples);
  const feeds = {
    samples: new ort.Tensor("float32", padded, [1, padded.length]),
    lens: new ort.Tensor("int64", BigInt64Array.from([BigInt(samples.length)]), [1]),
  };
  const { ctc, state_lens: lens } = await session.run(feeds, ["ctc", "state_lens"]);
  const width = ctc.dims[2];
  const rows = frameScores(ctc.data, Number(lens.data[0]), width, model.ctc_tree);
  const beam = model.decode.beam || 10;
  const count = Math.min(rows[0].length, 2 * beam + 3);
  const candidates = frameCandidates(ctc.data, rows, width, model.ctc_tree, count);
  const { tokens } = prefixBeam(rows, candidates, beam);
  return { tokens, alignment: tokens.length ? align(rows, tokens) : null };
}

let arrive = null; // what waits for samples

function reader(id) {
  return (start, end) =>
    new Promise((resolve) => {
      arrive = resolve;
      self.postMessage({ type: "need", id, start, end });
    });
}

async function recognize(id, length) {
  const rate = model.sampling_rate;
  const round = (value) => Math.round(value * 1000) / 1000;
  for await (const part of splitAtPauses(reader(id), length, rate, model.max_segment_s)) {
    const { tokens, alignment } = await recognizeSegment(part.samples);
    const startS = part.start / rate;
    self.postMessage({
      type: "segment",
      id,
      done: (part.start + part.samples.length) / length,
      segment: {
        start_s: round(startS),
        end_s: round(startS + part.samples.length / rate),
        text: decodeTokens(tokens, model).trim(),
        words: wordsOf(tokens, alignment, startS, model),
      },
    });
  }
  self.postMessage({ type: "done", id, duration_s: length / rate });
}

let queue = Promise.resolve(); // one after the other

self.onmessage = ({ data }) => {
  if (data.type === "samples") {
    arrive(data.samples);
    return;
  }
  queue = queue
    .then(async () => {
      if (data.type === "load") {
        await load();
        self.postMessage({ type: "ready", model });
      } else {
        await recognize(data.id, data.length);
      }
    })
    .catch((error) => {
      self.postMessage({ type: "error", id: data.id, message: String(error.message || error) });
    });
};
