// The page: recordings from files or the microphone, the transcript as it grows, downloads.

import { WRITERS } from "./transcript.js";

const $ = (id) => document.getElementById(id);
const worker = new Worker("worker.js", { type: "module" });
const waiting = new Map();
let model = null;
let nextId = 1;
let latest = null; // what the downloads are of

function say(text, isError = false) {
  $("status").textContent = text;
  $("status").classList.toggle("error", isError);
}

function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

worker.onmessage = ({ data }) => {
  if (data.type === "ready") {
    model = data.model;
    $("about").textContent = `${model.languages.join(", ")} · ${model.features}`;
    $("file").disabled = $("record").disabled = false;
    document.querySelector("label.button").classList.remove("off");
    say("Ready. Nothing you record or open leaves this device.");
    return;
  }
  const job = waiting.get(data.id);
  if (data.type === "need") {
    const samples = mono(job.sound, data.start, data.end);
    worker.postMessage({ type: "samples", samples }, [samples.buffer]);
  } else if (data.type === "segment") {
    job.segments.push(data.segment);
    show(job, data.segment);
    $("progress").value = data.done;
    say(`${job.name}: ${Math.round(100 * data.done)} %`);
  } else if (data.type === "done") {
    waiting.delete(data.id);
    finish(job, data.duration_s);
  } else {
    waiting.delete(data.id);
    $("progress").hidden = true;
    say(data.message, true);
    if (job) job.reject(new Error(data.message));
  }
};

function show(job, segment) {
  if (!segment.text) return;
  const line = document.createElement("p");
  const time = document.createElement("time");
  time.textContent = clock(segment.start_s);
  line.append(time);
  for (const word of segment.words) {
    const span = document.createElement("span");
    span.textContent = word.text;
    if (word.start_s !== null) {
      span.title = `${word.start_s.toFixed(2)}–${word.end_s.toFixed(2)} s`;
    }
    line.append(span, " ");
  }
  job.article.append(line);
}

function finish(job, durationS) {
  latest = { name: job.name, segments: job.segments, durationS };
  const seconds = (performance.now() - job.begun) / 1000;
  const heard = job.segments.some((segment) => segment.text);
  if (!heard) job.article.append(Object.assign(document.createElement("p"), { textContent: "—" }));
  $("progress").hidden = true;
  $("downloads").hidden = false;
  say(`${job.name}: ${clock(durationS)} of sound in ${seconds.toFixed(1)} s.`);
  job.resolve({ segments: job.segments, duration_s: durationS, seconds });
}

function recognize(name, sound) {
  const article = document.createElement("article");
  article.append(Object.assign(document.createElement("h2"), { textContent: name }));
  $("transcripts").prepend(article);
  $("progress").hidden = false;
  $("progress").value = 0;
  return new Promise((resolve, reject) => {
    const id = nextId++;
    const begun = performance.now();
    waiting.set(id, { name, sound, article, segments: [], resolve, reject, begun });
    worker.postMessage({ type: "recognize", id, length: sound.length });
  });
}

// The mean of a recording's channels; the worker asks for a window after the other, so that a long
// recording is in memory once.
function mono(sound, start, end) {
  const samples = new Float32Array(end - start);
  for (let channel = 0; channel < sound.numberOfChannels; channel++) {
    const data = sound.getChannelData(channel);
    for (let i = start; i < end; i++) samples[i - start] += data[i] / sound.numberOfChannels;
  }
  return samples;
}

// Decoded at the model's rate at once: at its own, a long recording would fill the memory.
async function soundOfFile(file) {
  const context = new OfflineAudioContext(1, 1, model.sampling_rate);
  return context.decodeAudioData(await file.arrayBuffer());
}

async function openFile(file) {
  say(`Reading ${file.name} …`);
  try {
    return await recognize(file.name, await soundOfFile(file));
  } catch (error) {
    say(`${file.name}: ${error.name === "EncodingError" ? "no recording that this browser can read" : error.message}`, true);
    throw error;
  }
}

let recording = null;

async function startRecording() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  // At the device's own rate: not every browser records at another one.
  const context = new AudioContext();
  await context.audioWorklet.addModule("recorder.js");
  const node = new AudioWorkletNode(context, "recorder");
  const blocks = [];
  node.port.onmessage = ({ data }) => blocks.push(data);
  context.createMediaStreamSource(stream).connect(node);
  recording = { stream, context, blocks };
  $("record").textContent = "Stop";
  $("record").classList.add("on");
  say("Listening …");
}

async function stopRecording() {
  const { stream, context, blocks } = recording;
  recording = null;
  for (const track of stream.getTracks()) track.stop();
  await context.close();
  $("record").textContent = "Record";
  $("record").classList.remove("on");
  const length = blocks.reduce((sum, block) => sum + block.length, 0);
  if (!length) {
    say("The microphone gave no sound.", true);
    return;
  }
  const buffer = new AudioBuffer({ length, sampleRate: context.sampleRate, numberOfChannels: 1 });
  let place = 0;
  for (const block of blocks) {
    buffer.copyToChannel(block, 0, place);
    place += block.length;
  }
  const wanted = Math.ceil((length * model.sampling_rate) / context.sampleRate);
  const offline = new OfflineAudioContext(1, wanted, model.sampling_rate);
  const source = offline.createBufferSource();
  source.buffer = buffer;
  source.connect(offline.destination);
  source.start();
  const name = `Recording of ${new Date().toLocaleTimeString()}`;
  await recognize(name, await offline.startRendering());
}

$("file").onchange = async ({ target }) => {
  for (const file of target.files) await openFile(file).catch(() => {});
  target.value = "";
};
$("record").onclick = () =>
  (recording ? stopRecording() : startRecording()).catch((error) => say(error.message, true));
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  if (model) for (const file of event.dataTransfer.files) await openFile(file).catch(() => {});
});
for (const button of document.querySelectorAll("[data-format]")) {
  button.onclick = () => {
    const { format } = button.dataset;
    const text = WRITERS[format](latest.segments, latest.durationS);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = `${latest.name.replace(/\.[^.]*$/, "")}.${format}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
}
if ("serviceWorker" in navigator) {
  navigator.serviceWorker.register("sw.js").catch(() => {}); // a file:// page has none
  navigator.serviceWorker.ready.then(() => {
    $("offline").hidden = false;
  });
}
say("Loading the model …");
worker.postMessage({ type: "load" });
