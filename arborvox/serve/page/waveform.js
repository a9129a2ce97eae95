// A stretch of sound drawn to scale, and played.

export const PIXELS_PER_S = 150;
export const HEIGHT = 64;
const MOST_BYTES = 60e6; // decoded, a recording takes many times its size
const MOST_CANVAS = 8000; // pixels; wider ones some browsers leave blank

let context;

export function audioContext() {
  context ??= new AudioContext();
  return context;
}

// Returns the decoded sound, "too_long_to_draw" or "no_picture".
export async function decode(blob) {
  if (blob.size > MOST_BYTES) return "too_long_to_draw";
  try {
    return await audioContext().decodeAudioData(await blob.arrayBuffer());
  } catch {
    return "no_picture";
  }
}

export function draw(canvas, sound, start, end, marked = null, pixelsPerS = PIXELS_PER_S) {
  const width = Math.max(1, Math.round((end - start) * pixelsPerS));
  const scale = Math.min(window.devicePixelRatio || 1, MOST_CANVAS / width);
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.round(HEIGHT * scale);
  canvas.style.inlineSize = `${width}px`;
  canvas.style.blockSize = `${HEIGHT}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const peaks = peaksOf(sound, start, end, width);
  const loudest = Math.max(0.05, ...peaks.map(([low, high]) => Math.max(-low, high)));
  const half = HEIGHT / 2;
  for (let x = 0; x < width; x += 1) {
    const time = start + x / pixelsPerS;
    const isMarked = marked && time >= marked.start && time < marked.end;
    pen.fillStyle = style.getPropertyValue(isMarked ? "--accent" : "--wave");
    const [low, high] = peaks[x];
    const top = half - (high / loudest) * (half - 2);
    pen.fillRect(x, top, 1, Math.max(1, half - (low / loudest) * (half - 2) - top));
  }
}

// The lowest and highest sample of each pixel.
function peaksOf(sound, start, end, width) {
  const samples = sound.getChannelData(0);
  const first = start * sound.sampleRate;
  const step = ((end - start) * sound.sampleRate) / width;
  const peaks = [];
  for (let x = 0; x < width; x += 1) {
    let low = 0;
    let high = 0;
    const last = Math.min(samples.length, Math.ceil(first + (x + 1) * step));
    for (let i = Math.max(0, Math.floor(first + x * step)); i < last; i += 1) {
      if (samples[i] < low) low = samples[i];
      if (samples[i] > high) high = samples[i];
    }
    peaks.push([low, high]);
  }
  return peaks;
}

let playing;

export function play(sound, start, end) {
  stop();
  const from = Math.max(0, start - 0.05);
  playing = audioContext().createBufferSource();
  playing.buffer = sound;
  playing.connect(audioContext().destination);
  audioContext().resume();
  playing.start(0, from, Math.max(0.1, end + 0.05 - from));
}

export function stop() {
  try {
    playing?.stop();
  } catch {
    // it had not begun
  }
  playing = undefined;
}
