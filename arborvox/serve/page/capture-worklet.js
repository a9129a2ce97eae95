// Runs beside the microphone: passes its samples on in frames of about a twentieth of a second.

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.frame = new Float32Array(Math.round(sampleRate / 20));
    this.filled = 0;
  }

  process([input]) {
    if (!input.length) return true;
    const length = input[0].length;
    for (let i = 0; i < length; i += 1) {
      let sum = 0;
      for (const channel of input) sum += channel[i];
      this.frame[this.filled] = sum / input.length;
      this.filled += 1;
      if (this.filled === this.frame.length) {
        this.port.postMessage(this.frame.slice());
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor("capture", Capture);
