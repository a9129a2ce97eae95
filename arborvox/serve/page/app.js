// The page: choices, recordings brought or spoken, and plain words where something fails.

import { getExample, listExamples, listen, listModels } from "./api.js";
import { askForToken, clearNotice, tell } from "./notice.js";
import { getProject } from "./project_api.js";
import { openMicrophone } from "./recorder.js";
import { RecordingView } from "./recording.js";
import { languageName, loadWords, t } from "./words.js";

const at = (id) => document.getElementById(id);

let models = [];
let numRecorded = 0;

const choices = {
  now: () => ({
    model: at("model").value,
    language: at("language").value,
    inventory: at("inventory").value,
  }),
};

// --- choices ---------------------------------------------------------------------------------

function fill(select, options) {
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  if (options.some(([value]) => value === before)) select.value = before;
}

function showChoices() {
  const model = models.find(({ id }) => id === at("model").value);
  if (!model) return;
  const languages = model.languages.map((code) => [code, `${languageName(code)} (${code})`]);
  fill(at("language"), [["", t("any_language")], ...languages]);
  fill(at("inventory"), [["", t("all_units")], ...model.inventories.map((name) => [name, name])]);
  at("inventory-field").hidden = !model.inventories.length;
}

// --- recordings ------------------------------------------------------------------------------

function addRecording(blob, name) {
  clearNotice();
  const view = new RecordingView(blob, name, choices, tell);
  at("recordings").prepend(view.element);
  at("empty").hidden = true;
  view.element.scrollIntoView({ block: "nearest" });
  return view.hear(choices.now());
}

// One after the other: the server works on several, but a person reads one at a time.
async function addFiles(files) {
  for (const file of files) await addRecording(file, file.name);
}

function takeDrops() {
  const zone = at("drop");
  let depth = 0;
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => event.preventDefault());
  zone.addEventListener("dragenter", () => {
    depth += 1;
    zone.classList.add("is-over");
  });
  zone.addEventListener("dragleave", () => {
    depth -= 1;
    if (!depth) zone.classList.remove("is-over");
  });
  zone.addEventListener("drop", (event) => {
    depth = 0;
    zone.classList.remove("is-over");
    addFiles([...event.dataTransfer.files]);
  });
  at("choose").onclick = () => at("file").click();
  at("file").onchange = async () => {
    const files = [...at("file").files];
    at("file").value = ""; // so that the same file can be chosen again
    await addFiles(files);
  };
}

async function showExamples() {
  const examples = await listExamples();
  at("examples").hidden = !examples.length;
  const items = examples.map(({ number, name }) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "second-button small";
    button.textContent = name;
    button.onclick = async () => {
      try {
        await addRecording(await getExample(number), name);
      } catch (error) {
        tell(error);
      }
    };
    item.append(button);
    return item;
  });
  at("examples").querySelector("ul").replaceChildren(...items);
}

// --- speaking --------------------------------------------------------------------------------

let speaking = null;

async function startSpeaking() {
  clearNotice();
  at("said").textContent = at("saying").textContent = "";
  let session = null;
  const early = [];
  const microphone = await openMicrophone((samples, loudness) => {
    showLevel(loudness);
    if (session) session.send(samples);
    else early.push(samples);
  });
  session = listen(microphone.rate, choices.now(), {
    onPartial: (text) => (at("saying").textContent = text),
    onResult: (text) => {
      at("said").textContent = `${at("said").textContent} ${text}`.trim();
      at("saying").textContent = "";
    },
    onError: (error) => {
      tell(error);
      stopSpeaking();
    },
  });
  for (const samples of early.splice(0)) session.send(samples);
  speaking = { microphone, session };
  showSpeaking(true);
}

async function stopSpeaking() {
  if (!speaking) return;
  const { microphone, session } = speaking;
  speaking = null;
  const blob = await microphone.close();
  await session.finish();
  showSpeaking(false);
  numRecorded += 1;
  await addRecording(blob, `${t("recorded_name", { number: numRecorded })}.wav`);
}

function showSpeaking(is) {
  at("live").hidden = !is;
  at("record").setAttribute("aria-pressed", String(is));
  at("record-label").textContent = t(is ? "stop" : "record");
  for (const id of ["model", "language", "inventory", "choose"]) at(id).disabled = is;
}

function showLevel(loudness) {
  const share = Math.round(100 * loudness);
  at("level").setAttribute("aria-valuenow", String(share));
  at("level").firstElementChild.style.inlineSize = `${share}%`;
}

// --- start -----------------------------------------------------------------------------------

async function begin() {
  try {
    models = await listModels();
    fill(at("model"), models.map(({ id }) => [id, id]));
    showChoices();
    await showExamples();
    at("to-project").hidden = !(await getProject());
    clearNotice();
  } catch (error) {
    tell(error);
  }
}

await loadWords();
askForToken(begin);
at("level").setAttribute("aria-label", t("level"));
at("model").onchange = showChoices;
at("record").onclick = async () => {
  at("record").disabled = true;
  try {
    await (speaking ? stopSpeaking() : startSpeaking());
  } catch (error) {
    tell(error);
  } finally {
    at("record").disabled = false;
  }
};
document.addEventListener("recordings-changed", () => {
  at("empty").hidden = at("recordings").childElementCount > 0;
});
takeDrops();
await begin();
document.body.dataset.ready = "true";
