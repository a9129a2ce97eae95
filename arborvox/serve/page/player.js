// The sound of one utterance: drawn as wide as the page, played, paused and played again.

import { decode, draw } from "./waveform.js";
import { t } from "./words.js";

const BACK_S = 1.5;
const MOST_PIXELS_PER_S = 400;
const at = (id) => document.getElementById(id);

export class Player {
  constructor() {
    this.audio = at("sound");
    this.sound = null;
    this.audio.onplay = this.audio.onpause = () => this.showState();
    this.audio.onended = () => this.showPlace();
    at("play").onclick = () => this.toggle();
    at("again").onclick = () => this.again();
    at("back").onclick = () => this.back();
    at("speed").onchange = () => (this.audio.playbackRate = Number(at("speed").value));
    at("wave").onclick = (event) => this.seek(event);
    new ResizeObserver(() => this.redraw()).observe(at("wave"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  async show(blob) {
    this.hide();
    this.address = URL.createObjectURL(blob);
    this.audio.src = this.address;
    this.audio.playbackRate = Number(at("speed").value);
    this.play();
    const { address } = this;
    const sound = await decode(blob);
    if (address !== this.address) return; // of another one by now
    const isDrawn = typeof sound !== "string";
    at("wave").hidden = !isDrawn;
    at("no-picture").hidden = isDrawn;
    if (!isDrawn) at("no-picture").textContent = t("no_wave");
    this.sound = isDrawn ? sound : null;
    this.redraw();
  }

  hide() {
    this.audio.pause();
    this.audio.removeAttribute("src");
    if (this.address) URL.revokeObjectURL(this.address);
    this.sound = this.address = null;
  }

  redraw() {
    const width = at("wave").clientWidth;
    if (!this.sound || !width) return;
    this.scale = Math.min(MOST_PIXELS_PER_S, width / this.sound.duration);
    draw(at("wave").firstElementChild, this.sound, 0, this.sound.duration, null, this.scale);
    this.showPlace();
  }

  toggle() {
    if (this.audio.paused) this.play();
    else this.audio.pause();
  }

  again() {
    this.audio.currentTime = 0;
    this.play();
  }

  back() {
    this.audio.currentTime = Math.max(0, this.audio.currentTime - BACK_S);
    this.play();
  }

  seek(event) {
    if (!this.sound) return;
    const x = event.clientX - at("wave").getBoundingClientRect().left;
    this.audio.currentTime = Math.min(this.sound.duration, x / this.scale);
    this.play();
  }

  play() {
    this.audio.play().catch(() => {}); // the next utterance has come, or the browser wants a click
  }

  showState() {
    at("play").querySelector(".label").textContent = t(this.audio.paused ? "play" : "pause");
    const follow = () => {
      this.showPlace();
      if (!this.audio.paused) requestAnimationFrame(follow);
    };
    follow();
  }

  showPlace() {
    at("playhead").style.insetInlineStart = `${this.audio.currentTime * (this.scale ?? 0)}px`;
  }
}
