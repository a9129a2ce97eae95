// One recording on the page: its sound, its words, and what can be done with them.

import { transcribe, writeDocument } from "./api.js";
import { explainWord } from "./tree.js";
import { PIXELS_PER_S, decode, draw, play } from "./waveform.js";
import { clock, fillWords, languageName, t } from "./words.js";

const FORMATS = [
  ["text", "TXT", "txt"],
  ["srt", "SRT", "srt"],
  ["vtt", "VTT", "vtt"],
  ["eaf", "EAF", "eaf"],
  ["textgrid", "TextGrid", "TextGrid"],
];
const GAP = 6; // pixels between words

export class RecordingView {
  constructor(blob, name, choices, onProblem) {
    Object.assign(this, { blob, name, choices, onProblem });
    const template = document.getElementById("recording-template");
    this.element = template.content.firstElementChild.cloneNode(true);
    fillWords(this.element);
    this.find(".name").textContent = name;
    this.find("audio").src = URL.createObjectURL(blob);
    this.find("audio").setAttribute("aria-label", name);
    this.find(".again").onclick = () => this.hear(this.choices.now());
    this.find(".remove").onclick = () => this.remove();
    this.find(".actions .group").setAttribute("aria-label", t("save_as"));
    this.find(".actions").hidden = true;
    for (const [format, label, ending] of FORMATS) this.addDownload(format, label, ending);
    this.sound = decode(blob);
  }

  find(selector) {
    return this.element.querySelector(selector);
  }

  addDownload(format, label, ending) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "second-button small";
    button.textContent = label;
    button.setAttribute("aria-label", t("save_title", { format: label }));
    button.onclick = () => this.save(format, ending);
    this.find(".downloads").append(button);
  }

  async hear(choices) {
    this.stopping?.abort();
    this.stopping = new AbortController();
    const state = this.find(".state");
    state.hidden = false;
    state.textContent = t("hearing");
    this.element.setAttribute("aria-busy", "true");
    this.find(".segments").replaceChildren();
    try {
      this.found = await transcribe(this.blob, this.name, choices, {
        signal: this.stopping.signal,
        onBusy: () => (state.textContent = t("error_busy")),
      });
      this.model = choices.model;
      await this.show(choices);
      state.textContent = this.found.text ? t("done") : t("nothing_said");
      state.hidden = Boolean(this.found.text);
    } catch (error) {
      if (error.name === "AbortError") return;
      state.textContent = t(error.word ?? "error_server");
      this.onProblem(error);
    } finally {
      this.element.removeAttribute("aria-busy");
      this.find(".actions").hidden = false;
      this.find(".actions .group").hidden = !this.found?.text;
    }
  }

  async show(choices) {
    const { found } = this;
    const known = found.language !== "und";
    this.find(".facts").textContent = t(known ? "facts_language" : "facts", {
      duration: clock(found.duration),
      model: choices.model,
      language: known ? languageName(found.language) : "",
    });
    const sound = await this.sound;
    const note = this.find(".no-picture");
    note.hidden = typeof sound !== "string";
    if (!note.hidden) note.textContent = t(sound);
    const drawable = note.hidden ? sound : null;
    const segments = found.segments.filter((segment) => segment.text);
    this.find(".segments").replaceChildren(
      ...segments.map((segment) => this.segmentView(segment, drawable)),
    );
    for (const view of this.element.querySelectorAll(".segment")) view.place();
  }

  segmentView(segment, sound) {
    const view = document.createElement("div");
    view.className = "segment";
    const strip = document.createElement("div");
    strip.className = "strip";
    const canvas = document.createElement("canvas");
    canvas.setAttribute("aria-hidden", "true");
    const redraw = (marked) => sound && draw(canvas, sound, segment.start, segment.end, marked);
    redraw();
    const list = document.createElement("div");
    list.className = "words";
    list.setAttribute("role", "group");
    const times = { start: clock(segment.start), end: clock(segment.end) };
    list.setAttribute("aria-label", t("segment_words", times));
    const words = this.found.words.filter(
      (word) => word.start >= segment.start - 0.001 && word.start < segment.end,
    );
    const select = (word, button) => {
      for (const other of this.element.querySelectorAll(".word")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
      for (const open of this.element.querySelectorAll(".why")) open.remove();
      redraw(word);
      if (sound) play(sound, word.start, word.end);
      const close = () => {
        view.querySelector(".why")?.remove();
        button.setAttribute("aria-pressed", "false");
        redraw();
        button.focus();
      };
      view.append(explainWord(word.word, unitsOf(segment, words, word), this.model, close));
    };
    const buttons = words.map((word) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "word";
      button.textContent = word.word;
      button.title = t("play_word", { word: word.word });
      button.setAttribute("aria-pressed", "false");
      button.onclick = () => select(word, button);
      return button;
    });
    list.append(...buttons);
    if (sound) strip.append(canvas);
    strip.append(list);
    strip.onkeydown = (event) => moveFocus(event, buttons);
    view.append(strip);
    view.place = () => sound && placeWords(list, buttons, words, segment.start);
    if (!sound) list.classList.add("flowing");
    return view;
  }

  async save(format, ending) {
    const transcript = {
      duration_s: this.found.duration,
      segments: this.found.segments.map((segment) => ({
        start_s: segment.start,
        end_s: segment.end,
        text: segment.text,
        confidence: segment.confidence,
        words: this.found.words
          .filter((word) => word.start >= segment.start - 0.001 && word.start < segment.end)
          .map((word) => ({
            text: word.word,
            start_s: word.start,
            end_s: word.end,
            confidence: segment.confidence,
          })),
      })),
    };
    try {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await writeDocument(format, transcript));
      link.download = `${this.name.replace(/\.[^.]*$/, "")}.${ending}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } catch (error) {
      this.onProblem(error);
    }
  }

  remove() {
    this.stopping?.abort();
    URL.revokeObjectURL(this.find("audio").src);
    this.element.remove();
    document.getElementById("recordings").focus();
    document.dispatchEvent(new Event("recordings-changed"));
  }
}

// Words stand under their sound, and move on where two would overlap.
function placeWords(list, buttons, words, start) {
  let free = 0;
  buttons.forEach((button, place) => {
    const left = Math.max(free, (words[place].start - start) * PIXELS_PER_S);
    button.style.insetInlineStart = `${left}px`;
    free = left + button.offsetWidth + GAP;
  });
  list.style.inlineSize = `${free}px`;
}

function moveFocus(event, buttons) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const place = buttons.indexOf(document.activeElement);
  if (!step || place < 0) return;
  const next = buttons[place + (document.documentElement.dir === "rtl" ? -step : step)];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

// The units of a word: words are stretches of units between spaces, in the same order.
function unitsOf(segment, words, word) {
  const units = (segment.units ?? []).filter((unit) => !/^<.+>$/.test(unit.unit));
  const place = words.indexOf(word);
  const isSpace = (unit) => unit.unit === " ";
  const starts = (unit) => unit.unit.startsWith("\u2581"); // a BPE piece that begins a word
  const groups = [[]];
  for (const unit of units) {
    if (isSpace(unit) || starts(unit)) groups.push([]);
    if (!isSpace(unit)) groups.at(-1).push(unit);
  }
  const whole = groups.filter((group) => group.length);
  if (whole.length === words.length) return whole[place];
  // Phones, and scripts without spaces: by time.
  const inside = ({ start_s, end_s }) => start_s < word.end && end_s > word.start;
  return units.filter((unit) => unit.start_s !== null && inside(unit));
}
