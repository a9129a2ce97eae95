// Tokens to words with their times, and a transcript to text, subtitles and JSON.

const PIECE_SPACE = "▁";
const UNKNOWN = 1;

export function decodeTokens(tokens, model) {
  const units = [];
  const special = numSpecial(model);
  for (const token of tokens) {
    if (token >= special) units.push(model.units[token]);
    else if (token === UNKNOWN) units.push("\ufffd");
  }
  if (model.unit === "phone") return units.join(" ");
  if (model.unit !== "bpe") return units.join("");
  const bytes = [];
  for (const unit of units) {
    const byte = /^<0x([0-9A-F]{2})>$/.exec(unit);
    bytes.push(...(byte ? [parseInt(byte[1], 16)] : new TextEncoder().encode(unit)));
  }
  return new TextDecoder().decode(Uint8Array.from(bytes)).replaceAll(PIECE_SPACE, " ").replace(/^ /, "");
}

export function numSpecial(model) {
  return 2 + (model.language_tags ? model.languages.length : 0);
}

const round = (value) => Math.round(value * 1000) / 1000;

export function wordsOf(tokens, alignment, startS, model) {
  const groups = [[]];
  tokens.forEach((token, place) => {
    const unit = model.units[token];
    if (model.unit === "phone" || unit === " " || unit.startsWith(PIECE_SPACE)) groups.push([]);
    if (unit !== " ") groups[groups.length - 1].push(place);
  });
  const words = [];
  for (const group of groups) {
    const text = decodeTokens(group.map((place) => tokens[place]), model).trim();
    if (!text) continue;
    const units = alignment ? group.map((place) => alignment[place]) : [];
    const mean = units.reduce((sum, unit) => sum + Math.exp(unit.mean), 0) / (units.length || 1);
    words.push({
      text,
      start_s: units.length ? round(startS + units[0].begin * model.state_s) : null,
      end_s: units.length ? round(startS + units[units.length - 1].end * model.state_s) : null,
      confidence: Math.round(mean * 1e4) / 1e4,
    });
  }
  return words;
}

function clock(seconds, point) {
  const ms = Math.round(seconds * 1000);
  const part = (value, size) => String(value).padStart(size, "0");
  const [h, m, s] = [Math.floor(ms / 3600000), Math.floor(ms / 60000) % 60, Math.floor(ms / 1000) % 60];
  return `${part(h, 2)}:${part(m, 2)}:${part(s, 2)}${point}${part(ms % 1000, 3)}`;
}

export const WRITERS = {
  txt: (segments) => segments.map((segment) => segment.text).filter(Boolean).join("\n") + "\n",
  srt: (segments) =>
    segments
      .filter((segment) => segment.text)
      .map(
        (segment, n) =>
          `${n + 1}\n${clock(segment.start_s, ",")} --> ${clock(segment.end_s, ",")}\n${segment.text}\n`,
      )
      .join("\n"),
  json: (segments, durationS) =>
    `${JSON.stringify({ duration_s: durationS, segments }, null, 2)}\n`,
};
