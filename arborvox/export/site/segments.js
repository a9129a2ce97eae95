// Long recordings cut at their pauses; the same rules and numbers as arborvox/decode/segments.py.

const HOP_S = 0.02;
const SMOOTHING_HOPS = 5;
const MIN_PAUSE_S = 0.4;
const MARGIN_S = 0.2;
const MIN_SPEECH_S = 0.06;
const QUIET_SHARE = 0.35;
const MIN_CONTRAST_DB = 12.0;
const SILENCE_DB = -60.0;
const TINY_POWER = 1e-12;

function levels(samples, rate) {
  const hop = Math.round(HOP_S * rate);
  const power = [];
  for (let start = 0; start < samples.length; start += hop) {
    const end = Math.min(start + hop, samples.length);
    let sum = 0;
    for (let i = start; i < end; i++) sum += samples[i] * samples[i];
    power.push(sum / (end - start));
  }
  const width = Math.min(SMOOTHING_HOPS, power.length);
  const before = width - 1 - ((width - 1) >> 1);
  return power.map((_, i) => {
    let sum = 0;
    let count = 0;
    for (let j = i - before; j < i - before + width; j++) {
      if (j >= 0 && j < power.length) {
        sum += power[j];
        count += 1;
      }
    }
    return 10 * Math.log10(sum / count + TINY_POWER);
  });
}

function percentile(sorted, share) {
  const place = ((sorted.length - 1) * share) / 100;
  const low = Math.floor(place);
  const high = Math.min(low + 1, sorted.length - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (place - low);
}

function runs(flags) {
  const found = [];
  flags.forEach((flag, i) => {
    if (flag && !flags[i - 1]) found.push([i, i + 1]);
    else if (flag) found[found.length - 1][1] = i + 1;
  });
  return found;
}

function pauses(levelsDb) {
  const sorted = Float64Array.from(levelsDb).sort();
  const floor = percentile(sorted, 5);
  const loud = percentile(sorted, 95);
  const limit =
    loud - floor < MIN_CONTRAST_DB
      ? SILENCE_DB
      : Math.max(floor + QUIET_SHARE * (loud - floor), SILENCE_DB);
  return runs(levelsDb.map((level) => level < limit)).filter(
    ([begin, end]) =>
      (end - begin) * HOP_S >= MIN_PAUSE_S || begin === 0 || end === levelsDb.length,
  );
}

function* speechIn(samples, start, rate, isLong) {
  const levelsDb = levels(samples, rate);
  if (!levelsDb.length || levelsDb.reduce((a, b) => Math.max(a, b)) < SILENCE_DB) return;
  let spans = [[0, levelsDb.length]];
  if (isLong) {
    const silent = new Array(levelsDb.length).fill(false);
    for (const [begin, end] of pauses(levelsDb)) silent.fill(true, begin, end);
    spans = runs(silent.map((flag) => !flag)).filter(
      ([begin, end]) => (end - begin) * HOP_S >= MIN_SPEECH_S,
    );
  }
  const hop = Math.round(HOP_S * rate);
  const margin = Math.round(MARGIN_S * rate);
  for (const [first, last] of spans) {
    const begin = Math.max(0, first * hop - margin);
    const end = Math.min(samples.length, last * hop + margin);
    yield { start: start + begin, samples: samples.subarray(begin, end) };
  }
}

function lastPause(samples, rate) {
  const levelsDb = levels(samples, rate);
  const hop = Math.round(HOP_S * rate);
  const found = pauses(levelsDb).filter(([a, b]) => ((a + b) * HOP_S) / 2 >= MIN_PAUSE_S);
  if (found.length) {
    const [a, b] = found[found.length - 1];
    return ((a + b) >> 1) * hop;
  }
  const middle = levelsDb.length >> 1;
  let quietest = middle;
  for (let i = middle; i < levelsDb.length; i++) if (levelsDb[i] < levelsDb[quietest]) quietest = i;
  return Math.max(1, quietest * hop);
}

// Yield {start, samples} of at most maxSegmentS seconds; a recording that fits is not cut.
// read(start, end) gives samples, so that no more than a window of them needs to be here.
export async function* splitAtPauses(read, length, rate, maxSegmentS) {
  const window = Math.round(maxSegmentS * rate);
  let start = 0;
  let isLong = false;
  while (length - start > window) {
    isLong = true;
    const samples = await read(start, start + window);
    const cut = lastPause(samples, rate);
    yield* speechIn(samples.subarray(0, cut), start, rate, isLong);
    start += cut;
  }
  yield* speechIn(await read(start, length), start, rate, isLong);
}
