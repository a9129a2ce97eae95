// The microphone: at its own rate, because some browsers offer no other; the server resamples.

import { ApiError } from "./api.js";

const MOST_S = 3600;

export async function openMicrophone(onFrame) {
  if (!navigator.mediaDevices?.getUserMedia) throw new ApiError("error_microphone_insecure");
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
    });
  } catch (error) {
    const words = {
      NotAllowedError: "error_microphone_denied",
      NotFoundError: "error_microphone_missing",
    };
    throw new ApiError(words[error.name] ?? "error_microphone", error.message);
  }
  const context = new AudioContext();
  await context.audioWorklet.addModule("/page/capture-worklet.js");
  await context.resume();
  const source = context.createMediaStreamSource(stream);
  const capture = new AudioWorkletNode(context, "capture", { numberOfOutputs: 0 });
  const frames = [];
  let numSamples = 0;
  capture.port.onmessage = ({ data }) => {
    const samples = toInt16(data);
    if (numSamples < MOST_S * context.sampleRate) frames.push(samples);
    numSamples += samples.length;
    onFrame(samples, loudness(data));
  };
  source.connect(capture);
  return {
    rate: context.sampleRate,
    async close() {
      source.disconnect();
      for (const track of stream.getTracks()) track.stop();
      await context.close();
      return toWav(frames, context.sampleRate);
    },
  };
}

function toInt16(samples) {
  const whole = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i += 1) {
    whole[i] = Math.round(Math.max(-1, Math.min(1, samples[i])) * 32767);
  }
  return whole;
}

// 0 to 1, from -60 dB to full scale.
function loudness(samples) {
  let power = 0;
  for (const sample of samples) power += sample * sample;
  const decibels = 10 * Math.log10(power / samples.length + 1e-12);
  return Math.max(0, Math.min(1, (decibels + 60) / 60));
}

function toWav(frames, rate) {
  const numBytes = frames.reduce((sum, frame) => sum + frame.byteLength, 0);
  const head = new DataView(new ArrayBuffer(44));
  const text = (place, letters) => {
    for (let i = 0; i < letters.length; i += 1) head.setUint8(place + i, letters.charCodeAt(i));
  };
  text(0, "RIFF");
  head.setUint32(4, 36 + numBytes, true);
  text(8, "WAVEfmt ");
  head.setUint32(16, 16, true);
  head.setUint16(20, 1, true);
  head.setUint16(22, 1, true);
  head.setUint32(24, rate, true);
  head.setUint32(28, 2 * rate, true);
  head.setUint16(32, 2, true);
  head.setUint16(34, 16, true);
  text(36, "data");
  head.setUint32(40, numBytes, true);
  return new Blob([head, ...frames], { type: "audio/wav" });
}
